"""Entries of the YAML options of ``trtllm-serve`` that releases refuse, and their neighbours that they take."""

from __future__ import annotations

import json

import pytest

from planner.facts import rule_facts
from tests.facts.plans import plan_of

MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: options}}
data:
  o.yaml: |
{options}
---
apiVersion: v1
kind: Pod
metadata: {{name: llm}}
spec:
  nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
  volumes: [{{name: c, configMap: {{name: options}}}}]
  containers:
    - name: engine
      image: nvcr.io/nvidia/tensorrt-llm/release:{version}
      command: [trtllm-serve]
      args: {args}
      volumeMounts: [{{name: c, mountPath: /c}}]
      resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
START = ("serve", "meta-llama/Llama-3.1-8B-Instruct", "--host", "0.0.0.0")


def found(
    options: str, version: str = "1.1.0", *args: str, start: tuple[str, ...] = START
) -> list[tuple[str, str, int]]:
    """(what is refused, why, line) of values and options, and of combinations."""
    text = MANIFEST.format(
        options="\n".join(f"    {line}" for line in options.splitlines()), version=version,
        args=json.dumps([*start, *args, "--extra_llm_api_options", "/c/o.yaml"]),
    )  # fmt: skip
    facts, positions = rule_facts(plan_of(text))
    engine = facts["engine"]
    values = [
        (item["flag"], item["reason"], positions[f"engine.invalid_values[{index}]"].line)
        for index, item in enumerate(engine["invalid_values"])
    ]
    combined = [
        ("", item["message"], positions[f"engine.conflicts[{index}]"].line)
        for index, item in enumerate(engine["conflicts"])
        if item["refused"]
    ]
    assert not engine["unknown_flags"]
    return values + combined


@pytest.mark.parametrize(
    ("options", "name", "words", "line", "refused", "taken"),
    [
        ("max_batch_sizes: 4", "max_batch_sizes", "perhaps max_batch_size is meant", 6,
         ("0.18.0", "0.20.0", "1.2.0"), ("1.3.0rc9", "latest")),
        ("free_gpu_memory_fraction: 0.8", "free_gpu_memory_fraction", "kv_cache_config.free_gpu_memory_fraction", 6,
         ("0.20.0", "1.1.0"), ()),
        ("tp_size: 2", "tp_size", "tensor_parallel_size", 6, ("1.0.0",), ()),
        ("kv_cache_config:\n  free_gpu_mem_fraction: 0.8", "kv_cache_config.free_gpu_mem_fraction",
         "perhaps free_gpu_memory_fraction is meant", 7, ("1.1.0", "1.2.0"), ("0.20.0", "1.0.0", "1.3.0rc24", "latest")),
        ("use_cuda_graph: true", "use_cuda_graph", "cuda_graph_config", 6, ("1.0.0", "1.2.0"), ("0.20.0", "latest")),
        ("moe_backend: TRTLLM", "moe_backend", "moe_config.backend", 6, ("1.0.0",), ("0.20.0",)),
        ("pytorch_backend_config: {}", "pytorch_backend_config", "gone since 1.0", 6, ("1.0.0",), ("0.18.0",)),
        ("kv_cache_dtype: fp8", "kv_cache_dtype", "kv_cache_config.dtype", 6, ("1.1.0",), ("1.0.0",)),
        ("cuda_graph_config: {}", "cuda_graph_config", "it came later", 6, ("0.20.0",), ("0.21.0", "1.0.0")),
        ("cuda_graph_config:\n  max_batch_size: 8\n  batch_sizes: [1, 2]", "cuda_graph_config.max_batch_size", "not the largest",
         7, ("1.1.0",), ()),
        ("cuda_graph_config: true", "cuda_graph_config", "no mapping", 6, ("1.1.0",), ()),
        ("speculative_config: {max_draft_len: 3}", "speculative_config", "needs a decoding_type", 6, ("0.20.0", "1.2.0"), ()),
        ("speculative_config: {decoding_type: ngramm}", "speculative_config", "is none of", 6, ("1.0.0",), ()),
        ("speculative_config: {decoding_type: Medusa}", "speculative_config", "does not run", 6, ("1.1.0",), ("0.20.0",)),
        ("moe_config: {backend: trtllm}", "moe_config.backend", "perhaps TRTLLM is meant", 6, ("1.1.0",), ()),
        ("print_iter_log: maybe", "print_iter_log", "neither true nor false", 6, ("1.1.0",), ()),
        ("max_seq_len: 4k", "max_seq_len", "no whole number", 6, ("1.1.0",), ()),
        ("stream_interval: 0", "stream_interval", "at least 1", 6, ("1.1.0",), ()),
        ("kv_cache_config: {free_gpu_memory_fraction: 1.2}", "kv_cache_config.free_gpu_memory_fraction", "less than 1", 6,
         ("1.1.0",), ()),
        ("kv_cache_config: {max_attention_window: 4096}", "kv_cache_config.max_attention_window", "list", 6, ("1.1.0",), ()),
        ("scheduler_config: {capacity_scheduler_policy: max}", "scheduler_config.capacity_scheduler_policy", "none of", 6,
         ("1.1.0",), ()),
        ("tensor_parallel_size: 4\nmoe_expert_parallel_size: 3", "", "do not go together", 7, ("0.18.0", "1.2.0"), ()),
        ("tensor_parallel_size: 4\nmoe_expert_parallel_size: 2\nmoe_tensor_parallel_size: 4", "", "do not go together", 7,
         ("1.1.0",), ()),
    ],
)  # fmt: skip
def test_options_that_releases_refuse(
    options: str, name: str, words: str, line: int, refused: tuple[str, ...], taken: tuple[str, ...]
) -> None:
    for version in refused:
        ((flag, reason, where),) = found(options, version)
        assert (flag, where) == (name, line), version
        assert words in reason, version
    for version in taken:
        assert not found(options, version), version


