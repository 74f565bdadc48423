"""Combinations of flags that an engine refuses before it loads a weight. One function a constraint, with the releases that
have it; sources are the checks of vLLM's configuration classes and serving entry point, and of TGI's launcher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.places import is_gap
from planner.record import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.engines.config import EngineConfig, FlagValue
    from planner.plan import Plan
    from planner.provenance import Position


class Conflict(NamedTuple):
    """One refused combination: the flag to point at, what is wrong, what to do. ``refused`` is False where the engine only
    warns."""

    flag: FlagValue
    message: str
    remedy: str
    refused: bool = True


class Case:
    """The settings of one plan as constraints read them: what is stated, and what that makes of the rest."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.engine: EngineConfig = plan.engine
        self.version = plan.engine.version_key
        #: words or files of the command line are not known: that a flag is missing cannot be said
        self.complete = not any(gap.fact in ("engine.arguments", "model") for gap in plan.engine.unknown)

    def flag(self, name: str) -> FlagValue | None:
        """A flag that stands there, with a value that is known."""
        found = self.engine.flags.get(name)
        return found if found is not None and found.known else None

    def number(self, name: str) -> int | None:
        """A whole number that is stated."""
        value = self.engine.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def on(self, name: str) -> bool:
        """Whether a switch is stated and on."""
        return self.engine.get(name) is True

    def lacks(self, name: str) -> bool:
        """Whether a flag is surely not given."""
        return self.complete and name not in self.engine.flags

    def off(self, name: str) -> bool:
        """Whether a switch that is off by default is surely off."""
        return self.lacks(name) or self.engine.get(name) is False

    def within(self, since: tuple[int, ...] = (), until: tuple[int, ...] = (10**6,)) -> bool:
        """Whether the release is at least ``since`` and before ``until``."""
        return since <= self.version < until

    def effective(self, name: str) -> Any:
        """An effective setting (``max_num_seqs``), None where it is not known."""
        config = self.plan.effective
        if config is None or is_gap(self.plan, f"engine.{name}") or is_gap(self.plan, "engine.memory"):
            return None
        fact = getattr(config, name, None)
        return fact.value if fact is not None else None


