"""Combinations of flags that an engine refuses before it loads a weight. One function a constraint, with the releases that
have it; those of vLLM and SGLang have modules of their own. Sources here are TGI's launcher and ``trtllm-serve``.
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
            place = conflict.flag.value_position or conflict.flag.position
            if place is not None:
                positions[f"engine.conflicts[{len(found)}]"] = place
            found.append({"message": conflict.message, "remedy": conflict.remedy, "refused": conflict.refused})
    return {"conflicts": found}


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
    "tgi": (_tgi_lengths, _tgi_shards),
    "trtllm": (_trtllm_length,),
}