@pytest.mark.parametrize(
    "options",
    [
        "cuda_graph_config: null",
        "cuda_graph_config:\n  enable_padding: true\n  batch_sizes: [1, 2, 8]\n  max_batch_size: 8",
        "kv_cache_config:\n  enable_block_reuse: false\n  free_gpu_memory_fraction: 0.85\n  dtype: fp8\n  host_cache_size: 1000",
        "speculative_config:\n  decoding_type: MTP\n  num_nextn_predict_layers: 3",
        "speculative_config:\n  decoding_type: Eagle\n  max_draft_len: 3\n  speculative_model_dir: a/b",
        "tensor_parallel_size: 8\nmoe_expert_parallel_size: 8\nenable_attention_dp: true\nattention_dp_config: {enable_balance: true}",
        "tensor_parallel_size: 8\nmoe_expert_parallel_size: 2\nmoe_tensor_parallel_size: 4",
        "tensor_parallel_size: 4\nmoe_expert_parallel_size: 3\nmoe_cluster_parallel_size: 2",
        "moe_config: {backend: DEEPGEMM, max_num_tokens: 8192, use_low_precision_moe_combine: true}",
        "cache_transceiver_config: {backend: UCX, max_tokens_in_buffer: 2048}",
        "max_seq_len: '4096'\nstream_interval: 20\nprint_iter_log: 'yes'\nnum_postprocess_workers: 4",
        "disable_overlap_scheduler: true\nreturn_perf_metrics: true\nguided_decoding_backend: xgrammar",
        "backend: _autodeploy\ncompile_backend: torch-opt",
        "disagg_cluster: {cluster_uri: http://a:1}",
    ],
)
def test_options_that_are_taken(options: str) -> None:
    assert not found(options)


def test_arguments_of_the_server_itself() -> None:
    """Those of ``serve`` that the table once lacked; the YAML of another subcommand is not looked at."""
    words = ("--moe_cluster_parallel_size=1", "--grpc", "--disagg_cluster_uri=x", "--hf_revision=main", "--middleware=a.b",
             "--allow_request_chat_template", "--generation-config=auto", "--cluster_size=1")  # fmt: skip
    assert not found("print_iter_log: true", "1.2.0", *words)
    ((flag, reason, _),) = found("print_iter_log: true", "1.2.0", "--backend=cpp")
    assert (flag, "invalid choice: 'cpp'" in reason) == ("--backend", True)
    ((_, message, _),) = found("print_iter_log: true", "1.2.0", "--tp_size=8", "--ep_size=3")
    assert "do not go together" in message
    assert not found("hostname: localhost", "1.2.0", start=("disaggregated",))
