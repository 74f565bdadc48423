"""Facts of the parallel sizes against GPUs and pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.environment import script_text
from planner.facts.places import is_gap
from planner.provenance import Position

if TYPE_CHECKING:
    from planner.engines.config import Parallelism
    from planner.plan import Plan


_DYNAMO = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:"
_FLAGS = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")


def sizes_of(plan: Plan) -> Parallelism | None:
    """The parallel sizes: effective where the model is known, else from the flags alone; None where a variable hides them."""
    if is_gap(plan, "parallel"):
        return None
    if plan.effective is not None:
        return plan.effective.parallel
    from planner.engines.dispatch import engine_modules

    modules = engine_modules(plan.engine.engine)
    gpus = plan.gpus_per_pod.value if plan.gpus_per_pod else None
    return modules.parallelism(plan.engine, gpus, plan.pods) if modules else None


def parallel_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """Sizes, the GPUs they need and have, and what does not divide (``indivisible``)."""
    stated = [name for name in _FLAGS if f"engine.flags.{name}" in positions]
    # The flag that multiplies; where all are one, the first that is there.
    stated.sort(key=lambda name: plan.engine.get(name) in (None, 1))
    if stated:
        positions["parallel"] = positions[f"engine.flags.{stated[0]}"]
    sizes = sizes_of(plan)
    if sizes is None:
        return {}
    facts: dict[str, Any] = {
        "tensor": sizes.tensor,
        "pipeline": sizes.pipeline,
        "data": sizes.data,
        "data_local": sizes.data_local,
        "world": sizes.world,
        "expert": sizes.expert,
        "context": sizes.context,
        "gpus_needed": sizes.world * sizes.data_local,
        "gpus_total": sizes.world * sizes.data,
        "pods": plan.pods,
        "fabric_between_pods": _fabric_between_pods(plan),
    }
    if plan.gpus_per_pod is not None:
        facts["gpus_available"] = plan.gpus_per_pod.value * plan.pods
    backend = facts["backend"] = _backend(plan)
    facts["ranks_in_pod"] = _ranks_in_pod(plan, sizes)
    facts["backend_problem"] = _backend_problem(plan, backend)
    if plan.model is not None:
        if plan.model.kv_heads:
            facts["kv_copies"] = max(1, sizes.tensor // plan.model.kv_heads)
        facts["indivisible"] = indivisible_facts(plan, sizes)
    return facts


def _fabric_between_pods(plan: Plan) -> bool:
    """Whether the pods hold a channel of NVIDIA's ComputeDomain: NVLink connects their nodes (GB200 NVL72 and the like)."""
    pod = plan.pod
    return pod is not None and (
        any(request.device_class.startswith("compute-domain") for request in pod.claim_requests)
        or any("compute-domain" in template for _, template in pod.resource_claims)
    )


def _ranks_in_pod(plan: Plan, sizes: Parallelism) -> int:
    """Ranks that share the container's /dev/shm."""
    needed = sizes.world * sizes.data_local
    return min(needed, plan.gpus_per_pod.value) if plan.gpus_per_pod and plan.pods > 1 else needed


def _backend_problem(plan: Plan, backend: str) -> str:
    """Why an engine that spans pods cannot: empty where it can, or where that is not known."""
    version = plan.engine.version.value
    if "vllm" not in plan.engine.engine:
        # SGLang connects its ranks itself, TensorRT-LLM by MPI
        apart = plan.engine.engine == "sglang" and plan.engine.platform == "cuda" and not backend
        return "and no --nnodes connects them" if apart else ""
    if backend == "ray" and not _ray_in_image(plan):
        image = plan.container.image.value if plan.container and plan.container.image else ""
        where = image[:120] if image.startswith(_DYNAMO) else f"the official image of vLLM {version}"
        return f"through Ray, which {where} does not hold"
    if backend == "nodes" and plan.engine.version_key < (0, 11, 1) and not plan.engine.version_assumed:
        return f"with --nnodes, which vLLM {version} does not know (it came with 0.11.1)"
    if not backend and plan.engine.platform == "cuda":
        return "and neither Ray nor --nnodes connects them"
    return ""


