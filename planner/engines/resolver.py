"""What the defaults of all engines have in common: flags read as facts, and defaults that say why they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from planner.engines.config import EngineConfig, Parallelism
from planner.engines.vllm import flag_fact
from planner.provenance import Fact, Provenance, assumed, from_default

if TYPE_CHECKING:
    from planner.accelerators.accelerator import Accelerator
    from planner.models.architecture import ModelArchitecture

T = TypeVar("T")
Version = tuple[int, ...]

#: More ranks are refused by the engine or are a typing error; the bound keeps the arithmetic small.
MOST_RANKS = 1 << 16
#: Counts beyond this are refused or a typing error, likewise.
MOST_TOKENS = 1 << 40


def given(config: EngineConfig, name: str, kind: type | tuple[type, ...]) -> Fact[Any] | None:
    """The value of a flag with its place, None where it is absent, unknown or of another type."""
    fact = flag_fact(config, name)
    if fact is None or fact.value is None or not isinstance(fact.value, kind):
        return None
    return None if isinstance(fact.value, bool) and kind is not bool else fact


def given_count(config: EngineConfig, name: str) -> Fact[int] | None:
    """A flag that counts something (tokens, requests, bytes) with its place, None where it is absent or no such count."""
    fact = given(config, name, int)
    return fact if fact is not None and 0 < fact.value <= MOST_TOKENS else None


def parallel_size(config: EngineConfig, name: str, most: int = MOST_RANKS) -> int:
    """The ranks that a flag asks for, at least one; one where it is absent or not known."""
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        return 1
    return min(max(value, 1), most)


class Resolver:
    """Works the settings of one start out, one after the other, in the order in which they depend on each other.

    ``label``: the engine's name, for people.
    """

    def __init__(
        self,
        label: str,
        config: EngineConfig,
        model: ModelArchitecture,
        accelerator: Accelerator | None,
        parallel: Parallelism,
    ) -> None:
        self.config = config
        self.version: Version = config.version_key
        self.model = model
        self.accelerator = accelerator
        self.parallel = parallel
        self.name = f"{label} {config.version.value} default"
        self.notes: list[Provenance] = []
        self.capability = accelerator.capability if accelerator else None

    def _given(self, name: str, kind: type | tuple[type, ...]) -> Fact[Any] | None:
        return given(self.config, name, kind)

    def _default(self, name: str, value: T, condition: str = "", device: bool = False) -> Fact[T]:
        """A default, or an assumption where the flag is there but not known, or the device that decides is not known."""
        text = f"{self.name} ({condition})" if condition else self.name
        flag = self.config.flags.get(name)
        if flag is not None and not flag.known:
            return assumed(value, f"{text}; assumed, since the value of --{name} is not known")
        if device and self.accelerator is None:
            return assumed(value, f"{text}; assumed, since the accelerator is not known")
        return from_default(value, text)

    def _text(self, name: str, default: str) -> str:
        value = self.config.get(name)
        return value if isinstance(value, str) else default
