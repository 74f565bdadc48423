"""Combinations of flags that vLLM refuses before it loads a weight, with the releases that do.

Source: the checks of ``config.py`` and ``config/``, ``engine/arg_utils.py``, ``entrypoints/openai/cli_args.py`` and
``entrypoints/cli/serve.py``. Those of launch, speculation and scheduling were also asked of 0.19.1, 0.24.0 and 0.32.0 themselves.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from planner.facts.flag_conflicts import Conflict, one_stage_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.facts.flag_conflicts import Case


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
    """0.7.3 to 0.26: several partial prefills need chunked prefill, and from 0.11.1 on an engine that is gone (V0)."""
    flag, count = case.flag("max-num-partial-prefills"), case.number("max-num-partial-prefills")
    if flag is None or count is None or count <= 1 or not case.within((0, 7, 3), (0, 27)):
        return
    if case.within((0, 11, 1)):
        yield Conflict(
            flag, f"--max-num-partial-prefills {count}: the engine of this release starts one prefill at a time only",
            "Remove it",
        )  # fmt: skip
    elif case.engine.get("enable-chunked-prefill") is False:
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
    """0.10.2 on: tensor parallel size % decode context parallel size; from 0.26 on, beside prefill context parallelism, the
    decode size is 1, that one's, or all ranks of both. 0.12 has prefill context parallelism in name only, and 0.26 to 0.30 not
    beside data parallelism."""
    flag, context = case.flag("decode-context-parallel-size"), case.number("decode-context-parallel-size")
    wide, prefill = case.flag("prefill-context-parallel-size"), case.size("prefill-context-parallel-size")
    tensor = case.size("tensor-parallel-size")
    if wide is not None and prefill is not None and prefill > 1:
        data = case.number("data-parallel-size") or 1
        if case.within((0, 12), (0, 13)):
            yield Conflict(
                wide, f"--prefill-context-parallel-size {prefill}: this release has the flag alone", "Remove it"
            )
        elif data > 1 and case.within((0, 26), (0, 31)) and case.engine.platform == "cuda":
            yield Conflict(
                wide, f"--prefill-context-parallel-size {prefill} excludes --data-parallel-size {data} in this release",
                "Remove one of them",
            )  # fmt: skip
    if flag is None or not context or context < 1 or tensor is None or prefill is None or not case.complete:
        return
    if prefill > 1 and case.within((0, 26)):
        if context not in (1, prefill, tensor * prefill):
            yield Conflict(
                flag, f"--decode-context-parallel-size {context} beside --prefill-context-parallel-size {prefill} and "
                f"--tensor-parallel-size {tensor} must be 1, {prefill} or {tensor * prefill}",
                f"Set it to {prefill} or {tensor * prefill}",
            )  # fmt: skip
    elif tensor % context:
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


def _pipeline_of_model(case: Case) -> Iterator[Conflict]:
    """All releases: stages of an architecture whose own class knows none (``ModelConfig.verify_with_parallel_config``); which
    have them was asked of ``is_pp_supported_model`` of 0.19.1, 0.24.0 and 0.32.0 for every architecture. Models without a class
    of their own run through Transformers, which has stages."""
    # another class, or other names of it
    if (
        case.engine.get("model-impl") in (None, "auto", "vllm")
        and not {"hf-overrides", "config-format"} & case.engine.flags.keys()
    ):
        yield from one_stage_alone(case)


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


# ---- vLLM: launch over nodes and data parallel ranks -------------------------------------------------------------------


def _nodes(case: Case) -> Iterator[Conflict]:
    """0.11.1 on: nodes of one engine divide its ranks, are counted from 0, and are not Ray's."""
    flag, nodes = case.flag("nnodes"), case.number("nnodes")
    if flag is None or nodes is None or nodes < 2 or not case.within((0, 11, 1)):
        return
    if case.engine.get("distributed-executor-backend") == "ray":
        yield Conflict(
            flag, f"--nnodes {nodes} starts processes of its own, and --distributed-executor-backend is ray",
            "Remove --nnodes (Ray knows its nodes), or set --distributed-executor-backend mp",
        )  # fmt: skip
    names = ("tensor-parallel-size", "pipeline-parallel-size", "prefill-context-parallel-size", "data-parallel-size")
    sizes = [case.size(name) for name in names]
    world = 1
    for size in sizes:
        world *= size or 1
    if None not in sizes and world % nodes:
        yield Conflict(flag, f"{world} ranks do not divide by --nnodes {nodes}", "Choose sizes that divide")
    place, rank = case.flag("node-rank"), case.number("node-rank")
    if place is not None and rank is not None and rank >= nodes:
        yield Conflict(place, f"--node-rank {rank} of {nodes} nodes, which are counted from 0", f"Use 0 to {nodes - 1}")


