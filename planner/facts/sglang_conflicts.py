"""Combinations of flags that SGLang refuses before it loads a weight.

Source: the checks of ``server_args.py`` (0.4.0 to 0.5.18) and ``arg_groups/`` (0.5.12 on), ``model_executor/model_runner.py``
and ``layers/attention/attention_registry.py`` for attention kernels. From 0.5.6 on each constraint was also asked of the
releases' own code, with stand-ins for kernels and device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.engines.sglang_defaults import attention_data_size
from planner.facts.flag_conflicts import Conflict, one_stage_alone
from planner.record import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.facts.flag_conflicts import Case

Version = tuple[int, ...]
_NEWEST: Version = (10**6,)
#: First release whose FlashAttention 3 runs on compute capability 8.x.
_KERNELS_OF_8 = (0, 4, 6, 2)


class _Pair(NamedTuple):
    """A switch or setting ``flag`` that needs ``other`` beside it, or cannot have it, from ``since`` until before ``until``."""

    flag: str
    other: str
    since: Version
    until: Version = _NEWEST


_NEEDED = (
    _Pair("enable-prefix-mm-cache", "encoder-only", (0, 5, 7)),
    _Pair("export-metrics-to-file", "export-metrics-to-file-dir", (0, 5, 5, 3)),
    _Pair("prefill-only-disable-kv-cache", "is-embedding", (0, 5, 12)),
    _Pair("prefill-only-disable-kv-cache", "disable-radix-cache", (0, 5, 12)),
    _Pair("enable-prefill-cp", "cp-strategy", (0, 5, 14)),
    _Pair("language-only", "encoder-urls", (0, 5, 7), (0, 5, 13)),
    _Pair("disaggregation-decode-enable-offload-kvcache", "hicache-storage-backend", (0, 5, 10)),
    _Pair("enable-pdmux", "disable-overlap-schedule", (0, 5, 3, 2)),
    _Pair("multi-item-scoring-delimiter", "disable-radix-cache", (0, 5, 3, 1), (0, 5, 11)),
    _Pair("lora-paths", "disable-cuda-graph", (0, 4), (0, 4, 6, 2)),
    _Pair("lora-paths", "disable-radix-cache", (0, 4), (0, 5, 1)),
)
_EXCLUDED = (
    # Until 0.4.10 the hierarchical cache was left out in silence.
    _Pair("enable-hierarchical-cache", "disable-radix-cache", (0, 5, 1)),
    _Pair("encoder-only", "language-only", (0, 5, 7)),
    _Pair("disable-cuda-graph-padding", "enable-torch-compile", (0, 5, 12)),
    _Pair("enable-tokenizer-batch-encode", "enable-dynamic-batch-tokenizer", (0, 5, 3)),
    _Pair("grpc-port", "api-key", (0, 5, 16)),
    _Pair("grpc-port", "admin-api-key", (0, 5, 16)),
    _Pair("ple-offload-embedding", "cpu-offload-gb", (0, 5, 20)),
    _Pair("ple-offload-embedding", "offload-group-size", (0, 5, 20)),
)


def _given(case: Case, name: str) -> bool:
    """Whether a switch is on, or a setting has a value."""
    flag = case.flag(name)
    return flag is not None and flag.value not in (None, False, "", [], 0, -1)


def _pairs(case: Case) -> Iterator[Conflict]:
    """Two flags that belong together, or not."""
    for pair in _NEEDED:
        flag = case.flag(pair.flag)
        if (
            flag is not None
            and _given(case, pair.flag)
            and case.within(pair.since, pair.until)
            and case.off(pair.other)
        ):
            yield Conflict(flag, f"--{pair.flag} needs --{pair.other}", f"Add --{pair.other}, or remove --{pair.flag}")
    for pair in _EXCLUDED:
        flag = case.flag(pair.flag)
        both = _given(case, pair.flag) and _given(case, pair.other)
        if flag is not None and both and case.within(pair.since, pair.until):
            yield Conflict(flag, f"--{pair.flag} and --{pair.other} exclude each other", "Remove one of them")


# ---- devices and nodes -------------------------------------------------------------------------------------------------


def _cpu_fraction(case: Case) -> Iterator[Conflict]:
    """Reported of 0.5.2 (F106): on a CPU the memory fraction has no default, and comparing it fails."""
    flag = case.flag("device")
    if (
        flag is not None
        and flag.value == "cpu"
        and case.lacks("mem-fraction-static")
        and case.within((0, 5, 2), (0, 5, 3))
    ):
        yield Conflict(flag, "--device cpu needs a memory fraction in this release", "Add --mem-fraction-static 0.8")


def _attention_kernels(case: Case) -> Iterator[Conflict]:
    """Attention kernels for devices that they were not built for.

    FlashAttention 3: compute capability 9.x, from 0.4.6.post2 also 8.x without latent attention. trtllm_mla and
    tokenspeed_mla: Blackwell; cutedsl_mla: 10.x; trtllm_mha: 10.x, from 0.5.10 also 9.0 and 12.x for decoding, from 0.5.19
    for prefill too.
    """
    accelerator = case.plan.accelerator
    if accelerator is None or not accelerator.capability or case.engine.platform != "cuda":
        return
    major, latent = accelerator.capability[0], case.plan.model is not None and case.plan.model.is_multi_latent
    split = [name for name in ("decode-attention-backend", "prefill-attention-backend") if name in case.engine.flags]
    for name in split if len(split) == 2 else ("attention-backend", *split):
        flag = case.flag(name)
        backend = flag.value if flag is not None else None
        fits: tuple[int, ...] | None = None
        if backend == "fa3" and case.engine.get("kv-cache-dtype") != "fp8_e5m2":  # with which Triton is taken instead
            fits = (9, 10, 12) if case.within((), _KERNELS_OF_8) else (9,) if latent else (8, 9)
        elif backend == "trtllm_mla" and case.within((0, 4, 10, 1)):
            fits = (10,) if case.within((), (0, 5, 4, 2)) else (10, 12)
        elif backend == "trtllm_mha" and case.within((0, 5, 1)):
            prefill = name != "decode-attention-backend" and (
                name == "prefill-attention-backend" or "prefill-attention-backend" not in case.engine.flags
            )
            old = case.within((), (0, 5, 10)) or (prefill and case.within((), (0, 5, 19)))
            fits = (10,) if old else (9, 10, 12)
        elif backend == "tokenspeed_mla":
            fits = (10, 12) if case.within((), (0, 5, 23)) else (10,)
        elif backend == "cutedsl_mla":
            fits = (10,)
        if flag is not None and fits is not None and major not in fits:
            yield Conflict(
                flag, f"--{name} {backend} has no kernels for {accelerator.name} (compute capability {major}."
                f"{accelerator.capability[1]}); it needs {' or '.join(f'{fit}.x' for fit in fits)}",
                f"Remove --{name}: SGLang chooses one that the device has",
            )  # fmt: skip


def _prefill_kernels(case: Case) -> Iterator[Conflict]:
    """0.5.4 to 0.5.7: FlashAttention 4 has prefill alone."""
    for name in ("attention-backend", "decode-attention-backend"):
        flag = case.flag(name)
        if flag is not None and flag.value == "fa4" and case.within((0, 5, 4), (0, 5, 8)):
            yield Conflict(
                flag, f"--{name} fa4: this release has it for prefill only", "Set --prefill-attention-backend fa4"
            )


def _nodes(case: Case) -> Iterator[Conflict]:
    """All releases: ranks spread evenly over the nodes, and replicas stay on one of them."""
    flag, nodes = case.flag("nnodes"), case.number("nnodes")
    if flag is None or nodes is None or nodes < 2 or _given(case, "elastic-ep-join-mode"):
        return
    tensor, pipeline = case.size("tensor-parallel-size"), case.size("pipeline-parallel-size")
    if tensor is not None and pipeline is not None and tensor * pipeline % nodes:
        yield Conflict(
            flag, f"{tensor * pipeline} ranks (tensor × pipeline parallel size) do not divide by --nnodes {nodes}",
            "Choose sizes that divide",
        )  # fmt: skip
    data, split = case.size("data-parallel-size"), case.off("enable-dp-attention")
    if data is not None and data > 1 and split and case.lacks("attn-dp-size"):
        yield Conflict(
            flag, f"--dp-size {data} makes replicas, which SGLang keeps on one node; --nnodes is {nodes}",
            "Run one server a node, or use data parallel attention",
        )  # fmt: skip


# ---- parallel sizes ----------------------------------------------------------------------------------------------------


def _attention_groups(case: Case) -> Iterator[Conflict]:
    """Data parallel attention spreads ranks that tensor parallelism has: tp % dp (0.4.4.post1 on; before, dp was set to tp),
    with dp > 1 until 0.5.1; from 0.5.22 --attn-dp-size says the groups, and excludes --dp-size."""
    tensor, data = case.size("tensor-parallel-size"), case.size("data-parallel-size")
    own, groups = case.flag("attn-dp-size"), case.number("attn-dp-size")
    if own is not None and groups is not None and groups > 1 and case.within((0, 5, 22)):
        if data is not None and data > 1:
            yield Conflict(
                own, f"--attn-dp-size {groups} cannot be combined with --dp-size {data}", "State one of the two"
            )
        elif tensor is not None and tensor % groups:
            yield Conflict(
                own, f"--tensor-parallel-size {tensor} does not divide by --attn-dp-size {groups}",
                "Choose sizes that divide",
            )  # fmt: skip
    flag = case.flag("enable-dp-attention")
    if flag is None or flag.value is not True or data is None or own is not None or not case.within((0, 4, 4, 1)):
        return
    if tensor is not None and data > 0 and tensor % data:
        yield Conflict(
            flag, f"data parallel attention needs a tensor parallel size ({tensor}) that divides by the data parallel "
            f"size ({data})", "Choose sizes that divide",
        )  # fmt: skip
    elif data == 1 and case.within((), (0, 5, 2)):
        yield Conflict(
            flag, "data parallel attention needs a data parallel size above 1 in this release", "Add --dp-size"
        )


def _head_groups(case: Case) -> Iterator[Conflict]:
    """0.4.6.post4 on: a head that is split by groups of data parallel attention needs those; one replica drops the switch."""
    flag, data = case.flag("enable-dp-lm-head"), case.size("data-parallel-size")
    if flag is None or flag.value is not True or not case.within((0, 4, 6, 4)) or data is None or data < 2:
        return
    if case.off("enable-dp-attention") and case.lacks("attn-dp-size"):
        yield Conflict(flag, "--enable-dp-lm-head needs data parallel attention", "Add --enable-dp-attention")


def _context_groups(case: Case) -> Iterator[Conflict]:
    """0.5.9 on: ranks that split the prompt, and copies of expert groups, come out of the tensor parallel ranks."""
    tensor = case.size("tensor-parallel-size")
    flag, context = case.flag("attn-cp-size"), case.number("attn-cp-size")
    data = case.size("attn-dp-size" if "attn-dp-size" in case.engine.flags else "data-parallel-size")
    split = (context or 1) * max(data or 1, 1)
    if (
        flag is not None
        and context is not None
        and context > 1
        and None not in (tensor, data)
        and (tensor or 1) % split
    ):
        among = f" × {data} groups" if split > context else ""
        yield Conflict(
            flag, f"--tensor-parallel-size {tensor} does not divide by --attn-cp-size {context}{among}",
            "Choose sizes that divide",
        )  # fmt: skip
    # 0.5.15 on (``parallel_state.py``): decoding splits the tokens over some of the tensor parallel ranks.
    flag, shards = case.flag("dcp-size"), case.number("dcp-size")
    if flag is not None and shards is not None and shards > 1 and tensor is not None and tensor % shards:
        yield Conflict(
            flag, f"--tensor-parallel-size {tensor} does not divide by --dcp-size {shards}", "Choose sizes that divide"
        )
    if flag is not None and (shards or 1) > 1 and case.on("enable-prefill-cp") and case.within((0, 5, 21)):
        yield Conflict(flag, f"--dcp-size {shards} excludes --enable-prefill-cp", "Remove one of them")
    flag, copies = case.flag("moe-dp-size"), case.number("moe-dp-size")
    experts = case.size("expert-parallel-size")
    if flag is None or copies is None or copies < 2 or tensor is None:
        return
    if tensor % copies or (experts is not None and experts * copies > tensor and not _given(case, "moe-a2a-backend")):
        yield Conflict(
            flag, f"--moe-dp-size {copies} and --ep-size {experts or 1} ask for more than --tp-size {tensor} has, or "
            "do not divide it", "Choose sizes that divide",
        )  # fmt: skip


def _dense_size(case: Case) -> Iterator[Conflict]:
    """0.4.5.post2 on: dense layers run on one rank or on all; until 0.5.12 the latter is said by leaving the flag out."""
    flag, dense = case.flag("moe-dense-tp-size"), case.number("moe-dense-tp-size")
    tensor = case.size("tensor-parallel-size")
    if flag is None or dense is None or dense == 1 or tensor is None or not case.within((0, 4, 5, 2)):
        return
    if dense != tensor or case.within((), (0, 5, 13)):
        yield Conflict(
            flag, f"--moe-dense-tp-size {dense}: dense layers run on one rank or on all {tensor} of them",
            "Set it to 1, or remove it",
        )  # fmt: skip


def _experts(case: Case) -> Iterator[Conflict]:
    """0.5.1 on: balancing experts needs ranks that share them; FlashInfer's CUTLASS experts are split over all or none."""
    tensor, experts = case.size("tensor-parallel-size"), case.size("expert-parallel-size")
    spread = "moe-a2a-backend" in case.engine.flags and case.engine.get("moe-a2a-backend") != "none"
    # Switches of earlier releases, and context parallelism of DeepSeek's sparse attention, spread experts too.
    others = ("enable-ep-moe", "enable-deepep-moe", "elastic-ep-join-mode")
    spread = spread or any(name in others or "prefill-c" in name for name in case.engine.flags)
    flag = case.flag("enable-eplb")
    if flag is not None and flag.value is True and experts == 1 and not spread and case.within((0, 5, 1)):
        yield Conflict(
            flag, "--enable-eplb needs expert parallelism: on one rank there is nothing to balance",
            "Add --ep-size, or remove --enable-eplb",
        )  # fmt: skip
    flag = case.flag("moe-runner-backend")
    cutlass = flag is not None and flag.value == "flashinfer_cutlass" and not spread and case.within((0, 5, 1))
    if flag is not None and cutlass and experts is not None and tensor is not None and experts not in (1, tensor):
        yield Conflict(
            flag, f"--moe-runner-backend flashinfer_cutlass takes an expert parallel size of 1 or {tensor}, not {experts}",
            f"Set --ep-size {tensor}",
        )  # fmt: skip
    flag = case.flag("enable-two-batch-overlap")
    if flag is not None and flag.value is True and not spread and case.within((0, 5, 7)) and case.complete:
        grouped = attention_data_size(case.engine) > 1
        if case.within((), (0, 5, 15)) or not grouped:
            yield Conflict(
                flag, "--enable-two-batch-overlap needs an exchange between expert ranks"
                + ("" if case.within((), (0, 5, 15)) else " or data parallel attention"),
                "Add --moe-a2a-backend, or remove it",
            )  # fmt: skip


