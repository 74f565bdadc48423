"""Whether an edited file means what was intended and nothing else: its documents are compared node by node, and the command
lines that it starts word by word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from planner.documents.document import FileContent
from planner.documents.scalars import resolve
from planner.documents.tree import Mapping, Raw
from planner.documents.tree import Sequence as Items
from planner.record import NamedTuple

if TYPE_CHECKING:
    from planner.plan import Plan


_Text = TypeVar("_Text", str, list[str])
#: The variable whose words KServe's preset appends to the command line of an LLMInferenceService.
ADDITIONAL = "VLLM_ADDITIONAL_ARGS"


class Difference(NamedTuple):
    """One place where two documents differ. ``kind``: ``scalar`` (``removed`` and ``added`` are the contents), ``items`` or
    ``pairs`` (lists of plain data that a collection lost and gained). ``node``: where the first document's node starts, or
    the second's identity where it is new."""

    kind: str
    path: tuple[str | int, ...]
    removed: Any
    added: Any
    node: int


def differences(before: Raw, after: Raw, path: tuple[str | int, ...] = ()) -> Iterator[Difference]:
    """Every place where two trees differ, aliases written out. Depth is bounded when a document is read."""
    if isinstance(before, tuple) and isinstance(after, tuple):
        if before[0] != after[0] or _value(before) != _value(after):
            yield Difference("scalar", path, before[0], after[0], before[3])
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        gone = {name: plain(value) for name, (_, value) in before.pairs.items() if name not in after.pairs}
        new = {name: plain(value) for name, (_, value) in after.pairs.items() if name not in before.pairs}
        if gone or new:
            yield Difference("pairs", path, gone, new, before.start)
        for name, (_, value) in before.pairs.items():
            if name in after.pairs:
                yield from differences(value, after.pairs[name][1], (*path, name))
    elif isinstance(before, Items) and isinstance(after, Items):
        yield from _items(before, after, path)
    else:
        yield Difference(
            "scalar", path, plain(before), plain(after), before[3] if isinstance(before, tuple) else before.start
        )


def _items(before: Items, after: Items, path: tuple[str | int, ...]) -> Iterator[Difference]:
    old, new = before.items, after.items
    same = len(old) == len(new)
    if same and _moved(old, new):
        same = False
    if same:
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, (*path, number))
        return
    shorter = min(len(old), len(new))
    first = 0
    while first < shorter and not _differ(old[first], new[first]):
        first += 1
    last = 0
    while last < shorter - first and not _differ(old[-1 - last], new[-1 - last]):
        last += 1
    gone = [plain(item) for item in old[first : len(old) - last]]
    added = [plain(item) for item in new[first : len(new) - last]]
    yield Difference("items", (*path, first), gone, added, before.start)


def _moved(old: list[Raw], new: list[Raw]) -> bool:
    """Whether several words of a list are others now, which is one change of the list and not several of its words."""
    if not all(isinstance(item, tuple) for item in (*old, *new)):
        return False
    return sum(1 for one, other in zip(old, new, strict=True) if _differ(one, other)) > 1


def between(old: list[Any], new: list[Any]) -> tuple[list[Any], list[Any]]:
    """What one list has that the other has not, between what both begin and end with."""
    shorter = min(len(old), len(new))
    first = 0
    while first < shorter and old[first] == new[first]:
        first += 1
    last = 0
    while last < shorter - first and old[-1 - last] == new[-1 - last]:
        last += 1
    return old[first : len(old) - last], new[first : len(new) - last]


def _differ(before: Raw, after: Raw) -> bool:
    return next(differences(before, after), None) is not None


def plain(raw: Raw) -> Any:
    """Plain data of a tree."""
    if isinstance(raw, Mapping):
        return {name: plain(value) for name, (_, value) in raw.pairs.items()}
    if isinstance(raw, Items):
        return [plain(item) for item in raw.items]
    return _value(raw)