def _balancers(case: Case) -> Iterator[Conflict]:
    """Load balancing over data parallel ranks: hybrid needs the local size (0.10.0 on), external a rank (0.11.1 on), and a rank
    other ranks (0.9.2 on); a model without experts has none of them (0.21 on)."""
    total, several = case.size("data-parallel-size"), case.size("nnodes")
    hybrid, external, rank = (case.flag(f"data-parallel-{name}") for name in ("hybrid-lb", "external-lb", "rank"))
    if hybrid is not None and hybrid.value is True:
        if external is not None and external.value is True:
            yield Conflict(
                hybrid,
                "--data-parallel-hybrid-lb and --data-parallel-external-lb exclude each other",
                "Remove one of them",
            )
        elif case.on("headless"):
            yield Conflict(hybrid, "--data-parallel-hybrid-lb in headless mode, which balances nothing", "Remove it")
        elif case.lacks("data-parallel-size-local") and case.lacks("data-parallel-rank") and several == 1:
            yield Conflict(hybrid, "--data-parallel-hybrid-lb needs --data-parallel-size-local", "Add it")
    elif external is not None and external.value is True and case.lacks("data-parallel-rank") and several == 1:
        yield Conflict(external, "--data-parallel-external-lb needs --data-parallel-rank", "Add it")
    number = case.number("data-parallel-rank")
    if (
        rank is not None
        and number is not None
        and total is not None
        and case.within((0, 9, 2))
        and (number >= total or total == 1)
    ):
        yield Conflict(
            rank, f"--data-parallel-rank {number} of --data-parallel-size {total}"
            + (": ranks are of two or more" if total == 1 else ", counted from 0"),
            "Set --data-parallel-size" if total == 1 else f"Use 0 to {total - 1}",
        )  # fmt: skip
    elif total is not None and total > 1 and case.within((0, 21)):
        flag = rank if rank is not None else external if external is not None and external.value is True else None
        model = case.plan.model
        if flag is not None and model is not None and not model.num_experts:
            yield Conflict(
                flag, f"external data parallel ranks of {model.id}, which has no experts to share",
                "Run independent engines, without --data-parallel flags",
            )  # fmt: skip


def _microbatches(case: Case) -> Iterator[Conflict]:
    """0.11.0 on: dual batch overlap needs an exchange between experts that overlaps; none of the defaults does."""
    flag, stated = case.flag("enable-dbo"), case.flag("all2all-backend")
    if flag is None or flag.value is not True or case.engine.platform != "cuda":
        return
    if "VLLM_ALL2ALL_BACKEND" in case.engine.env:
        return
    if stated is not None and str(stated.value).startswith(("deepep", "nixl", "mori", "flashinfer_nvlink")):
        return
    if stated is not None or case.lacks("all2all-backend"):
        yield Conflict(
            flag, "--enable-dbo overlaps batches through DeepEP only, and --all2all-backend names none of its modes",
            "Add --all2all-backend deepep_low_latency, or remove it",
        )  # fmt: skip


def _decode_context_of_groups(case: Case) -> Iterator[Conflict]:
    """0.11.0 on: grouped-query attention splits its cache over the ranks that hold the same head; MLA over all. From 0.11.1 on
    over no more of them than there are, and over as many as divide the query heads of a KV head."""
    flag, context = case.flag("decode-context-parallel-size"), case.number("decode-context-parallel-size")
    tensor, model = case.size("tensor-parallel-size"), case.plan.model
    if flag is None or context is None or context < 2 or tensor is None or model is None or not case.within((0, 11)):
        return
    if model.is_multi_latent or not model.kv_heads:
        return
    same, queries = tensor // model.kv_heads, model.heads // model.kv_heads
    if tensor <= model.kv_heads:
        yield Conflict(
            flag, f"--decode-context-parallel-size {context} needs more ranks (--tensor-parallel-size {tensor}) than {model.id} "
            f"has KV heads ({model.kv_heads})", "Remove it: the ranks split the heads already",
        )  # fmt: skip
    elif context > same and case.within((0, 11, 1)):
        yield Conflict(
            flag, f"--decode-context-parallel-size {context} is more than the {same} of {tensor} ranks that hold the same of the "
            f"{model.kv_heads} KV heads of {model.id}", f"Lower it to {same}" if same > 1 else "Remove it",
        )  # fmt: skip
    elif queries % context and case.within((0, 11, 1)):
        yield Conflict(
            flag, f"--decode-context-parallel-size {context} does not divide the {queries} query heads of a KV head of {model.id}",
            f"Choose one that divides {queries}",
        )  # fmt: skip


# ---- vLLM: speculation and asynchronous scheduling ---------------------------------------------------------------------