def _exchanges(case: Case) -> Iterator[Conflict]:
    """Exchanges between expert ranks that are groups of data parallel attention: flashinfer, as many as ranks (0.5.13 to
    0.5.22); pplx, two or more (0.5.17 on). FP8 experts in CUTLASS are not spread (0.5.4.post3 on)."""
    flag, tensor = case.flag("moe-a2a-backend"), case.size("tensor-parallel-size")
    known = not any(
        name in case.engine.flags and not case.engine.stated(name)
        for name in ("data-parallel-size", "attn-dp-size", "enable-dp-attention")
    )
    groups = attention_data_size(case.engine)
    if flag is not None and tensor is not None and known and case.complete:
        if flag.value == "flashinfer" and groups != tensor and case.within((0, 5, 13), (0, 5, 23)):
            yield Conflict(
                flag, f"--moe-a2a-backend flashinfer needs data parallel attention over all {tensor} ranks, not {groups} groups",
                f"Set --dp-size {tensor} --enable-dp-attention",
            )  # fmt: skip
        if flag.value == "pplx" and groups < 2 and case.within((0, 5, 17)):
            yield Conflict(flag, "--moe-a2a-backend pplx needs data parallel attention", "Add --enable-dp-attention")
    flag, experts = case.flag("moe-runner-backend"), case.number("expert-parallel-size")
    cutlass = flag is not None and flag.value == "cutlass" and case.engine.get("quantization") in ("fp8", "mxfp8")
    if flag is not None and cutlass and experts is not None and experts > 1 and case.within((0, 5, 4, 3)):
        yield Conflict(
            flag,
            f"--moe-runner-backend cutlass has no expert parallelism for FP8 (--ep-size {experts})",
            "Remove one of them",
        )


