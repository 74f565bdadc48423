"""The flag table that stands for the release of a plan, and how far it can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.engines.version import parse_version
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.engines.vllm_flag_table import FlagTable
    from planner.plan import Plan

#: The engines that have a table, as people write their names.
TITLES = {"vllm": "vLLM", "sglang": "SGLang", "tgi": "TGI", "trtllm": "TensorRT-LLM", "llama.cpp": "llama.cpp"}
#: Platforms whose builds of vLLM carry patches of their own: a flag that no release knows need not be wrong there.
_PATCHED = ("gaudi", "neuron", "ascend", "tpu", "spyre")


class Tables(NamedTuple):
    """``here``: the table of the release, or of the nearest before it; ``after``: that of the release that follows, where
    the release itself was not read (both must agree that a flag is none). ``standing``: ``exact``, ``between`` two releases
    that were read, ``newer`` or ``older`` than all of them, ``any`` for a table without releases. ``assumed``: nothing
    states the release. ``patched``: the build may know flags that no release does. ``wrapped``: the words go to a program
    around the engine, which takes flags of its own and hands on the rest; ``seen`` is False where an entrypoint that the
    input does not show reads them first."""

    here: FlagTable
    after: FlagTable | None
    standing: str
    assumed: bool
    patched: bool
    wrapped: bool = False
    seen: bool = True

    @property
    def note(self) -> str:
        """What to add to a message where the table is a neighbour's; empty where it is the release's own."""
        if self.standing in ("exact", "any"):
            return ""
        where = {"between": "before it", "newer": "that is known", "older": "that is known"}[self.standing]
        kind = "oldest" if self.standing == "older" else "nearest" if self.standing == "between" else "newest"
        return f" (by the table of {self.here.release}, the {kind} release {where})"


def tables(plan: Plan) -> Tables | None:
    """The tables for a plan's engine; None where its flags are not read by one."""
    engine = plan.engine
    here = table_of(engine.engine, engine.version_key)
    if here is None or not engine.version_key:
        return None
    known = Tables(
        here,
        None,
        "exact",
        engine.version_assumed,
        # SGLang's own releases run on these devices.
        engine.platform in _PATCHED and engine.engine == "vllm",
        _wrapped(plan),
        plan.start is None or plan.start.confidence == "high",
    )
    if not here.releases:
        return known._replace(standing="any")
    if here.exact:
        return known
    if engine.version_key < parse_version(here.releases[0]):
        return known._replace(standing="older")
    if not here.following:
        return known._replace(standing="newer")
    return known._replace(standing="between", after=table_of(engine.engine, parse_version(here.following)))


def _wrapped(plan: Plan) -> bool:
    """Whether something other than the engine's own parser reads the words: Dynamo's workers, the Rust frontend."""
    start, container = plan.start, plan.container
    if start is None or container is None:
        return False
    texts = (arg.text for arg in container.words)
    return start.engine != plan.engine.engine or any("vllm-rs" in text[:100_000] for text in texts)


def table_of(engine: str, version: tuple[int, ...]) -> FlagTable | None:
    """The table of an engine's release; None for an engine without one."""
    if engine == "vllm":
        from planner.engines.vllm_flag_table import flag_table

        return flag_table(version)
    if engine == "sglang":
        from planner.engines.sglang_flag_table import flag_table as sglang

        return sglang(version)
    if engine == "tgi":
        from planner.engines.tgi import flag_table as tgi

        return tgi(version)
    if engine == "trtllm":
        from planner.engines.trtllm import flag_table as trtllm

        return trtllm()
    return None