def _draft(case: Case) -> dict[str, Any]:
    """The object of --speculative-config, empty where there is none or it is not known."""
    config = case.engine.get("speculative-config")
    return config if isinstance(config, dict) else {}


def _asynchronous(case: Case) -> Iterator[Conflict]:
    """Asked for by flag, asynchronous scheduling has no pipeline stages (0.10.0 to 0.14), no speculation (0.10.0 to 0.11.0) or
    none by n-grams on the host (0.11.1 on), and not Ray (0.11.1 to 0.18). From 0.14 on it is left out in silence unless asked."""
    flag = case.flag("async-scheduling")
    if flag is None or flag.value is not True:
        return
    if (case.number("pipeline-parallel-size") or 1) > 1 and case.within((0, 10), (0, 15)):
        yield Conflict(
            flag,
            "--async-scheduling excludes pipeline parallelism in this release",
            "Remove one of them, or run 0.15 or newer",
        )
    method = _draft(case).get("method")
    early = case.within((0, 10), (0, 11, 1)) and _draft(case)
    if early or (method in ("ngram", "[ngram]") and case.within((0, 11, 1))):
        yield Conflict(
            flag,
            "--async-scheduling excludes speculative decoding" + ("" if early else " by n-grams"),
            "Remove one of them",
        )
    ray = case.engine.get("distributed-executor-backend") == "ray"
    if ray and case.within((0, 11, 1), (0, 19)):
        yield Conflict(flag, "--async-scheduling excludes Ray's executor in this release", "Remove it")


def _offloaded_groups(case: Case) -> Iterator[Conflict]:
    """0.17 on: no more layers of a group are offloaded than it has."""
    flag, count, group = (
        case.flag("offload-num-in-group"), case.number("offload-num-in-group"), case.number("offload-group-size")
    )  # fmt: skip
    if flag is not None and count is not None and group is not None and 0 < group < count:
        yield Conflict(
            flag, f"--offload-num-in-group {count} of groups of {group} layers", f"Set it to {group} or less"
        )


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


def _half_precision(case: Case) -> Iterator[Conflict]:
    """0.9.1 on: families whose values overflow float16 (``config/model.py``); plamo2 is no longer among them in 0.33."""
    flag, model = case.flag("dtype"), case.plan.model
    if flag is None or flag.value not in ("half", "float16") or model is None or not case.within((0, 9, 1)):
        return
    if model.model_type in ("gemma2", "gemma3", "gemma3_text", "glm4"):
        yield Conflict(
            flag, f"--dtype {flag.value} of {model.id}: the family is not numerically stable in float16, and is refused",
            "Use --dtype bfloat16, or float32 where the device has no bfloat16",
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


# ---- parts that few starts need ----------------------------------------------------------------------------------------

_KERNELS = frozenset(("attention-backend", "attention-config", "block-size", "compilation-config"))
_FEATURES = frozenset(
    (
        "kv-transfer-config", "disable-hybrid-kv-cache-manager", "kv-offloading-size", "use-replayssm", "attention-config",
        "enable-sleep-mode",
    )
)  # fmt: skip


def _rarer(case: Case) -> Iterator[Conflict]:
    """Constraints in modules of their own, which are imported where one of them may hold."""
    flags, variables, model = case.engine.flags.keys(), case.engine.env, case.plan.model
    asked = {
        "vllm_attention": _KERNELS & flags or "VLLM_ATTENTION_BACKEND" in variables,
        "vllm_features": _FEATURES & flags or "VLLM_USE_V2_MODEL_RUNNER" in variables,
        "vllm_speculation": any(name.startswith(("spec", "num-spec", "ngram")) for name in flags),
        "vllm_recurrent": model is not None and model.is_recurrent,
    }
    for name, wanted in asked.items():
        for constraint in import_module(f"planner.facts.{name}").CONSTRAINTS if wanted else ():
            yield from constraint(case)


CONSTRAINTS: tuple[Callable[[Case], Iterator[Conflict]], ...] = (
    _batch_below_length, _batch_below_sequences, _batch_beyond_all, _active_beyond_sequences, _long_prefill,
    _partial_prefills, _local_beyond_data, _context_parallel, _decode_context_of_groups, _expert_balancing, _experts_of_dense,
    _pipeline_of_model, _elastic_experts, _nodes, _balancers, _microbatches, _headless_servers, _asynchronous,
    _offloaded_groups, _tool_choice, _reasoning, _log_outputs, _request_metrics, _model_as_flag, _adapters, _old_speculation,
    _graph_sizes, _graph_settings_twice, _mamba_blocks, _e5m2_of_fp8, _half_precision, _long_length,
    _rarer,
)  # fmt: skip