def conflict_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``conflicts``: message, remedy and whether the engine refuses; none for an engine whose flags are not read."""
    constraints = _CONSTRAINTS.get(plan.engine.engine)
    if constraints is None or not plan.engine.version_key:
        return {}
    case = Case(plan)
    found: list[dict[str, Any]] = []
    for constraint in constraints:
        for conflict in constraint(case):
            place = conflict.flag.value_position or conflict.flag.position
            if place is not None:
                positions[f"engine.conflicts[{len(found)}]"] = place
            found.append({"message": conflict.message, "remedy": conflict.remedy, "refused": conflict.refused})
    return {"conflicts": found}


# ---- vLLM: scheduler ---------------------------------------------------------------------------------------------------


def _batch_below_length(case: Case) -> Iterator[Conflict]:
    """All releases: max_num_batched_tokens < max_model_len without chunked prefill."""
    flag, batch = case.flag("max-num-batched-tokens"), case.number("max-num-batched-tokens")
    if flag is None or batch is None:
        return
    length = case.effective("max_model_len") or case.number("max-model-len")
    chunked = case.engine.get("enable-chunked-prefill")
    if chunked is None:
        chunked = case.effective("chunked_prefill")
    if length is not None and chunked is False and batch < length:
        yield Conflict(
            flag,
            f"--max-num-batched-tokens {batch} is below the maximum length of {length} tokens, and chunked prefill is off",
            f"Raise --max-num-batched-tokens to {length}, lower --max-model-len to {batch}, or let chunked prefill on",
        )


def _batch_below_sequences(case: Case) -> Iterator[Conflict]:
    """All releases: max_num_batched_tokens < max_num_seqs."""
    flag = case.flag("max-num-batched-tokens") or case.flag("max-num-seqs")
    batch, count = case.number("max-num-batched-tokens"), case.number("max-num-seqs")
    if flag is None:
        return
    batch = batch if batch is not None else case.effective("max_num_batched_tokens")
    count = count if count is not None else case.effective("max_num_seqs")
    if batch is not None and count is not None and 0 < batch < count:
        yield Conflict(
            flag,
            f"{batch} batched tokens are fewer than {count} sequences, each of which needs one a step",
            f"Raise --max-num-batched-tokens to {count} or more, or lower --max-num-seqs to {batch}",
        )


def _batch_beyond_all(case: Case) -> Iterator[Conflict]:
    """0.9.1 on: a warning, max_num_batched_tokens > max_num_seqs × max_model_len."""
    flag, batch, count = (
        case.flag("max-num-batched-tokens"), case.number("max-num-batched-tokens"), case.number("max-num-seqs")
    )  # fmt: skip
    length = case.number("max-model-len")
    if flag is None or batch is None or count is None or length is None or not case.within((0, 9, 1)):
        return
    if 0 < count * length < batch:
        yield Conflict(
            flag,
            f"--max-num-batched-tokens {batch} exceeds what {count} sequences of {length} tokens can ever fill; the engine "
            "warns of unexpected behaviour",
            f"Lower --max-num-batched-tokens to {count * length}",
            refused=False,
        )


def _active_beyond_sequences(case: Case) -> Iterator[Conflict]:
    """0.31 on: max_num_active_seqs > max_num_seqs."""
    flag, active = case.flag("max-num-active-seqs"), case.number("max-num-active-seqs")
    count = case.number("max-num-seqs") or case.effective("max_num_seqs")
    if flag is not None and active is not None and count is not None and active > count and case.within((0, 31)):
        yield Conflict(
            flag, f"--max-num-active-seqs {active} is more than the {count} sequences of --max-num-seqs",
            f"Lower it to {count}",
        )  # fmt: skip


def _long_prefill(case: Case) -> Iterator[Conflict]:
    """0.7.3 on: long_prefill_token_threshold > max_model_len; until 0.27.1 only with several partial prefills."""
    flag, threshold = case.flag("long-prefill-token-threshold"), case.number("long-prefill-token-threshold")
    length = case.effective("max_model_len") or case.number("max-model-len")
    if flag is None or threshold is None or length is None or not case.within((0, 7, 3)):
        return
    several = case.within((0, 27, 1)) or (case.number("max-num-partial-prefills") or 1) > 1
    if several and threshold > length:
        yield Conflict(
            flag, f"--long-prefill-token-threshold {threshold} is more than the maximum length of {length} tokens",
            f"Lower it to {length} or less",
        )  # fmt: skip


def _partial_prefills(case: Case) -> Iterator[Conflict]:
    """0.7.3 to 0.26: several partial prefills need chunked prefill."""
    flag, count = case.flag("max-num-partial-prefills"), case.number("max-num-partial-prefills")
    if flag is None or count is None or count <= 1 or not case.within((0, 7, 3), (0, 27)):
        return
    if case.engine.get("enable-chunked-prefill") is False:
        yield Conflict(
            flag, f"--max-num-partial-prefills {count} needs chunked prefill, which is switched off",
            "Remove it, or let chunked prefill on",
        )  # fmt: skip


# ---- vLLM: parallelism -------------------------------------------------------------------------------------------------


def _local_beyond_data(case: Case) -> Iterator[Conflict]:
    """0.9.0 on: data_parallel_size_local > data_parallel_size."""
    flag, local = case.flag("data-parallel-size-local"), case.number("data-parallel-size-local")
    hidden = case.engine.flags.get("data-parallel-size")
    total = case.number("data-parallel-size") if hidden is not None else 1
    if flag is not None and local is not None and total is not None and local > total and case.complete:
        yield Conflict(
            flag, f"--data-parallel-size-local {local} is more than --data-parallel-size {total}",
            f"Set --data-parallel-size {local}, or lower the local size",
        )  # fmt: skip


def _context_parallel(case: Case) -> Iterator[Conflict]:
    """0.10.2 on: tensor parallel size % decode context parallel size; not with prefill context parallelism (0.12)."""
    flag, context = case.flag("decode-context-parallel-size"), case.number("decode-context-parallel-size")
    tensor = case.number("tensor-parallel-size") if "tensor-parallel-size" in case.engine.flags else 1
    if flag is None or not context or context < 1 or tensor is None or not case.complete:
        return
    if (case.number("prefill-context-parallel-size") or 1) == 1 and tensor % context:
        yield Conflict(
            flag, f"--tensor-parallel-size {tensor} does not divide by --decode-context-parallel-size {context}",
            "Choose a decode context parallel size that divides the tensor parallel size",
        )  # fmt: skip


def _expert_balancing(case: Case) -> Iterator[Conflict]:
    """EPLB needs expert parallelism (0.10.0 on) over more than one rank; redundant experts need EPLB (0.9.2 on)."""
    flag = case.flag("enable-eplb")
    if flag is not None and flag.value is True and case.within((0, 10)):
        if case.off("enable-expert-parallel"):
            yield Conflict(flag, "--enable-eplb needs expert parallelism", "Add --enable-expert-parallel")
        sizes = ("tensor-parallel-size", "data-parallel-size", "prefill-context-parallel-size")
        if case.complete and all((case.number(name) if name in case.engine.flags else 1) == 1 for name in sizes):
            yield Conflict(
                flag, "--enable-eplb needs tensor or data parallelism: on one rank there is nothing to balance",
                "Remove it",
            )  # fmt: skip
    extra = case.flag("num-redundant-experts")
    count = case.number("num-redundant-experts")
    config = case.flag("eplb-config")
    if config is not None and isinstance(config.value, dict):
        extra, count = config, config.value.get("num_redundant_experts")
    if extra is not None and isinstance(count, int) and count > 0 and case.off("enable-eplb"):
        yield Conflict(extra, f"{count} redundant experts are asked for without --enable-eplb", "Add --enable-eplb")


def _experts_of_dense(case: Case) -> Iterator[Conflict]:
    """0.8 on: expert parallelism of a model without experts."""
    flag, model = case.flag("enable-expert-parallel"), case.plan.model
    if flag is not None and flag.value is True and model is not None and not model.num_experts and case.within((0, 8)):
        yield Conflict(
            flag, f"--enable-expert-parallel of {model.id}, which has no experts", "Remove it",
        )  # fmt: skip


def _elastic_experts(case: Case) -> Iterator[Conflict]:
    """0.17 on: elastic expert parallelism needs EPLB."""
    flag = case.flag("enable-elastic-ep")
    if flag is not None and flag.value is True and case.off("enable-eplb") and case.within((0, 17)):
        yield Conflict(flag, "--enable-elastic-ep needs EPLB", "Add --enable-eplb")


def _headless_servers(case: Case) -> Iterator[Conflict]:
    """0.9.1 on: a headless start runs no API servers."""
    flag, count = case.flag("api-server-count"), case.number("api-server-count")
    if flag is not None and count is not None and count > 1 and case.on("headless") and case.within((0, 9, 1)):
        yield Conflict(flag, f"--api-server-count {count} in headless mode, which runs none", "Remove it")


# ---- vLLM: serving -----------------------------------------------------------------------------------------------------


def _tool_choice(case: Case) -> Iterator[Conflict]:
    """All releases: automatic tool choice needs a parser."""
    flag = case.flag("enable-auto-tool-choice")
    if flag is not None and flag.value is True and case.lacks("tool-call-parser"):
        yield Conflict(
            flag, "--enable-auto-tool-choice needs a parser of the model's tool calls",
            "Add --tool-call-parser with the parser of the model (hermes, llama3_json, mistral …)",
        )  # fmt: skip


def _reasoning(case: Case) -> Iterator[Conflict]:
    """0.7.1 to 0.8.5: --enable-reasoning needs a parser; 0.7.1 to 0.7.3 also no automatic tool choice beside it."""
    flag = case.flag("enable-reasoning")
    if flag is None or flag.value is not True or not case.within((0, 7, 1), (0, 9)):
        return
    if case.lacks("reasoning-parser"):
        yield Conflict(flag, "--enable-reasoning needs a reasoning parser", "Add --reasoning-parser")
    if case.on("enable-auto-tool-choice") and case.within((0, 7, 1), (0, 8)):
        yield Conflict(
            flag, "--enable-reasoning and --enable-auto-tool-choice exclude each other", "Remove one of them"
        )


def _log_outputs(case: Case) -> Iterator[Conflict]:
    """0.11 on: outputs are logged with requests only."""
    flag = case.flag("enable-log-outputs")
    if flag is not None and flag.value is True and case.off("enable-log-requests") and case.within((0, 11)):
        yield Conflict(flag, "--enable-log-outputs needs --enable-log-requests", "Add --enable-log-requests")


def _request_metrics(case: Case) -> Iterator[Conflict]:
    """0.25 on: metrics of requests come from the engine's statistics."""
    flag = case.flag("enable-per-request-metrics")
    if flag is not None and flag.value is True and case.on("disable-log-stats") and case.within((0, 25)):
        yield Conflict(
            flag, "--enable-per-request-metrics needs the statistics that --disable-log-stats switches off",
            "Remove --disable-log-stats",
        )  # fmt: skip