def indivisible_facts(plan: Plan, sizes: Parallelism) -> list[dict[str, Any]]:
    """Dimensions that the engine must split evenly and cannot: what, how many, by how many.

    Source: vLLM's checks, reference on vLLM's memory, 4.2 and 8 (heads, KV replication, intermediate size, quantization
    blocks of row-parallel layers).
    """
    from planner.engines.config import Parallelism
    from planner.memory.divisibility import indivisible

    model = plan.model
    if model is None:
        return []
    version = (plan.engine.version_key,) if plan.engine.engine == "vllm" and plan.engine.version_key else ()
    if plan.engine.engine.endswith("sglang"):
        # each copy of the attention has its share of the ranks, and an embedding of its own (layers/dp_attention.py)
        from planner.engines.sglang_defaults import attention_data_size

        copies = attention_data_size(plan.engine)
        sizes = Parallelism(max(1, sizes.tensor // copies), expert=sizes.expert or copies > 1)
    return [{"what": entry.what, "count": entry.count, "by": entry.by} for entry in indivisible(model, sizes, *version)]


def _backend(plan: Plan) -> str:
    """What lets one engine copy span pods: ``ray``, ``nodes`` (--nnodes), ``data-parallel`` (its own rendezvous),
    ``other`` (an executor of another name, or an operator that connects the pods) or empty.

    Source: vLLM's parallel configuration; --nnodes from 0.11.1 on.
    """
    engine = plan.engine
    executor = str(engine.get("distributed-executor-backend") or _annotated_backend(plan)).lower()
    if executor == "ray" or _named_ray(plan):
        return "ray"
    if "nnodes" in engine.flags or "node-rank" in engine.flags or "master-addr" in engine.flags:
        return "nodes"
    if any(name.startswith("data-parallel-") and name != "data-parallel-size" for name in engine.flags):
        return "data-parallel"
    if executor and executor not in ("mp", "uni"):
        return "other"
    script = _script(plan)
    if "ray start" in script or "multi-node-serving.sh" in script or "ray_init" in script:
        return "ray"
    return "other" if plan.workload is not None and plan.workload.connected else ""


def _annotated_backend(plan: Plan) -> str:
    """What an annotation tells Dynamo's operator to start a multi-node component with (``mp`` or ``ray``)."""
    stated = plan.pod.annotations.get("nvidia.com/vllm-distributed-executor-backend") if plan.pod is not None else None
    return stated.value if stated is not None else ""


def _ray_in_image(plan: Plan) -> bool:
    """Whether the engine's image holds Ray, as far as is known: the official vLLM images dropped it after 0.17.1 (F128,
    F148), Dynamo's from 1.3.0 on (F149); an image of somebody else, or a script that installs it, may well have it."""
    image = plan.container.image.value if plan.container and plan.container.image else ""
    if image.startswith(_DYNAMO):
        from planner.engines.version import is_version, parse_version

        tag = image.rpartition(":")[2]
        return not (is_version(tag) and parse_version(tag) >= (1, 3, 0))
    official = image.startswith(("vllm/vllm-openai", "docker.io/vllm/vllm-openai"))
    dropped = plan.engine.version_key >= (0, 18) and not plan.engine.version_assumed
    return not (official and dropped) or "ray" in _installed(_script(plan))


def _named_ray(plan: Plan) -> bool:
    """Whether a variable tells the engine of a Ray cluster (RAY_ADDRESS and its like)."""
    names = [*(plan.container.env if plan.container is not None else ())]
    names += [name for name, _ in plan.start.environment] if plan.start is not None else []
    return any(name.startswith("RAY_") for name in names)


def _script(plan: Plan) -> str:
    return script_text(plan.container) if plan.container is not None else ""


def _installed(script: str) -> str:
    """The lines of a script that install packages."""
    return "\n".join(line for line in script.splitlines() if "install" in line)