# ---- scheduling and cache ----------------------------------------------------------------------------------------------


def _chunk_pages(case: Case) -> Iterator[Conflict]:
    """0.4.4 on: a prefill chunk is whole pages; until 0.4.10 also where chunking is off (-1), from 0.5.3 not on a decode node.
    From 0.4.10.post2 a chunk is first divided by the groups of data parallel attention."""
    flag, chunk = case.flag("chunked-prefill-size"), case.number("chunked-prefill-size")
    page = case.effective("block_size")
    page = page if page is not None else case.number("page-size")
    if flag is None or not chunk or page is None or page < 2 or not case.within((0, 4, 4)):
        return
    if chunk < 0 and case.within((0, 5, 1)):
        return
    role = case.engine.get("disaggregation-mode")
    elsewhere = case.lacks("disaggregation-mode") or role in ("null", "prefill")
    if case.within((0, 5, 3)) and not elsewhere:
        return
    groups = attention_data_size(case.engine) if case.within((0, 4, 10, 2)) else 1
    if chunk // groups % page:
        share = f" over {groups} groups" if groups > 1 else ""
        yield Conflict(
            flag, f"--chunked-prefill-size {chunk}{share} is no multiple of the page size, {page} tokens",
            f"Set it to a multiple of {page * groups}",
        )  # fmt: skip


