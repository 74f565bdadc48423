"""The words of a ``trtllm-serve`` start and its YAML options → ``EngineConfig``.

Source: ``tensorrt_llm/commands/serve.py``, its list of stable arguments (``tests/unittest/api_stability``) and ``llmapi`` as far
as they are known (reference on SGLang's memory, 16). One table stands for all releases; the YAML of
``--extra_llm_api_options`` (``--config``) overrides the command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from planner.engines.config import CommandLine, EngineConfig, FlagValue, Word
from planner.engines.version import version_key
from planner.engines.vllm import _Arg, _Reader, _word_provenance, flag_provenance, with_model
from planner.engines.vllm_flag_table import FlagTable
from planner.provenance import Fact, Unknown

if TYPE_CHECKING:
    from planner.documents.node import Node

#: The release that is assumed where nothing tells; no default here depends on it.
NEWEST_TRTLLM = "1.2.0"
_REMEDY = "annotate the object: planner/model: ORG/NAME"

_KINDS = {
    "int": "port max-batch-size max-num-tokens max-seq-len max-beam-width tp-size pp-size ep-size cp-size cluster-size"
    " gpus-per-node num-postprocess-workers num-serve-frontends num-input-processor-workers num-media-load-workers",
    "float": "kv-cache-free-gpu-memory-fraction agent-percentage video-pruning-rate",
    "str": "model tokenizer host backend kv-cache-dtype extra-llm-api-options log-level reasoning-parser tool-parser"
    " metadata-server-config-file server-role served-model-name revision chat-template media-io-kwargs otlp-traces-endpoint"
    " custom-tokenizer custom-module-dirs agent-types disagg-cluster-uri generation-config middleware post-processor-hook"
    " report-addr visual-gen-args extra-visual-gen-options",
    "true": "trust-remote-code enable-chunked-prefill fail-fast-on-attention-window-too-large enable-attention-dp"
    " allow-request-chat-template enable-visual-gen grpc telemetry no-telemetry",
}
#: Values of arguments that all releases check, those of all of them together.
_CHOICES = {"backend": ["_autodeploy", "autodeploy", "pytorch", "tensorrt", "trt"]}
_ALIASES = {
    "tp-size": ["--tp_size", "--tensor_parallel_size", "--tensor-parallel-size"],
    "pp-size": ["--pp_size", "--pipeline_parallel_size", "--pipeline-parallel-size"],
    "ep-size": ["--ep_size", "--moe_expert_parallel_size", "--moe-expert-parallel-size"],
    "cp-size": ["--cp_size", "--context_parallel_size", "--context-parallel-size"],
    "kv-cache-free-gpu-memory-fraction": [
        "--kv_cache_free_gpu_memory_fraction",
        "--free_gpu_memory_fraction",
        "--free-gpu-memory-fraction",
    ],
    "extra-llm-api-options": ["--extra_llm_api_options", "--config"],
    "cluster-size": ["--cluster_size", "--moe_cluster_parallel_size", "--moe-cluster-parallel-size"],
    "revision": ["--hf_revision", "--hf-revision"],
}
#: Subcommands of ``trtllm-serve`` that serve no model, or one of another kind, and take a YAML file of their own.
_OTHER_COMMANDS = ("disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve")
#: Keys of the YAML options, dotted for nested ones, and the argument whose value they take.
_YAML = {
    "tensor_parallel_size": "tp-size",
    "pipeline_parallel_size": "pp-size",
    "moe_expert_parallel_size": "ep-size",
    "moe_tensor_parallel_size": "moe-tp-size",
    "moe_cluster_parallel_size": "cluster-size",
    "context_parallel_size": "cp-size",
    "max_batch_size": "max-batch-size",
    "max_num_tokens": "max-num-tokens",
    "max_seq_len": "max-seq-len",
    "backend": "backend",
    "enable_attention_dp": "enable-attention-dp",
    "enable_chunked_prefill": "enable-chunked-prefill",
    "kv_cache_config.free_gpu_memory_fraction": "kv-cache-free-gpu-memory-fraction",
    "kv_cache_config.dtype": "kv-cache-dtype",
    "kv_cache_config.max_tokens": "kv-cache-max-tokens",
    "kv_cache_config.max_gpu_total_bytes": "kv-cache-max-bytes",
    "kv_cache_config.tokens_per_block": "tokens-per-block",
    "kv_cache_config.enable_block_reuse": "enable-block-reuse",
    "kv_cache_config.host_cache_size": "host-cache-size",
    "quant_config.quant_algo": "quant-algo",
    "speculative_config.decoding_type": "speculative-decoding",
}


@lru_cache(maxsize=1)
def flag_table() -> FlagTable:
    """The arguments of ``trtllm-serve serve``; click takes names with underscores, releases differ in which they document."""
    flags: dict[str, list[dict[str, Any]]] = {}
    for kind, names in _KINDS.items():
        for name in names.split():
            aliases = list(_ALIASES.get(name, ()))
            if "-" in name and name not in _ALIASES:
                aliases.append("--" + name.replace("-", "_"))
            flags[name] = [{"kind": kind, "aliases": aliases, "append": name in ("middleware", "custom-module-dirs")}]
            if name in _CHOICES:
                flags[name][0]["choices"] = _CHOICES[name]
    return FlagTable((0,), {"renamed": {}, "flags": flags})


def parse(
    words: Sequence[Word],
    *,
    version: Fact[str],
    image: Fact[str] | None = None,
    env: Mapping[str, Any] | None = None,
    files: Mapping[str, Node] | None = None,
    platform: str = "cuda",
    command_line: CommandLine | None = None,
) -> EngineConfig:
    """The configuration that a command line and its YAML options stand for. Never raises on any input."""
    reader = _TRTReader(version_key(version.value, NEWEST_TRTLLM), flag_table(), env or {}, files or {})
    length = _program_length(words)
    reader.read(
        list(words[length:]), not any(word.text in _OTHER_COMMANDS for word in words[max(length - 1, 0) : length + 1])
    )
    return reader.config("trtllm", version, image, platform, command_line)


def parse_argv(
    flags: Sequence[str],
    *,
    version: Fact[str],
    model: Fact[str] | None = None,
    env: Mapping[str, Any] | None = None,
    platform: str = "cuda",
) -> EngineConfig:
    """The configuration of flags behind ``planner budget … --``; ``model`` stands in where the flags name none."""
    words = [Word(text, None, True, "option") for text in flags]
    return with_model(parse(words, version=version, env=env, platform=platform), model)


def _program_length(words: Sequence[Word]) -> int:
    for index, word in enumerate(words[:64]):
        if word.text.rsplit("/", 1)[-1] == "trtllm-serve":
            following = words[index + 1].text if index + 1 < len(words) else ""
            return index + (2 if following in ("serve", "disaggregated") else 1)
        if word.text == "-m" and index and re.fullmatch(r"(?:.*/)?python[\d.]*", words[0].text):
            return index + 2
        if index == 0 and (word.text.startswith("-") or word.text == "serve"):
            return 1 if word.text == "serve" else 0
    return 0


class _TRTReader(_Reader):
    """click's walk over the words, and the YAML options laid over it."""

    variable_prefixes = ("TRTLLM_", "TLLM_")
    memory_variables = frozenset()

    def read(self, words: list[Word], serve: bool) -> None:
        """Read all arguments, then the YAML options of a server (``serve``)."""
        self.parse([_Arg(word.text, word) for word in words])
        if serve:
            self.take_options()
        self.report_unknown_values()

    def take_options(self) -> None:
        """The entries of ``--extra_llm_api_options FILE``, which win over the command line."""
        flag = self.flags.get("extra-llm-api-options")
        if flag is None:
            return
        path = flag.value if flag.known and isinstance(flag.value, str) else None
        node = self.files.get(path) if path else None
        if node is None:
            self.unknown_arguments = True
            self.unknown.append(
                Unknown(
                    "engine.arguments",
                    f"the options file {(flag.raw or '')[:120]} is not among the inputs",
                    "pass the ConfigMap that holds the file to planner as well, or write its entries as arguments",
                    flag.value_position or flag.position,
                )
            )
            return
        from planner.engines.vllm_config_file import ConfigFileError, read_entries

        try:
            entries = read_entries(node.text)
        except ConfigFileError as bad:
            self.problems.append((flag.value_position or flag.position, f"options file {path or ''}: {bad}"))
            return
        for key, value, key_offset, value_offset in entries:
            self.keep(key, value, node, key_offset, value_offset)
            pairs = [(key, value)]
            if isinstance(value, dict):
                pairs = [(f"{key}.{inner}", item) for inner, item in list(value.items())[:64]]
                if key == "cuda_graph_config":
                    self.put("cuda-graphs", True, key, node, key_offset, value_offset)
            for dotted, item in pairs:
                name = _YAML.get(dotted)
                if name is not None:
                    self.put(name, _number(item), dotted, node, key_offset, value_offset)

    def keep(self, key: str, value: Any, node: Node, key_offset: int, value_offset: int) -> None:
        """Keep one entry of the options, and those inside of it, as they stand there, under the name ``options.KEY``."""
        place = node.position_at(key_offset)
        self.given.append(FlagValue(f"options.{key}", value, key, None, place, node.position_at(value_offset)))
        for inner, item in list(value.items())[:64] if isinstance(value, dict) else ():
            # The text is looked through for it: entries below the first level carry no place.
            found = re.search(rf"(?<![\w.-]){re.escape(str(inner))}['\"]?\s*:", node.text[value_offset:])
            where = node.position_at(value_offset + found.start()) if found else place
            dotted = f"{key}.{inner}"
            self.given.append(FlagValue(f"options.{dotted}", item, dotted, None, where, where))

    def put(self, name: str, value: Any, spelling: str, node: Node, key_offset: int, value_offset: int) -> None:
        """Keep one entry of the options as the argument it stands for."""
        place, value_place = node.position_at(key_offset), node.position_at(value_offset)
        self.store(FlagValue(name, value, spelling, str(value)[:200], place, value_place))

    def model_fact(self, version: str) -> Fact[str] | None:
        """The positional argument."""
        del version
        word = self.model
        if word is not None and word.known:
            return Fact(word.text, _word_provenance(word))
        flag = self.flags.get("model")
        if flag is not None and flag.known and flag.value:
            return Fact(str(flag.value), flag_provenance(flag))
        reason = f"{word.text[:80]} is not expanded" if word else "the command line names no model"
        self.unknown.append(Unknown("model", reason, _REMEDY, word.position if word else None))
        return None


def _number(value: Any) -> Any:
    """A number of a sane size as it is; text that is a number, as a number."""
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"-?\d{1,15}", text):
            return int(text)
        if re.fullmatch(r"-?\d{0,9}\.\d{1,9}", text):
            return float(text)
    return value
