"""Combinations of flags that an engine refuses before it loads a weight. One function a constraint, with the releases that
have it; those of vLLM and SGLang have modules of their own. Sources here are TGI's launcher and ``trtllm-serve``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.facts.places import is_gap
from planner.record import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planner.engines.config import EngineConfig, FlagValue
    from planner.plan import Plan
    from planner.provenance import Fact, Position


class Conflict(NamedTuple):
    """One refused combination: the flag to point at (None: a default), what is wrong, what to do. ``refused`` is False where
    the engine only warns, or an estimate does not say for sure."""

    flag: FlagValue | None
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

    def size(self, name: str) -> int | None:
        """A parallel size: 1 where its flag is surely not given, None where it is not known."""
        return self.number(name) if name in self.engine.flags or not self.complete else 1

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


def _constraints(engine: str) -> tuple[Callable[[Case], Iterator[Conflict]], ...] | None:
    """What is checked of an engine's flags; None for an engine whose flags are not read."""
    if engine == "vllm":
        from planner.facts import vllm_conflicts

        return vllm_conflicts.CONSTRAINTS
    if engine == "sglang":
        from planner.facts import sglang_conflicts

        return sglang_conflicts.CONSTRAINTS
    return _CONSTRAINTS.get(engine)


def conflict_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``conflicts``: message, remedy and whether the engine refuses; none for an engine whose flags are not read."""
    constraints = _constraints(plan.engine.engine)
    if constraints is None or not plan.engine.version_key:
        return {}
    case = Case(plan)
    found: list[dict[str, Any]] = []
    for constraint in constraints:
        for conflict in constraint(case):
            place = (conflict.flag.value_position or conflict.flag.position) if conflict.flag is not None else None
            if place is not None:
                positions[f"engine.conflicts[{len(found)}]"] = place
            found.append({"message": conflict.message, "remedy": conflict.remedy, "refused": conflict.refused})
    return {"conflicts": found}


def one_stage_alone(case: Case) -> Iterator[Conflict]:
    """Pipeline stages of an architecture that this release of the engine cannot split."""
    flag, stages, model = case.flag("pipeline-parallel-size"), case.number("pipeline-parallel-size"), case.plan.model
    if flag is None or stages is None or stages < 2 or model is None or not case.complete:
        return
    from planner.engines.architectures import stages_since

    since = stages_since(case.engine.engine, model.architecture, case.version)
    if since is not None:
        later = f", or run {since} or newer, which splits it" if since else ""
        yield Conflict(
            flag, f"{model.architecture} cannot be split over pipeline stages in this release",
            f"Remove the stages and use tensor parallelism{later}",
        )  # fmt: skip


# ---- TGI ---------------------------------------------------------------------------------------------------------------


def _tgi_lengths(case: Case) -> Iterator[Conflict]:
    """The launcher: input < total <= batch in total (0.9.2 on); until 2.3 also that one input fits in a prefill batch and that
    in the batch in total. From 2.4 on the router asks the model, which splits prompts where it can."""
    input_flag, most_input = case.flag("max-input-tokens"), case.number("max-input-tokens")
    total = case.number("max-total-tokens")
    if input_flag is not None and most_input is not None and total is not None and most_input >= total:
        yield Conflict(
            input_flag, f"the longest input of {most_input} tokens must be less than the {total} tokens in total",
            f"Set MAX_INPUT_TOKENS below {total}",
        )  # fmt: skip
    spelled = {flag.spelling.partition("=")[0].lstrip("-").lower().replace("_", "-") for flag in case.engine.given}
    if input_flag is not None and {"max-input-tokens", "max-input-length"} <= spelled and case.within((2,)):
        yield Conflict(
            input_flag,
            "the longest input is given by its old name (max-input-length) and its new one",
            "Remove the old one",
        )
    batch_flag, batch = case.flag("max-batch-prefill-tokens"), case.number("max-batch-prefill-tokens")
    whole = case.within((), (2, 4))
    if batch_flag is not None and batch is not None and most_input is not None and batch < most_input:
        unless = "" if whole else ", and is refused unless the model's attention splits prompts"
        yield Conflict(
            batch_flag, f"a prefill batch of {batch} tokens cannot hold the longest input of {most_input} tokens{unless}",
            f"Set MAX_BATCH_PREFILL_TOKENS to {most_input} or more", refused=whole,
        )  # fmt: skip
    batch_total_flag, batch_total = case.flag("max-batch-total-tokens"), case.number("max-batch-total-tokens")
    if batch_total_flag is None or batch_total is None or not case.within((0, 9, 2)):
        return
    if whole and batch is not None and batch > batch_total:
        yield Conflict(
            batch_total_flag, f"a prefill batch of {batch} tokens is more than the batch's {batch_total} tokens in total",
            f"Set MAX_BATCH_TOTAL_TOKENS to {batch} or more",
        )  # fmt: skip
    if total is not None and total > batch_total:
        yield Conflict(
            batch_total_flag, f"one sequence of {total} tokens is more than the batch's {batch_total} tokens in total",
            f"Set MAX_BATCH_TOTAL_TOKENS to {total} or more",
        )  # fmt: skip


def _tgi_shards(case: Case) -> Iterator[Conflict]:
    """The launcher: sharding over one device (0.4 on), and ExLlamaV2 over several (2.1 on)."""
    flag, shards = case.flag("num-shard"), case.number("num-shard")
    if flag is None or shards is None:
        return
    if shards <= 1 and case.engine.get("sharded") is True and case.within((0, 4)):
        yield Conflict(flag, f"sharding is asked for over {shards} device", "Raise --num-shard, or remove --sharded")
    if shards > 1 and case.engine.get("quantize") == "exl2" and case.within((2, 1)):
        yield Conflict(flag, f"--quantize exl2 runs on one device, not on {shards} shards", "Set --num-shard 1")


def _tgi_switches(case: Case) -> Iterator[Conflict]:
    """The launcher: a tunnel needs a token (0.9 on) and an edge (0.9.4 on). The server (0.9 on): a method of quantization decides
    the dtype, except those of bitsandbytes; from 2.3 on the launcher hands on the method that the checkpoint's config names."""
    flag = case.flag("ngrok")
    if flag is not None and flag.value is True:
        for name, since in (("ngrok-authtoken", (0, 9)), ("ngrok-edge", (0, 9, 4))):
            if case.lacks(name) and case.within(since):
                yield Conflict(flag, f"--ngrok needs --{name}", f"Add --{name}, or remove --ngrok")
    flag, method = case.flag("dtype"), case.engine.get("quantize")
    if flag is None or not case.within((0, 9)):
        return
    whose = "--quantize"
    if case.lacks("quantize") and case.plan.model is not None and case.within((2, 3)):
        named = _TGI_METHODS if case.within((2, 4, 1)) else _TGI_METHODS[:-1]
        method, whose = (
            next((one for one in named if one == case.plan.model.quantization), None),
            "the checkpoint's method",
        )
    if isinstance(method, str) and not method.startswith("bitsandbytes"):
        yield Conflict(
            flag, f"--dtype {flag.value} with {whose} {method}, which decides the dtype itself: TGI takes one of the two",
            "Remove --dtype",
        )  # fmt: skip