def _model_as_flag(case: Case) -> Iterator[Conflict]:
    """0.7.3 to 0.11.0: ``vllm serve`` takes the model as its first argument; from 0.8.3 on only ``--model X`` as two words
    is looked for."""
    flag, start = case.flag("model"), case.plan.start
    if (
        flag is None
        or start is None
        or not start.program.endswith("vllm serve")
        or not case.within((0, 7, 3), (0, 11, 1))
    ):
        return
    if flag.spelling.startswith("--model") and (case.within((0,), (0, 8, 3)) or flag.position != flag.value_position):
        yield Conflict(
            flag, "`vllm serve` of this release takes the model as its first argument, not as --model",
            f"Write vllm serve {flag.raw or 'MODEL'}",
        )  # fmt: skip


# ---- vLLM: adapters, speculation, graphs, cache ------------------------------------------------------------------------


def _adapters(case: Case) -> Iterator[Conflict]:
    """All releases: adapters need --enable-lora, and as many places on the host as in a batch."""
    flag = case.flag("lora-modules")
    if flag is not None and flag.value and case.off("enable-lora"):
        yield Conflict(
            flag, "--lora-modules without --enable-lora: the adapters are refused at start", "Add --enable-lora"
        )
    host, count = case.flag("max-cpu-loras"), case.number("max-cpu-loras")
    most = case.number("max-loras") if "max-loras" in case.engine.flags else 1
    if host is not None and count is not None and most is not None and count < most and case.on("enable-lora"):
        yield Conflict(host, f"--max-cpu-loras {count} is less than --max-loras {most}", f"Set it to {most} or more")
    chunked = case.flag("enable-chunked-prefill")
    if chunked is not None and chunked.value is True and case.on("enable-lora") and case.within((0,), (0, 6, 5)):
        yield Conflict(chunked, "this release has no LoRA with chunked prefill", "Remove one of them")


