"""Records behave as the standard library's classes that a type checker takes them for."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
from typing import Any

import pytest

from planner import record


class Ours(record.NamedTuple):
    """A tuple with a default in the middle of what is usually given."""

    a: int
    b: str = "x"
    c: tuple[int, ...] = ()

    @property
    def twice(self) -> int:
        return self.a * 2


class Theirs(typing.NamedTuple):
    a: int
    b: str = "x"
    c: tuple[int, ...] = ()


@record.dataclass(frozen=True)
class Base:
    a: int
    b: dict[str, int] = record.field(default_factory=dict)


@record.dataclass(frozen=True)
class Derived(Base):
    c: str = "c"


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((1,), {}),
        ((1, "y"), {}),
        ((1, "y", (2,)), {}),
        ((), {"a": 1}),
        ((1,), {"c": (3,)}),
        ((), {"c": (), "a": 0, "b": ""}),
    ],
)
def test_a_named_tuple_is_made_as_the_library_makes_it(args: Any, options: Any) -> None:
    ours, theirs = Ours(*args, **options), Theirs(*args, **options)
    assert tuple(ours) == tuple(theirs)
    assert ours._asdict() == theirs._asdict()
    assert ours._replace(b="z") == theirs._replace(b="z")
    assert ours._fields == theirs._fields
    assert hash(ours) == hash(theirs)
    assert repr(ours).partition("(")[2] == repr(theirs).partition("(")[2]


@pytest.mark.parametrize(
    ("args", "options"),
    [((), {}), ((1, "y", (), 4), {}), ((1,), {"a": 2}), ((1,), {"d": 2}), ((1, "y", ()), {"b": "z"})],
)
def test_wrong_fields_are_refused(args: Any, options: Any) -> None:
    for kind in (Ours, Theirs):
        with pytest.raises(TypeError):
            kind(*args, **options)


def test_named_tuples_have_properties_and_refuse_unknown_replacements() -> None:
    assert Ours(4).twice == 8
    with pytest.raises(ValueError, match="no fields"):
        Ours(1)._replace(d=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Ours(1).a = 2  # type: ignore[misc]


def test_named_tuples_can_be_pickled_and_copied() -> None:
    one = Ours(1, "y", (2, 3))
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.deepcopy(one) == one
    assert type(copy.copy(one)) is Ours


def test_dataclasses_inherit_compare_and_are_frozen() -> None:
    one, other = Derived(1), Derived(a=1, c="c")
    assert one == other
    assert one != Base(1)
    assert one.b is not other.b
    assert record.replace(one, c="d") == Derived(1, c="d")
    assert repr(one) == "Derived(a=1, b={}, c='c')"
    with pytest.raises(AttributeError):
        one.a = 2  # type: ignore[misc]
    for wrong in ({}, {"a": 1, "z": 2}):
        with pytest.raises(TypeError):
            Derived(**wrong)
    assert not dataclasses.is_dataclass(one), "to the interpreter they are plain classes"
