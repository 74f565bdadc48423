"""The inputs of one run as texts that can be edited: proposals are tried one after the other, each result is read again, and
only what means what was meant, and nothing else, is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from planner.documents.document import FileContent, Problem
from planner.suggest.flag_edits import Files, Proposal
from planner.suggest.patch import CannotWrite, applied, decoded, encoded, replace_file, unified_diff
from planner.suggest.places import Places
from planner.suggest.verify import command_of, wrong_with

if TYPE_CHECKING:
    from planner.plan import Plan
    from planner.settings import Settings

#: (file of the workload, its number in the file, pod, container)
Key = tuple[str, int, int, int]

#: Up to so many files everything is planned again after an edit; beyond, only the file with the workload.
_FEW_FILES = 8


class Input(NamedTuple):
    """One input as it was read. ``path`` is where it can be written, None for what cannot; ``why`` says why not."""

    file: str
    path: str | None
    data: bytes
    why: str = ""


class Meant(NamedTuple):
    """What an edit is for: the container it changes, the flags whose values it may change, and a test of the plan that it
    leads to."""

    key: Key
    flags: frozenset[str]
    holds: Callable[[Plan], bool]


class Manifests:
    """The files of a run. ``contents`` and ``texts`` are those after the edits that have been accepted; ``texts`` has only
    the files that may be edited: in UTF-8, without a syntax error."""

    def __init__(self, inputs: Sequence[Input], contents: Sequence[FileContent], settings: Settings) -> None:
        self.inputs = {one.file: one for one in inputs}
        self.settings = settings
        self.contents: dict[str, FileContent] = {}
        for number, content in enumerate(contents):
            # A name that cannot be read may be given twice; only its problems are of interest then.
            self.contents[content.file if content.file not in self.contents else f"{content.file}\0{number}"] = content
        self.before: dict[str, str] = {}
        for one in inputs:
            text = decoded(one.data)
            known = self.contents.get(one.file)
            if text is not None and known is not None and _editable(known, text):
                self.before[one.file] = text
        self.texts = dict(self.before)
        self.last: Proposal | None = None
        self._planned: dict[tuple[str, ...], dict[Key, list[Plan]]] = {}
        self._scopes: dict[Key, tuple[str, ...]] = {}
        self._all: dict[Key, list[Plan]] = {}
        self._names: dict[str, list[str]] = {}
        self._places: dict[str, tuple[FileContent, Places]] = {}

    # -- plans ---------------------------------------------------------------------------------------------------------

    def plans(self, names: Iterable[str] | None = None, changed: FileContent | None = None) -> dict[Key, list[Plan]]:
        """The plans of some files (of all by default) by the container that they start in; ``changed`` in place of the
        file of its name."""
        wanted = tuple(self.contents) if names is None else tuple(name for name in self.contents if name in set(names))
        if changed is None and wanted in self._planned:
            return self._planned[wanted]
        contents = [changed if changed is not None and changed.file == name else self.contents[name] for name in wanted]
        found = _planned(contents, self.settings)
        if changed is None:
            self._planned[wanted] = found
        return found

    def scope(self, key: Key) -> tuple[str, ...]:
        """The files that are planned again when something of a container changes."""
        if len(self.contents) <= _FEW_FILES:
            return tuple(self.contents)
        if key not in self._scopes:
            self._scopes[key] = self._scope(key)
        return self._scopes[key]

    def _scope(self, key: Key) -> tuple[str, ...]:
        self._all = self._all or self.plans()
        everything = self._all.get(key, [])
        wanted = [command_of(plan) for plan in everything]
        related = {key[0]}
        for _ in range(3):  # the file alone, with what its values come from, with the objects that it then still names
            names = tuple(name for name in self.contents if name in related)
            plans = self.plans(names).get(key, [])
            if [command_of(plan) for plan in plans] == wanted:
                return names
            related.update(*map(_files_of, everything))
            for plan in plans:
                related.update(self._named(plan.engine.model.value) if plan.engine.model else ())
        return tuple(self.contents)

    def _named(self, name: str) -> list[str]:
        """The files with an object of this name."""
        if not self._names:
            for file, content in self.contents.items():
                for document in content.documents:
                    node = document.root.get("metadata", "name")
                    if node is not None:
                        self._names.setdefault(node.text, []).append(file)
        return self._names.get(name, [])

    # -- edits ---------------------------------------------------------------------------------------------------------

    def files(self) -> Files:
        """The texts as they are now, and the scalars in them, found when a file is asked for."""
        return Files(self.texts, _PlacesByFile(self.contents, self._places))

    def attempt(self, proposals: Iterator[Proposal], meant: Meant) -> str:
        """Accepts the first proposal that does what is meant and nothing else; otherwise says why there is none."""
        reason = ""
        for number, proposal in enumerate(proposals):
            if number >= 40:
                break
            wrong = self.trial(proposal, meant)
            if not wrong:
                return ""
            reason = reason or wrong
        return reason or "no place was found in the text where it could be changed"

    def trial(self, proposal: Proposal, meant: Meant) -> str:
        """Accepts a proposal where it does what is meant and nothing else; otherwise says what is wrong with it."""
        one = self.inputs.get(proposal.file)
        if one is None or proposal.file not in self.texts:
            return f"{proposal.file} is not among the files that can be edited"
        from planner.documents.read import read_bytes

        try:
            text = applied(self.texts[proposal.file], proposal.edits)
        except ValueError as error:
            return str(error)
        before = self.contents[proposal.file]
        content = read_bytes(encoded(text, one.data), proposal.file, one.path)
        wrong = wrong_with(before, content, proposal.expected)
        if wrong:
            return wrong
        names = {proposal.file, *self.scope(meant.key)}
        old, new = self.plans(names), self.plans(names, content)
        wrong = _unlike(old, new, meant)
        if wrong:
            return wrong
        self.last = proposal
        self._accept(proposal.file, text, content, names, new)
        return ""

    def _accept(
        self, file: str, text: str, content: FileContent, names: set[str], plans: dict[Key, list[Plan]]
    ) -> None:
        self.texts[file] = text
        self.contents[file] = content
        self._planned = {wanted: found for wanted, found in self._planned.items() if file not in wanted}
        self._planned[tuple(name for name in self.contents if name in names)] = plans

    def mark(self) -> tuple[dict[str, str], dict[str, FileContent], dict[tuple[str, ...], dict[Key, list[Plan]]]]:
        """The state as it is now, for ``back_to``."""
        return dict(self.texts), dict(self.contents), dict(self._planned)

    def back_to(
        self, mark: tuple[dict[str, str], dict[str, FileContent], dict[tuple[str, ...], dict[Key, list[Plan]]]]
    ) -> None:
        """Takes back every edit since ``mark``."""
        self.texts, self.contents, self._planned = dict(mark[0]), dict(mark[1]), dict(mark[2])

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def changed(self) -> tuple[str, ...]:
        """The files whose text has changed."""
        return tuple(name for name, text in self.texts.items() if text != self.before[name])

    def diff(self) -> str:
        """All changes as one unified diff."""
        return "".join(unified_diff(name, self.before[name], self.texts[name]) for name in self.changed)

    def write(self) -> tuple[list[str], list[Problem]]:
        """Writes the changed files; (names of those written, what could not be)."""
        from planner.provenance import Position

        written, problems = [], []
        for name in self.changed:
            one = self.inputs[name]
            try:
                if one.path is None:
                    raise CannotWrite(one.why)
                replace_file(one.path, one.data, encoded(self.texts[name], one.data))
                written.append(name)
            except CannotWrite as error:
                problems.append(Problem(Position(name, 1, 1), f"not written: {error}"))
        return written, problems


class _PlacesByFile(dict[str, Places]):
    """The scalars of files, by name; those of a content that has been looked at before are kept."""

    def __init__(self, contents: dict[str, FileContent], known: dict[str, tuple[FileContent, Places]]) -> None:
        super().__init__()
        self._contents = contents
        self._known = known

    def __missing__(self, name: str) -> Places:
        content = self._contents[name]
        known = self._known.get(name)
        if known is None or known[0] is not content:
            known = self._known[name] = (content, Places(content.documents))
        self[name] = known[1]
        return known[1]


def load(paths: Sequence[str], settings: Settings, prefilter: bool = False) -> Manifests:
    """The inputs behind ``paths``, chosen as ``planner.documents.inputs`` chooses them."""
    from planner.documents.inputs import read_all

    inputs: list[Input] = []
    contents: list[FileContent] = []
    for content, source, data in read_all(paths, settings.exclude, prefilter):
        contents.append(content)
        if data is None:
            continue
        path, why = source.path, ""
        if path is None:
            why = "it is standard input"
        elif os.path.islink(path):
            path, why = None, "a symbolic link; name the file that it leads to"
        inputs.append(Input(source.file, os.path.abspath(path) if path else None, data, why))
    return Manifests(inputs, contents, settings)


def _editable(content: FileContent, text: str) -> bool:
    """Whether a file was read whole, and its places are those of its text: reading JSON may write its escapes anew."""
    if not content.documents or content.problems:
        return False
    return content.documents[0].root._source.text == text


def _planned(contents: Sequence[FileContent], settings: Settings) -> dict[Key, list[Plan]]:
    from planner.plan import extract_files, plan_workloads

    extraction = extract_files(contents)
    keys: dict[int, Key] = {}
    numbers: dict[str, int] = {}
    for workload in extraction.workloads:
        file = workload.document.file
        number = numbers[file] = numbers.get(file, -1) + 1
        for pod_number, pod in enumerate(workload.pods):
            for container_number, container in enumerate(pod.containers):
                keys[id(container)] = (file, number, pod_number, container_number)
    found: dict[Key, list[Plan]] = {}
    plans, _ = plan_workloads(extraction.workloads, settings, objects=extraction.objects)
    for plan in plans:
        if plan.container is not None:
            found.setdefault(keys[id(plan.container)], []).append(plan)
    return found


def _files_of(plan: Plan) -> set[str]:
    """The files that state something of a plan: its object, its model, its flags and variables."""
    engine = plan.engine
    places = [flag.position for flag in engine.given]
    places += [fact.position for fact in (engine.model, engine.image, plan.gpus_per_pod, *engine.env.values()) if fact]
    found = {place.file for place in places if place is not None}
    return found | {plan.workload.document.file} if plan.workload is not None else found


def _unlike(old: dict[Key, list[Plan]], new: dict[Key, list[Plan]], meant: Meant) -> str:
    """What else would change than what is meant; empty for nothing."""
    if list(old) != list(new):
        return "it would start other engines"
    for key, before in old.items():
        after = new[key]
        without = meant.flags if key == meant.key else frozenset()
        if [command_of(plan, without) for plan in before] != [command_of(plan, without) for plan in after]:
            if key != meant.key:
                return f"it would change {_named(before[0])} as well"
            return "it would change other arguments as well"
        if key == meant.key:
            if not all(meant.holds(plan) for plan in after):
                return "the engine would not read it as meant"
            problems = {message for plan in before for _, message in plan.engine.argument_problems}
            added = [
                message for plan in after for _, message in plan.engine.argument_problems if message not in problems
            ]
            if added:
                return added[0]
    return ""


def _named(plan: Plan) -> str:
    workload = plan.workload
    container = plan.container.name if plan.container is not None else ""
    return f"{workload.kind}/{workload.name} · {container}" if workload is not None else container