def _old_speculation(case: Case) -> Iterator[Conflict]:
    """Before 0.6.4: speculative decoding excludes chunked prefill."""
    flag = case.flag("enable-chunked-prefill")
    speculative = "speculative-model" in case.engine.flags
    if flag is not None and flag.value is True and speculative and case.within((0,), (0, 6, 4)):
        yield Conflict(flag, "this release has no speculative decoding with chunked prefill", "Remove one of them")


def _graph_sizes(case: Case) -> Iterator[Conflict]:
    """0.11.1 on: the largest graph size and the list of sizes must agree."""
    flag, largest = case.flag("max-cudagraph-capture-size"), case.number("max-cudagraph-capture-size")
    sizes = case.engine.get("cudagraph-capture-sizes")
    if flag is None or largest is None or not isinstance(sizes, list) or not case.within((0, 11, 1)):
        return
    numbers = [size for size in sizes if isinstance(size, int)]
    if numbers and max(numbers) != largest:
        yield Conflict(
            flag, f"--max-cudagraph-capture-size {largest} differs from the largest of --cudagraph-capture-sizes, "
            f"{max(numbers)}", "State one of the two",
        )  # fmt: skip


def _graph_settings_twice(case: Case) -> Iterator[Conflict]:
    """0.11.1 on: a graph size as a flag and as a key of --compilation-config."""
    config = case.engine.get("compilation-config")
    if not isinstance(config, dict) or not case.within((0, 11, 1)):
        return
    for name in ("cudagraph-capture-sizes", "max-cudagraph-capture-size"):
        flag = case.flag(name)
        if flag is not None and config.get(name.replace("-", "_")) is not None:
            yield Conflict(flag, f"--{name} stands beside the same key of --compilation-config", "State one of the two")