def _value(raw: tuple[str, str, str | None, int, int]) -> Any:
    # The kind goes along: "8" and 8 and true and 1 are not the same.
    value = resolve(raw[0], not raw[1], raw[2])
    return value if isinstance(value, str) else (type(value).__name__, str(value))


class Expected(NamedTuple):
    """One change of the documents that an edit is meant to make. ``kind`` as in ``Difference``, or, within the content of a
    scalar, ``text``: the text ``removed`` gives way to ``added``, or ``words``: a list of words does."""

    kind: str
    removed: Any
    added: Any


def wrong_with(before: FileContent, after: FileContent, expected: Sequence[Expected]) -> str:
    """Why an edited file is not what was meant; empty where every difference is an expected one, each there once."""
    if len(after.problems) > len(before.problems) or after.notices != before.notices:
        return after.problems[-1].message if after.problems else "it is no longer read as what it was"
    if len(before.documents) != len(after.documents):
        return "it would have another number of objects"
    open_ = list(expected)
    nodes: set[tuple[str, int]] = set()
    for old, new in zip(before.documents, after.documents, strict=True):
        for difference in differences(old.root._raw, new.root._raw):
            if (difference.kind, difference.node) in nodes and difference.kind == "scalar":
                return "its value is used in another place by an alias"
            nodes.add((difference.kind, difference.node))
            match = next((one for one in open_ if _fits(difference, one)), None)
            if match is None:
                return f"it would change {_shown(difference.path)} as well"
            open_.remove(match)
    return "it would not change what was meant" if open_ else ""


def _shown(path: tuple[str | int, ...]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return text[:200] or "the object"


def _fits(difference: Difference, expected: Expected) -> bool:
    if expected.kind == "text":
        return difference.kind == "scalar" and _replaced(
            str(difference.removed), str(difference.added), expected.removed, expected.added
        )
    if expected.kind == "words":
        return difference.kind == "scalar" and _replaced(
            words_of(str(difference.removed)), words_of(str(difference.added)), expected.removed, expected.added
        )
    return difference.kind == expected.kind and (difference.removed, difference.added) == (
        expected.removed,
        expected.added,
    )


def words_of(text: str) -> list[str]:
    """The words of a script between blanks; backslashes at the ends of lines are none."""
    return [word for word in text.split() if word != "\\"]


def _replaced(before: _Text, after: _Text, removed: _Text, added: _Text) -> bool:
    """Whether one text, or list of words, becomes the other by one replacement."""
    if len(after) - len(before) != len(added) - len(removed):
        return False
    shared = 0
    while shared < min(len(before), len(after)) and before[shared] == after[shared]:
        shared += 1
    # The replacement may begin anywhere up to the first difference: what is removed and added may begin alike.
    for start in range(min(shared, len(before) - len(removed)), max(-1, shared - len(removed) - len(added) - 1), -1):
        if (
            before[start : start + len(removed)] == removed
            and after[start : start + len(added)] == added
            and before[start + len(removed) :] == after[start + len(added) :]
        ):
            return True
    return False


def command_of(plan: Plan, without: frozenset[str] = frozenset()) -> Any:
    """What a plan's container is told, but for some flags: comparable between two readings of the same files."""
    engine = plan.engine
    return (
        engine.engine,
        engine.version.value,
        engine.model.value if engine.model else None,
        engine.platform,
        tuple((flag.name, str(flag.value), flag.known) for flag in engine.given if flag.name not in without),
        # A model may be given as a flag or as the first argument.
        () if "model" in without else tuple(word.text for word in engine.positionals),
        # The words that this variable holds are compared as arguments.
        tuple(sorted((name, fact.value) for name, fact in engine.env.items() if name != ADDITIONAL)),
        plan.gpus_per_pod.value if plan.gpus_per_pod else None,
        plan.accelerator.name if plan.accelerator else "",
        plan.pods,
        plan.starts,
        plan.workload.replicas if plan.workload else None,
    )