def _multiplexing(case: Case) -> Iterator[Conflict]:
    """0.5.3.post2 on: multiplexing prefill and decode on one device needs whole prompts and a whole engine."""
    flag = case.flag("enable-pdmux")
    if flag is None or flag.value is not True or not case.within((0, 5, 3, 2)):
        return
    chunk = case.number("chunked-prefill-size")
    if case.lacks("chunked-prefill-size") or (chunk is not None and chunk != -1):
        yield Conflict(flag, "--enable-pdmux excludes chunked prefill", "Add --chunked-prefill-size -1")
    if (case.number("pipeline-parallel-size") or 1) > 1:
        yield Conflict(flag, "--enable-pdmux excludes pipeline parallelism", "Remove one of them")
    if case.engine.get("disaggregation-mode") in ("prefill", "decode"):
        yield Conflict(flag, "--enable-pdmux excludes --disaggregation-mode", "Remove one of them")


def _running(case: Case) -> Iterator[Conflict]:
    """0.4.6 on (``tp_worker.py``): every group of data parallel attention runs a request or more."""
    flag, most = case.flag("max-running-requests"), case.number("max-running-requests")
    if flag is None or most is None or not case.within((0, 4, 6)):
        return
    groups = max(1, attention_data_size(case.engine))
    if most // groups < 1:
        over = f" over {groups} groups of attention" if groups > 1 else ""
        yield Conflict(flag, f"--max-running-requests {most}{over} lets no request run", f"Set it to {groups} or more")