def _mamba_blocks(case: Case) -> Iterator[Conflict]:
    """0.11.1 on: a block size of Mamba's cache has a meaning with prefix caching only."""
    flag = case.flag("mamba-block-size")
    if flag is not None and case.engine.get("enable-prefix-caching") is False and case.within((0, 11, 1)):
        yield Conflict(flag, "--mamba-block-size needs prefix caching, which is switched off", "Remove one of them")


def _e5m2_of_fp8(case: Case) -> Iterator[Conflict]:
    """All releases: an fp8_e5m2 cache under an fp8 checkpoint (``vllm/attention/layer.py``)."""
    flag, model = case.flag("kv-cache-dtype"), case.plan.model
    fp8 = model is not None and (model.quantization or "").startswith("fp8")
    if flag is not None and flag.value == "fp8_e5m2" and (fp8 or case.engine.get("quantization") == "fp8"):
        yield Conflict(
            flag, "an fp8_e5m2 cache is not supported with an fp8 checkpoint", "Use --kv-cache-dtype fp8, or auto",
        )  # fmt: skip


def _long_length(case: Case) -> Iterator[Conflict]:
    """All releases: the variable lifts the scheduler's limit, not the model's positions (F209)."""
    flag, length = case.flag("max-model-len"), case.number("max-model-len")
    allowed = case.engine.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN")
    derived = case.plan.effective.derived_max_model_len if case.plan.effective is not None else 0
    if flag is None or length is None or allowed is None or allowed.value.strip() in ("", "0") or not derived:
        return
    # Hybrids have attention without positions, and such a length is what their authors advise.
    hybrid = case.plan.model is not None and case.plan.model.is_hybrid
    if length > derived and not hybrid and not {"hf-overrides", "rope-scaling"} & case.engine.flags.keys():
        yield Conflict(
            flag, f"VLLM_ALLOW_LONG_MAX_MODEL_LEN lets the engine start with {length} tokens, and the model has positions "
            f"for {derived}: the first longer request reads out of bounds", f"Set --max-model-len {derived}, or extend "
            "the model's positions with --hf-overrides", refused=False,
        )  # fmt: skip


# ---- SGLang ------------------------------------------------------------------------------------------------------------


def _sglang_cpu_fraction(case: Case) -> Iterator[Conflict]:
    """Reported of 0.5.2 (F106): on a CPU the memory fraction has no default, and comparing it fails."""
    flag = case.flag("device")
    if (
        flag is not None
        and flag.value == "cpu"
        and case.lacks("mem-fraction-static")
        and case.within((0, 5, 2), (0, 5, 3))
    ):
        yield Conflict(flag, "--device cpu needs a memory fraction in this release", "Add --mem-fraction-static 0.8")


def _sglang_data_parallel(case: Case) -> Iterator[Conflict]:
    """Data parallel attention spreads ranks that tensor parallelism has: tp % dp, dp > 1."""
    flag = case.flag("enable-dp-attention")
    if flag is None or flag.value is not True or not case.complete:
        return
    data = case.number("data-parallel-size") if "data-parallel-size" in case.engine.flags else 1
    tensor = case.number("tensor-parallel-size") if "tensor-parallel-size" in case.engine.flags else 1
    if data is not None and tensor is not None and data > 0 and tensor % data:
        yield Conflict(
            flag, f"data parallel attention needs a tensor parallel size ({tensor}) that divides by the data parallel "
            f"size ({data})", "Choose sizes that divide",
        )  # fmt: skip


