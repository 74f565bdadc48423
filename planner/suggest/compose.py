"""A configuration that was found → the text of its manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.suggest.configuration import flags

if TYPE_CHECKING:
    from planner.models.resolve import Resolved
    from planner.suggest.deployment import Suggestion
    from planner.suggest.search import Choice
    from planner.suggest.wanted import Wanted


def manifest_of(wanted: Wanted, resolved: Resolved, answer: Suggestion, choice: Choice) -> str:
    """The YAML documents of a choice."""
    from planner.facts.startup import load_seconds
    from planner.suggest.manifest import Service, name_of, render
    from planner.suggest.node_labels import node_label

    question, plan = answer.question, choice.judged.plan
    model = resolved.architecture
    weights = model.checkpoint_bytes or _weights(choice)
    load = load_seconds(plan)
    rocm = question.platform == "rocm"
    release = question.version.value
    output = answer.demand.workload.outputs.within(question.length).longest
    demand = dict(wanted.workload)
    return render(
        Service(
            name=wanted.name or name_of(question.model.value),
            namespace=wanted.namespace,
            image=f"vllm/vllm-openai{'-rocm' if rocm else ''}:v{release}",
            model=question.model.value,
            stands_for=(resolved.catalog_id or "") if question.model.value != resolved.catalog_id else "",
            words=_words(answer, choice),
            replicas=choice.replicas,
            pods=choice.layout.pods,
            gpus_per_pod=choice.layout.gpus_per_pod,
            resource="amd.com/gpu" if rocm else "nvidia.com/gpu",
            accelerator=answer.accelerator.name,
            label=node_label(answer.accelerator),
            gated=bool(resolved.gated) and not question.model.value.startswith("/"),
            weight_bytes=weights,
            usual_load=load["usual"] if load else 600,
            longest_output=round(output),
            workload={key: value for key, value in demand.items() if key != "trace"} if "trace" not in demand else {},
            comments=_head(answer, choice),
        )
    )


def _weights(choice: Choice) -> int:
    """Bytes of the whole model as its ranks hold it, where nobody measured the checkpoint."""
    budget = choice.judged.plan.budget
    return sum(rank.bytes("weights").expected for rank in budget.ranks) if budget else 0


def _words(answer: Suggestion, choice: Choice) -> tuple[tuple[str, str], ...]:
    """The flags with a comment at those that a reader may wonder about."""
    comments = {
        "max-model-len": answer.demand.length_source,
        "max-num-seqs": f"{choice.requests:,} at a time are planned for",
        "watermark": "the reserve, kept by the engine itself",
        "enforce-eager": "graphs do not fit beside the cache",
        "max-cudagraph-capture-size": "more graphs do not fit beside the cache",
        "kv-cache-dtype": cache_cost(choice.knobs.cache_dtype),
    }
    if not choice.knobs.watermark:
        most = min(choice.judged.most, choice.knobs.sequences)
        comments["max-num-seqs"] = f"as many keep the reserve; {comments['max-num-seqs']}"
        if most < choice.knobs.sequences:
            comments["max-num-seqs"] = f"{choice.requests:,} at a time are planned for"
    words = [
        (f"--{name}={value}" if value else f"--{name}", comments.get(name, ""))
        for name, value in flags(answer.question, choice.layout, choice.knobs)
    ]
    return (*words, *((word, "") for word in answer.question.fixed))


def cache_cost(cache_dtype: str) -> str:
    """What a ``--kv-cache-dtype`` that the search has chosen means."""
    if cache_dtype.startswith("fp8"):
        return "halves the cache; changes results slightly"
    return "the checkpoint asks for FP8, which does not do here"


def _head(answer: Suggestion, choice: Choice) -> tuple[str, ...]:
    each = f"{choice.replicas} replica{'s' if choice.replicas > 1 else ''} of {choice.layout.text}"
    return (
        f"planner suggest: {answer.question.model.value} on {answer.accelerator.name}, {each}",
        f"for {answer.demand.workload.describe()}",
    )