#: Methods that a checkpoint's config names and the launcher knows, the last of them from 2.4.1 on.
_TGI_METHODS = ("awq", "gptq", "fp8", "marlin", "exl2", "compressed-tensors")


def _tgi_variables(case: Case) -> Iterator[Conflict]:
    """Variables that are no arguments and stop the server while it starts (2.3 on, ``globals.py``): a name of attention that is
    none, prefix caching over paged attention, a margin outside of (0, 1)."""
    if not case.within((2, 3)) or case.engine.platform not in ("cuda", "rocm"):
        return
    names = ["flashdecoding", "flashinfer", "paged"] + (["flashdecoding-ipex"] if case.within((3, 0, 2)) else [])
    attention = case.engine.env.get("ATTENTION")
    if attention is not None and attention.value not in names:
        yield Conflict(
            _variable("ATTENTION", attention), f"ATTENTION {attention.value[:40]!r} is none of {', '.join(names)}",
            f"Set it to {nearest_name(attention.value, names)}, or remove it",
        )  # fmt: skip
    name = "PREFIX_CACHING" if case.within((2, 4)) else "USE_PREFIX_CACHING"
    shared = case.engine.env.get(name)
    on = shared.value.lower() in ("1", "true") if shared is not None else case.effective("prefix_caching")
    if attention is not None and attention.value == "paged" and on:
        yield Conflict(
            _variable("ATTENTION", attention) if shared is None else _variable(name, shared),
            f"prefix caching ({name}) needs ATTENTION flashinfer or flashdecoding, not paged",
            f"Set {name} to 0, or ATTENTION to flashinfer",
        )  # fmt: skip
    room = case.engine.env.get("TGI_WIGGLE_ROOM")
    if room is None:
        return
    try:
        fits = 0 < float(room.value) < 1
    except ValueError:
        fits = False
    if not fits:
        yield Conflict(
            _variable("TGI_WIGGLE_ROOM", room), f"TGI_WIGGLE_ROOM {room.value[:40]!r} is not between 0 and 1",
            "Set it to a number such as 0.9, or remove it",
        )  # fmt: skip


def _variable(name: str, fact: Fact[str]) -> FlagValue:
    """A variable as a flag, to point at."""
    from planner.engines.config import FlagValue

    return FlagValue(name, fact.value, name, fact.value, fact.position, fact.position)


def nearest_name(text: str, names: Sequence[str]) -> str:
    """The name that is most like a text; the first where none is."""
    from difflib import get_close_matches

    return (get_close_matches(text.lower()[:80], names, 1, 0.5) or [names[0]])[0]


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


def _trtllm_experts(case: Case) -> Iterator[Conflict]:
    """``mapping.py`` (all releases, for models without experts too): the ranks that share experts, times those that share one,
    are the tensor parallel ranks; the one that is not given is divided out."""
    tensor, whole, split = case.number("tp-size"), case.number("ep-size"), case.number("moe-tp-size")
    flag = case.flag("ep-size") or case.flag("moe-tp-size")
    others = ("cp-size", "cluster-size", "options.auto_parallel", "options.dwdp_config", "options.cp_config")
    if "tp-size" not in case.engine.flags and case.complete:
        tensor = 1
    if flag is None or tensor is None or any(given.name in others for given in case.engine.given):
        return
    if any(name in case.engine.flags and not case.engine.stated(name) for name in ("ep-size", "moe-tp-size")):
        return
    if (whole is not None and whole < 1) or (split is not None and split < 1):
        return
    if (whole or tensor // (split or 1)) * (split or tensor // (whole or 1)) != tensor:
        sizes = " × ".join(
            f"{name} {size}" for name, size in (("expert", whole), ("expert tensor", split)) if size is not None
        )
        yield Conflict(
            flag, f"{sizes} parallel size and the tensor parallel size of {tensor} do not go together: the experts are spread "
            "over exactly the tensor parallel ranks", f"Choose sizes that multiply to {tensor}",
        )  # fmt: skip


_CONSTRAINTS: dict[str, tuple[Callable[[Case], Iterator[Conflict]], ...]] = {
    "tgi": (_tgi_lengths, _tgi_shards, _tgi_switches, _tgi_variables),
    "trtllm": (_trtllm_length, _trtllm_experts),
}
