"""CUDA graphs: how many there are, what they hold, and which releases set memory aside for them."""

from __future__ import annotations

import pytest

from planner.memory.graphs import captured_graphs, counts_graphs, graph_memory
from planner.units import GIB
from tests.memory.starts import start

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    ("gpu", "version", "flags", "graphs"),
    [
        ("RTX-3090", "0.17.1", "", 51 + 35),  # "PIECEWISE=51 (largest=512), FULL=35 (largest=256)"
        ("H100-80GB", "0.17.1", "", 51 + 51),
        ("RTX-3090", "0.17.1", "--max-num-seqs 8", 5 + 4),  # 1, 2, 4, 8, 16
        ("RTX-3090", "0.9.2", "", 67),  # mixed batches only
        ("RTX-3090", "0.6.6", "", 35),  # V0: decoding only
        ("RTX-3090", "0.17.1", "--enforce-eager", 0),
    ],
)
def test_number_of_graphs(gpu: str, version: str, flags: str, graphs: int) -> None:
    assert captured_graphs(start(LLAMA, gpu, version, flags).config) == graphs


def test_no_graphs_cost_nothing() -> None:
    of = start(LLAMA, "RTX-3090", "0.17.1", "--enforce-eager")
    assert graph_memory(of.model, of.config, of.accelerator).bytes[:3] == (0, 0, 0)


@pytest.mark.parametrize(
    ("model", "gpu", "version", "flags", "printed"),
    [
        # "Graph capturing finished in … secs, took … GiB"
        (LLAMA, "A100-80GB-SXM", "0.17.1", "--max-model-len 32768", 0.5),
        ("Qwen/Qwen2-7B-Instruct", "A100-80GB-SXM", "0.10.1.1", "", 0.5),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "RTX-A6000", "0.11.0", "", 0.65),
        ("Qwen/Qwen3-32B", "H100-80GB", "0.10.0", "--tensor-parallel-size 8", 1.17),
    ],
)
def test_printed_captures_lie_in_the_interval(model: str, gpu: str, version: str, flags: str, printed: float) -> None:
    of = start(model, gpu, version, flags)
    low, _, high, _ = graph_memory(of.model, of.config, of.accelerator).bytes
    assert low <= printed * GIB <= high


@pytest.mark.parametrize(
    ("gpu", "version", "counted"),
    [
        ("H100-80GB", "0.19.1", False),
        ("H100-80GB", "0.20.0", True),
        ("H100-80GB", "0.28.0", False),  # a dense Llama runs on runner V2, which estimates nothing yet
        ("H100-80GB", "0.29.0", True),
        ("MI300X", "0.22.0", False),  # ROCm only from 0.26
    ],
)
def test_releases_that_set_memory_aside(gpu: str, version: str, counted: bool) -> None:
    of = start(LLAMA, gpu, version)
    assert counts_graphs(of.config, of.accelerator) is counted
    assert graph_memory(of.model, of.config, of.accelerator).counted is counted


def test_estimates_of_sparse_attention() -> None:
    """A start of DeepSeek-V4-Flash (0.31) leaves 0.8 GiB beside the other terms; logs of GLM-5.1 print 5.1 to 6.8 GiB, and
    the graphs themselves, which older releases do not count, are as large as those of other models."""
    four = start("deepseek-ai/DeepSeek-V4-Flash-0731", "H100-80GB", "0.31.1", "-tp 8 --max-num-seqs 64")
    low, expected, high, _ = graph_memory(four.model, four.config, four.accelerator).bytes
    assert low < 0.8 * GIB < high
    assert expected == pytest.approx(0.8 * GIB, rel=0.3)
    flags = "-tp 8 --max-num-seqs 64 --max-cudagraph-capture-size 256"
    five = start("lukealonso/GLM-5.1-NVFP4-MTP", "RTX-PRO-6000", "0.20.2", flags)
    term = graph_memory(five.model, five.config, five.accelerator)
    assert term.counted
    assert term.bytes.high > 5.1 * GIB
    older = start("lukealonso/GLM-5.1-NVFP4-MTP", "RTX-PRO-6000", "0.19.1", flags)
    assert graph_memory(older.model, older.config, older.accelerator).bytes.expected == pytest.approx(
        1.21 * GIB, rel=0.2
    )


def test_graphs_of_recurrent_layers_are_smaller() -> None:
    """A public start of Qwen3.6-27B-FP8 on B200 (0.17.2) prints 1.04 GiB, and estimates 1.17."""
    of = start("vrfai/Qwen3.6-27B-FP8", "B200", "0.17.2", "--max-model-len 32768")
    low, expected, high, _ = graph_memory(of.model, of.config, of.accelerator).bytes
    assert low < 1.04 * GIB < 1.17 * GIB < high
    assert expected < 1.04 * GIB
