"""Single tensors: what the allocator rounds up and what is offloaded, against what engines printed."""

from __future__ import annotations

import pytest

from planner.memory.parameters import allocator_rest, holder, layer_tensors, offloaded_bytes, offloaded_groups
from planner.memory.vllm_budget import vllm_budget
from planner.units import GIB, MIB
from tests.memory.starts import Start, start

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def rest(of: Start) -> int:
    return allocator_rest(of.model, range(of.model.num_layers), True, True, holder(*of))


@pytest.mark.parametrize(
    ("model", "flags", "printed"),
    [
        # public start-up logs of 0.10.1.1 and 0.17.1: "Model loading took"
        ("Qwen/Qwen2-7B-Instruct", "", 14.2488),
        ("Qwen/Qwen2-7B-Instruct", "--tensor-parallel-size 2", 7.1217),
        (LLAMA, "", 14.99),
    ],
)
def test_printed_weights_count_the_ends_of_segments(model: str, flags: str, printed: float) -> None:
    of = start(model, "A100-80GB", "0.10.1", flags)
    weights = vllm_budget(*of).ranks[0].bytes("weights")
    assert (weights.expected + rest(of)) / GIB == pytest.approx(printed, abs=0.0051)
    assert weights.low <= printed * GIB * 1.0005
    assert weights.high >= printed * GIB * 0.9995


def test_rest_by_hand() -> None:
    """Qwen2-7B: qkv 31.5 MiB in 32, o 24.5 in 26 (split), gate and up 259 in 260, down 129.5 in 130; embedding and head too."""
    assert rest(start("Qwen/Qwen2-7B-Instruct", "A100-80GB", "0.10.1")) == (28 * 2 + 1) * MIB
    assert rest(start(LLAMA, "A100-80GB", "0.10.1")) == 0  # all of them are whole segments


def test_offloading_moves_whole_tensors() -> None:
    """12 GiB asked for: 29 layers of 416 MiB and the first three tensors of the next; a public log prints 2.91 GiB left."""
    of = start(LLAMA, "RTX-3090", "0.17.1", "--max-model-len 8192 --gpu-memory-utilization 0.86 --cpu-offload-gb 12")
    moved = offloaded_bytes(of.model, range(32), holder(*of), 12)
    assert moved == (29 * 416 + 48 + 32 + 224) * MIB
    weights = vllm_budget(*of).ranks[0].terms["weights"]
    assert weights.bytes.expected / GIB == pytest.approx(2.91, abs=0.01)
    assert any(item.name == "offloaded to the host" for item in weights.inputs)
    available = vllm_budget(*of).ranks[0].bytes("kv_available")
    assert available.expected / GIB == pytest.approx(16.79, rel=0.01)


def test_offloading_more_than_the_layers_leaves_embedding_and_head() -> None:
    of = start(LLAMA, "RTX-3090", "0.17.1", "--cpu-offload-gb 100")
    moved = offloaded_bytes(of.model, range(32), holder(*of), 100)
    assert moved == sum(t.size * t.count for layer in of.model.layers for t in layer_tensors(layer, holder(*of)))
    assert vllm_budget(*of).ranks[0].bytes("weights").expected > 1.9 * GIB


def test_prefetching_scheme() -> None:
    """The last two of every eight layers live on the host; two layers are fetched ahead."""
    flags = "--offload-group-size 8 --offload-num-in-group 2 --offload-prefetch-step 2"
    of = start(LLAMA, "RTX-3090", "0.19.0", f"--max-model-len 8192 {flags}")
    assert of.config.offload_groups == (8, 2, 2)
    moved, buffers = offloaded_groups(of.model, range(32), holder(*of), (8, 2, 2))
    assert (moved, buffers) == (8 * 416 * MIB, 2 * 416 * MIB)
    plain = vllm_budget(*start(LLAMA, "RTX-3090", "0.19.0", "--max-model-len 8192")).ranks[0].bytes("weights")
    assert vllm_budget(*of).ranks[0].bytes("weights").expected == plain.expected - moved + buffers


def test_experts_are_two_stacked_tensors() -> None:
    of = start("Qwen/Qwen3-30B-A3B", "H100-80GB", "0.20.0", "--tensor-parallel-size 2")
    sizes = [tensor.size for tensor in layer_tensors(of.model.layers[0], holder(*of))]
    assert 128 * 2 * 384 * 2048 * 2 in sizes
    assert 128 * 384 * 2048 * 2 in sizes