def _host_pool(case: Case) -> Iterator[Conflict]:
    """Until 0.5.14 the cache in the host's memory must hold more tokens than the device's (``memory_pool_host.py``). A size is
    compared where one pool is all there is."""
    if not case.on("enable-hierarchical-cache") or not case.within((0, 4, 5), (0, 5, 15)):
        return
    size, share = case.flag("hicache-size"), case.flag("hicache-ratio")
    stated = case.size("hicache-size") if size is not None else 0 if case.lacks("hicache-size") else None
    if stated is None or case.engine.version_assumed:
        return
    if share is not None and isinstance(share.value, (int, float)) and stated == 0:
        if 0 <= share.value < 0.99:
            yield Conflict(
                share, f"--hicache-ratio {share.value:g}: this release wants more tokens in the host's memory than on the device",
                "Set it above 1, or run 0.5.15 or newer",
            )  # fmt: skip
        return
    budget, config = case.plan.budget, case.plan.effective
    if size is None or stated <= 0 or budget is None or budget.capacity is None or config is None:
        return
    rank = budget.ranks[0]
    if (
        rank.kv is None
        or {"windows", "states", "draft"} & rank.terms.keys()
        or "speculative-algorithm" in case.engine.flags
    ):
        return
    tokens = int(stated * 10**9 // rank.kv.bytes_per_token)
    device = budget.capacity.kv_tokens.low // max(1, config.parallel.context)
    if 0 < tokens + rank.kv.block_size < device:
        yield Conflict(
            size, f"--hicache-size {stated} holds {tokens:,} tokens, fewer than the {device:,} or more on the device, which this "
            "release refuses", "Raise it, use --hicache-ratio 2, or run 0.5.15 or newer",
        )  # fmt: skip


def _without_cache(case: Case) -> Iterator[Conflict]:
    """0.5.12 on: an engine for embeddings without a cache takes whole prompts."""
    flag, chunk = case.flag("prefill-only-disable-kv-cache"), case.number("chunked-prefill-size")
    if flag is None or flag.value is not True or not case.within((0, 5, 12)):
        return
    if case.lacks("chunked-prefill-size") or (chunk is not None and chunk != -1):
        yield Conflict(
            flag, "--prefill-only-disable-kv-cache excludes chunked prefill", "Add --chunked-prefill-size -1"
        )


def _priorities(case: Case) -> Iterator[Conflict]:
    """0.5.3 on: priorities order a queue of fcfs or lof; from 0.5.16 taking back by priority needs them."""
    flag, policy = case.flag("schedule-policy"), case.engine.get("schedule-policy")
    if (
        flag is not None
        and case.on("enable-priority-scheduling")
        and policy not in ("fcfs", "lof")
        and case.within((0, 5, 3))
    ):
        yield Conflict(
            flag, f"--schedule-policy {policy} with --enable-priority-scheduling, which orders fcfs and lof only",
            "Set --schedule-policy fcfs",
        )  # fmt: skip
    flag = case.flag("retraction-policy")
    if (
        flag is not None
        and flag.value == "priority"
        and case.off("enable-priority-scheduling")
        and case.within((0, 5, 16))
    ):
        yield Conflict(
            flag, "--retraction-policy priority needs --enable-priority-scheduling", "Add --enable-priority-scheduling"
        )


def _pipeline(case: Case) -> Iterator[Conflict]:
    """0.4.6.post2 on: pipeline stages have no speculation (from 0.5.21 EAGLE on a prefill node, or where a variable lets it),
    and until 0.5.10 no mixed chunks."""
    flag, stages = case.flag("pipeline-parallel-size"), case.number("pipeline-parallel-size")
    if flag is None or stages is None or stages < 2 or not case.within((0, 4, 6, 2)):
        return
    method = str(case.engine.get("speculative-algorithm") or "").upper()
    allowed = case.within((0, 5, 21)) and (
        case.engine.get("disaggregation-mode") == "prefill"
        or ("disaggregation-mode" in case.engine.flags and not case.engine.stated("disaggregation-mode"))
        or "SGLANG_ENABLE_PP_SPEC" in case.engine.env
        or not case.complete
    )
    if method and not (allowed and method in ("EAGLE", "NEXTN", "DSPARK")):
        yield Conflict(
            flag, f"--pp-size {stages} with --speculative-algorithm {method}, which this release does not combine",
            "Remove the speculation, or use tensor parallelism alone",
        )  # fmt: skip
    # EAGLE and its kin switch mixed chunks off before this is looked at.
    elif case.on("enable-mixed-chunk") and case.within((), (0, 5, 11)):
        yield Conflict(flag, f"--pp-size {stages} excludes --enable-mixed-chunk in this release", "Remove one of them")


def _pipeline_of_model(case: Case) -> Iterator[Conflict]:
    """0.5.5.post1 on: stages of an architecture whose ``forward`` takes nothing from the stage before, an assertion once the
    weights are loaded (``model_executor/model_runner.py``). Asked of the classes of 0.5.6, 0.5.9 and 0.5.23 themselves; models
    that take over another's ``forward`` as they are built (Qwen3-Omni, MiniCPM-V) are passed over."""
    # another class, or other names of it
    if (
        case.engine.get("model-impl") in (None, "auto", "sglang")
        and "json-model-override-args" not in case.engine.flags
    ):
        yield from one_stage_alone(case)


# ---- speculation and adapters ------------------------------------------------------------------------------------------


def _speculation(case: Case) -> Iterator[Conflict]:
    """Methods that lack something: groups of attention (STANDALONE 0.5.2 on, NGRAM 0.5.3 on, DFLASH 0.5.11 to 0.5.22), a draft
    model (DFLASH), a tree shape without its depth (0.4.4.post4 on), kernels for trees over pages of several tokens."""
    flag = case.flag("speculative-algorithm")
    method = str(flag.value or "").upper() if flag is not None else ""
    if flag is None or not method:
        return
    grouped = attention_data_size(case.engine) > 1
    since = {"STANDALONE": (0, 5, 2), "NGRAM": (0, 5, 3), "DFLASH": (0, 5, 11)}.get(method)
    until = (0, 5, 23) if method == "DFLASH" else _NEWEST
    if grouped and since is not None and case.within(since, until):
        yield Conflict(flag, f"--speculative-algorithm {method} excludes data parallel attention", "Remove one of them")
    if method == "DFLASH" and case.lacks("speculative-draft-model-path"):
        yield Conflict(flag, "--speculative-algorithm DFLASH needs a draft model", "Add --speculative-draft-model-path")
    if method == "NGRAM" and case.engine.get("attention-backend") == "flex_attention" and case.within((0, 5, 3)):
        yield Conflict(
            flag, "--attention-backend flex_attention has no speculative decoding", "Choose another --attention-backend"
        )
    if method not in ("EAGLE", "EAGLE3", "STANDALONE"):
        return
    if case.lacks("speculative-num-steps") and case.within((0, 4, 4, 4)) and case.off("speculative-adaptive"):
        shape = case.flag("speculative-eagle-topk") or case.flag("speculative-num-draft-tokens")
        if shape is not None and shape.value is not None:
            yield Conflict(
                shape, f"{shape.spelling.partition('=')[0]} without --speculative-num-steps: SGLang chooses all three or none",
                "Add --speculative-num-steps",
            )  # fmt: skip
    wide = case.flag("speculative-eagle-topk")
    if wide is None or (case.number("speculative-eagle-topk") or 1) < 2:
        return
    backends = {case.engine.get(f"{name}attention-backend") for name in ("", "decode-", "prefill-")}
    if "trtllm_mha" in backends and case.within((0, 5, 1)):
        yield Conflict(wide, "trtllm_mha drafts with --speculative-eagle-topk 1 only", "Set --speculative-eagle-topk 1")
    backend, page = case.engine.get("attention-backend"), case.number("page-size")
    good = ("flashinfer", "fa3", "triton")[
        : 1 if case.within((), (0, 5, 6)) else 2 if case.within((), (0, 5, 13)) else 3
    ]
    if isinstance(backend, str) and backend not in good and page is not None and page > 1 and case.within((0, 5, 2)):
        yield Conflict(
            wide, f"a draft tree over pages of {page} tokens needs {' or '.join(good)}, not {backend}",
            "Set --speculative-eagle-topk 1, or --page-size 1",
        )  # fmt: skip


def _adapters(case: Case) -> Iterator[Conflict]:
    """LoRA: shapes without an adapter to read them from (0.4.9.post3 on), more in a batch than kept (0.4.10.post2 on),
    speculation other than NGRAM (0.5.5.post3 to 0.5.18)."""
    paths, switch = case.flag("lora-paths"), case.flag("enable-lora")
    flag = paths if paths is not None and paths.value else switch
    if flag is None or not flag.value or case.engine.get("enable-lora") is False:
        return
    shapes = [name for name in ("max-lora-rank", "lora-target-modules") if case.lacks(name)]
    if flag is switch and case.lacks("lora-paths") and shapes and case.within((0, 4, 9, 3)):
        yield Conflict(
            flag, f"--enable-lora without --lora-paths needs {' and '.join(f'--{name}' for name in shapes)}",
            "Add them, or an adapter with --lora-paths",
        )  # fmt: skip
    kept, most = case.flag("max-loaded-loras"), case.number("max-loaded-loras")
    batch = case.number("max-loras-per-batch") if "max-loras-per-batch" in case.engine.flags else 8
    if kept is not None and most is not None and case.within((0, 4, 10, 2)):
        count = len(paths.value) if paths is not None and isinstance(paths.value, list) else 0
        if batch is not None and case.complete and most < batch:
            yield Conflict(
                kept, f"--max-loaded-loras {most} is below --max-loras-per-batch {batch}", f"Set it to {batch} or more"
            )
        elif count > most:
            yield Conflict(kept, f"--max-loaded-loras {most} for {count} adapters", f"Set it to {count} or more")
    method = str(case.engine.get("speculative-algorithm") or "").upper()
    if method not in ("", "NGRAM") and case.within((0, 5, 5, 3), (0, 5, 19)):
        yield Conflict(
            flag, f"LoRA with --speculative-algorithm {method}: this release combines it with NGRAM only",
            "Remove one of them, or run 0.5.19 or newer",
        )  # fmt: skip


# ---- serving -----------------------------------------------------------------------------------------------------------


def _names(case: Case) -> Iterator[Conflict]:
    """0.5.5.post1 on: a colon in the served name separates an adapter; addresses of object stores are exempt."""
    flag = case.flag("served-model-name")
    name = str(flag.value or "") if flag is not None else ""
    if flag is not None and ":" in name and "://" not in name and case.within((0, 5, 5, 1)):
        yield Conflict(
            flag, f"--served-model-name {name[:80]}: a colon separates the name of an adapter, and is refused",
            f"Write {name[:80].replace(':', '-')}",
        )  # fmt: skip


def _settings(case: Case) -> Iterator[Conflict]:
    """Settings of a feature that is off, and two servers on one port."""
    flag, ranks = case.flag("dcp-comm-backend"), case.size("dcp-size")
    if flag is not None and flag.value in ("a2a", "fi_a2a") and ranks == 1:
        yield Conflict(
            flag, f"--dcp-comm-backend {flag.value} needs --dcp-size above 1", "Add --dcp-size, or remove it"
        )
    flag = case.flag("dcp-replicate-q-proj")
    if flag is not None and flag.value is True and ranks == 1 and case.within((0, 5, 17)):
        yield Conflict(flag, "--dcp-replicate-q-proj needs --dcp-size above 1", "Add --dcp-size, or remove it")
    flag, port = case.flag("grpc-port"), case.number("grpc-port")
    http = case.number("port") if "port" in case.engine.flags else 30000
    legacy = case.on("grpc-mode") or case.on("smg-grpc-mode")
    if (
        flag is not None
        and port is not None
        and port == http
        and case.complete
        and not legacy
        and case.within((0, 5, 11))
    ):
        yield Conflict(flag, f"--grpc-port {port} is the port of HTTP too", "Choose another one")
    flag, backend = case.flag("attention-backend"), case.engine.get("attention-backend")
    good = ("flashinfer", "fa3", "triton", "ascend", "intel_xpu") + (() if case.within((), (0, 5, 16)) else ("fa4",))
    if flag is not None and case.on("enable-deterministic-inference") and backend and backend not in good:
        yield Conflict(
            flag, f"--attention-backend {backend} with --enable-deterministic-inference, which it has no kernels for",
            "Use fa3, flashinfer or triton",
        )  # fmt: skip


def _roles(case: Case) -> Iterator[Conflict]:
    """Prefill and decode nodes: caches that a decode node has none of (0.5.1 on), its offloading elsewhere (0.5.3 on), transfers
    that a prefill node cannot fake (0.5.10 on), encoders (0.5.7 on)."""
    role, stated = case.engine.get("disaggregation-mode"), case.flag("disaggregation-mode")
    flag = case.flag("enable-hierarchical-cache")
    bare = role == "decode" and case.within((0, 5, 1)) and case.off("disaggregation-decode-enable-radix-cache")
    if flag is not None and flag.value is True and bare:
        yield Conflict(
            flag, "--enable-hierarchical-cache on a decode node, which runs without the radix cache", "Remove it"
        )
    flag = case.flag("disaggregation-decode-enable-offload-kvcache")
    elsewhere = role in ("null", "prefill") or case.lacks("disaggregation-mode")
    if flag is not None and flag.value is True and elsewhere and case.within((0, 5, 3)):
        yield Conflict(
            flag, "--disaggregation-decode-enable-offload-kvcache is for decode nodes",
            "Remove it, or add --disaggregation-mode decode",
        )  # fmt: skip
    flag = case.flag("disaggregation-transfer-backend")
    if flag is not None and flag.value == "fake" and role == "prefill" and case.within((0, 5, 10)):
        yield Conflict(flag, "a prefill node cannot fake its transfers", "Choose mooncake or nixl")
    if case.on("encoder-only") and role in ("prefill", "decode") and stated is not None and case.within((0, 5, 7)):
        yield Conflict(stated, f"--disaggregation-mode {role} of an engine with --encoder-only", "Remove one of them")


CONSTRAINTS: tuple[Callable[[Case], Iterator[Conflict]], ...] = (
    _pairs, _cpu_fraction, _attention_kernels, _prefill_kernels, _nodes, _attention_groups, _head_groups, _context_groups,
    _dense_size, _experts, _exchanges, _chunk_pages, _running, _host_pool, _multiplexing, _without_cache, _priorities, _pipeline,
    _pipeline_of_model, _speculation, _adapters, _names, _settings, _roles,
)  # fmt: skip