def _sglang_attention_and_replicas(case: Case) -> Iterator[Conflict]:
    """0.5.22 on: --attn-dp-size > 1 together with --dp-size > 1."""
    flag, attention = case.flag("attn-dp-size"), case.number("attn-dp-size")
    data = case.number("data-parallel-size")
    if flag is not None and attention and attention > 1 and data and data > 1 and case.within((0, 5, 22)):
        yield Conflict(
            flag, f"--attn-dp-size {attention} cannot be combined with --dp-size {data}", "State one of the two",
        )  # fmt: skip


def _sglang_host_cache(case: Case) -> Iterator[Conflict]:
    """All releases with it: the hierarchical cache is one of the radix cache."""
    flag = case.flag("enable-hierarchical-cache")
    if flag is not None and flag.value is True and case.on("disable-radix-cache"):
        yield Conflict(
            flag, "--enable-hierarchical-cache needs the radix cache, which is switched off", "Remove one of them",
        )  # fmt: skip


# ---- TGI ---------------------------------------------------------------------------------------------------------------


def _tgi_lengths(case: Case) -> Iterator[Conflict]:
    """The launcher: input < total, and one input fits in a prefill batch."""
    input_flag, most_input = case.flag("max-input-tokens"), case.number("max-input-tokens")
    total = case.number("max-total-tokens")
    if input_flag is not None and most_input is not None and total is not None and most_input >= total:
        yield Conflict(
            input_flag, f"the longest input of {most_input} tokens must be less than the {total} tokens in total",
            f"Set MAX_INPUT_TOKENS below {total}",
        )  # fmt: skip
    batch_flag, batch = case.flag("max-batch-prefill-tokens"), case.number("max-batch-prefill-tokens")
    if batch_flag is not None and batch is not None and most_input is not None and batch < most_input:
        yield Conflict(
            batch_flag, f"a prefill batch of {batch} tokens cannot hold the longest input of {most_input} tokens",
            f"Set MAX_BATCH_PREFILL_TOKENS to {most_input} or more",
        )  # fmt: skip
    batch_total_flag, batch_total = case.flag("max-batch-total-tokens"), case.number("max-batch-total-tokens")
    if batch_total_flag is not None and batch_total is not None and batch is not None and batch > batch_total:
        yield Conflict(
            batch_total_flag, f"a prefill batch of {batch} tokens is more than the batch's {batch_total} tokens in total",
            f"Set MAX_BATCH_TOTAL_TOKENS to {batch} or more",
        )  # fmt: skip


# ---- TensorRT-LLM ------------------------------------------------------------------------------------------------------


def _trtllm_length(case: Case) -> Iterator[Conflict]:
    """Without chunked prefill a prompt longer than one batch is refused when it comes (F207); 8192 tokens by default."""
    flag, length = case.flag("max-seq-len"), case.number("max-seq-len")
    batch = case.number("max-num-tokens") if "max-num-tokens" in case.engine.flags else 8192
    if flag is None or length is None or batch is None or length <= batch or not case.complete:
        return
    if case.off("enable-chunked-prefill"):
        yield Conflict(
            flag, f"prompts of up to {length} tokens are allowed and a batch takes {batch}: without chunked prefill longer "
            "ones are refused", "Add --enable_chunked_prefill, or raise --max_num_tokens", refused=False,
        )  # fmt: skip


_CONSTRAINTS: dict[str, tuple[Callable[[Case], Iterator[Conflict]], ...]] = {
    "vllm": (
        _batch_below_length, _batch_below_sequences, _batch_beyond_all, _active_beyond_sequences, _long_prefill,
        _partial_prefills, _local_beyond_data, _context_parallel, _expert_balancing, _experts_of_dense, _elastic_experts,
        _headless_servers, _tool_choice, _reasoning, _log_outputs, _request_metrics, _model_as_flag, _adapters,
        _old_speculation, _graph_sizes, _graph_settings_twice, _mamba_blocks, _e5m2_of_fp8, _long_length,
    ),
    "sglang": (
        _sglang_cpu_fraction, _sglang_data_parallel, _sglang_attention_and_replicas, _sglang_host_cache,
    ),
    "tgi": (_tgi_lengths,),
    "trtllm": (_trtllm_length,),
}  # fmt: skip
