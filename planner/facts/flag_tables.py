"""The flag table that stands for the release of a plan, and how far it can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.engines.version import parse_version
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.engines.config import EngineConfig
    from planner.engines.vllm_flag_table import FlagTable

#: The engines that have a table, as people write their names.
TITLES = {"vllm": "vLLM", "sglang": "SGLang", "tgi": "TGI", "trtllm": "TensorRT-LLM", "llama.cpp": "llama.cpp"}
#: Platforms whose builds of vLLM carry patches of their own: a flag that no release knows need not be wrong there.
_PATCHED = ("gaudi", "neuron", "ascend", "tpu", "spyre")


class Tables(NamedTuple):
    """``here``: the table of the release, or of the nearest before it; ``after``: that of the release that follows, where
    the release itself was not read (both must agree that a flag is none). ``standing``: ``exact``, ``between`` two releases
    that were read, ``newer`` or ``older`` than all of them, ``any`` for a table without releases. ``assumed``: nothing
    states the release. ``patched``: the build may know flags that no release does."""

    here: FlagTable
    after: FlagTable | None
    standing: str
    assumed: bool
    patched: bool

    @property
    def note(self) -> str:
        """What to add to a message where the table is a neighbour's; empty where it is the release's own."""
        if self.standing in ("exact", "any"):
            return ""
        where = {"between": "before it", "newer": "that is known", "older": "that is known"}[self.standing]
        kind = "oldest" if self.standing == "older" else "nearest" if self.standing == "between" else "newest"
        return f" (by the table of {self.here.release}, the {kind} release {where})"


def tables(engine: EngineConfig) -> Tables | None:
    """The tables for a plan's engine; None where its flags are not read by one."""
    here = table_of(engine.engine, engine.version_key)
    if here is None or not engine.version_key:
        return None
    assumed = engine.version.provenance.source == "assumption"
    patched = engine.platform in _PATCHED
    if not here.releases:
        return Tables(here, None, "any", assumed, patched)
    if here.exact:
        return Tables(here, None, "exact", assumed, patched)
    if engine.version_key < parse_version(here.releases[0]):
        return Tables(here, None, "older", assumed, patched)
    if not here.following:
        return Tables(here, None, "newer", assumed, patched)
    return Tables(here, table_of(engine.engine, parse_version(here.following)), "between", assumed, patched)


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

        return tgi()
    if engine == "trtllm":
        from planner.engines.trtllm import flag_table as trtllm

        return trtllm()
    return None
