"""Published configs and checkpoint sizes (shared/reference), where the folder is there."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from planner.models.architecture import ModelArchitecture, UnknownModel
from planner.models.config import architecture, matrix_parameters, vector_parameters

REFERENCE = Path(__file__).resolve().parents[2].parent / "shared" / "reference"
pytestmark = pytest.mark.skipif(not (REFERENCE / "model-configs").is_dir(), reason="shared/reference is not there")
#: What is refused so far: nobody has described these classes yet.
REFUSED = {
    "LlavaLlamaForCausalLM",
    "MiniCPMV4_6ForConditionalGeneration",
    "MiniMaxM3ForCausalLM",
    "MolmoForCausalLM",
    "MuseGlimmerAssistantModel",
    "MuseGlimmerForConditionalGeneration",
    "Step3p7FlashForCausalLM",
    "",
}


def configs() -> list[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    found = []
    for file in sorted((REFERENCE / "model-configs").glob("*_config.json")):
        if file.name.endswith("_hf_quant_config.json"):
            continue
        separate = file.with_name(file.name.replace("_config.json", "_hf_quant_config.json"))
        quantization = json.loads(separate.read_text()) if separate.is_file() else None
        found.append(
            (file.name[: -len("_config.json")].replace("--", "/", 1), json.loads(file.read_text()), quantization)
        )
    return found


def understood() -> dict[str, ModelArchitecture]:
    models = {}
    for name, config, quantization in configs():
        kind = (config.get("architectures") or [""])[0]
        if kind in REFUSED:
            with pytest.raises(UnknownModel):
                architecture(config, quantization)
        else:
            models[name] = architecture(config, quantization, id=name)
    return models


def draft_parameters(model: ModelArchitecture) -> int:
    return sum(
        sum(map(matrix_parameters, layer.matrices)) + sum(map(vector_parameters, layer.vectors))
        for layer in model.mtp_layers
    )


def test_published_configs_and_parameter_counts() -> None:
    models = understood()
    assert len(models) > 240
    counted, near = 0, 0
    far = []
    with (REFERENCE / "checkpoint-bytes.tsv").open() as stream:
        for row in csv.DictReader(stream, delimiter="\t"):
            model = models.get(row["id"])
            if model is None or not row["total_parameters"] or model.quantization:
                continue
            counted += 1
            published = int(row["total_parameters"])
            head = (
                model.vocab_size * model.hidden_size if model.tied_embeddings else 0
            )  # some files repeat the embedding
            candidates = (0, draft_parameters(model), head, draft_parameters(model) + head)
            if min(abs(model.parameters + extra - published) for extra in candidates) <= 0.005 * published:
                near += 1
            else:
                far.append((row["id"], model.parameters, published))
    assert counted > 100
    assert near >= 0.93 * counted, far
