"""Where a value comes from. Every fact of a plan carries one of these."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from planner.record import NamedTuple, dataclass

T = TypeVar("T")


class Position(NamedTuple):
    """A place in a file; lines and columns count from 1. ``end_line`` is the last line of the node, 0 if unknown."""

    file: str
    line: int
    column: int
    end_line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Provenance(NamedTuple):
    """The source of a value.

    ``source`` is one of ``file`` (a position), ``engine-default``, ``catalog``, ``lock``, ``label``, ``option`` (command
    line of planner), ``config`` (planner.yaml), ``annotation``, ``given`` (a fact somebody measured), ``derived``,
    ``assumption``. ``text`` says it to people, for instance ``vLLM 0.11.0 default``.
    """

    source: str
    text: str
    position: Position | None = None

    def __str__(self) -> str:
        return f"{self.text} ({self.position})" if self.position and str(self.position) not in self.text else self.text


@dataclass(frozen=True)
class Fact(Generic[T]):
    """A value and where it comes from."""

    value: T
    provenance: Provenance

    @property
    def position(self) -> Position | None:
        """The place in the input that states the value, if a file does."""
        return self.provenance.position


class Unknown(NamedTuple):
    """A fact that cannot be known, why, and the one line that would make it known."""

    fact: str
    reason: str
    remedy: str
    position: Position | None = None


def from_file(value: T, position: Position) -> Fact[T]:
    """A fact that a file states at ``position``."""
    return Fact(value, Provenance("file", str(position), position))


def from_default(value: T, text: str) -> Fact[T]:
    """A fact that an engine sets where nobody else does; ``text`` names the engine, its version and the condition."""
    return Fact(value, Provenance("engine-default", text))


def assumed(value: T, text: str) -> Fact[T]:
    """A fact taken for want of a better one; ``text`` says why this value."""
    return Fact(value, Provenance("assumption", text))


def describe(fact: Fact[Any] | None) -> str:
    """The source of a fact for people; empty for none."""
    return "" if fact is None else str(fact.provenance)
