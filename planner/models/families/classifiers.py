"""Language models that score or embed instead of writing: a known stack, without the output head."""

from __future__ import annotations

from importlib import import_module

from planner.models.architecture import Vector
from planner.models.builder import Builder, Parts
from planner.models.families.table import FAMILIES


def _stack(builder: Builder, ending: str) -> Parts:
    """The causal model of the same family."""
    family = FAMILIES[builder.architecture.removesuffix(ending) + "ForCausalLM"]
    parts: Parts = getattr(import_module(f"planner.models.families.{family[0]}"), family[1])(builder)
    return parts._replace(head=None, pooling=True)


def embedder(builder: Builder) -> Parts:
    """LlamaModel, Qwen3Model …: hidden states are pooled."""
    return _stack(builder, "Model")


def classifier(builder: Builder) -> Parts:
    """…ForSequenceClassification: one row per label, without bias."""
    parts = _stack(builder, "ForSequenceClassification")
    labels = builder.config.raw("id2label")
    count = len(labels) if isinstance(labels, dict) and 0 < len(labels) < 100_000 else 0
    count = count or builder.config.count("num_labels", default=1) or 1
    return parts._replace(final_vectors=(*parts.final_vectors, Vector("score", count * builder.hidden)))


def reward(builder: Builder) -> Parts:
    """Qwen2ForRewardModel: two layers with biases on top."""
    parts = _stack(builder, "ForRewardModel")
    hidden = builder.hidden
    score = Vector("score", hidden * (hidden + 1) + builder.config.count("num_labels", default=1) * (hidden + 1))
    return parts._replace(final_vectors=(*parts.final_vectors, score))
