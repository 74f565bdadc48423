"""The inputs of a run with kustomizations and charts rendered: what is rendered takes the place of what it is made of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from planner.documents.document import Document, FileContent, Problem
from planner.documents.read import read_bytes, read_path
from planner.provenance import Position
from planner.record import dataclass, field
from planner.render import helm, kustomize
from planner.render.origin import HelmOrigin, KustomizeOrigin, sources_of
from planner.render.tools import CannotRender
from planner.settings import RENDERED

if TYPE_CHECKING:
    from planner.documents.document import Notice
    from planner.lint.evaluate import Outcome
    from planner.lint.finding import Finding


@dataclass(frozen=True, eq=False)
class Rendered:
    """The inputs of a run after rendering, and the way back from what was rendered to what people edit.

    ``documents`` are those that renderings were made of: comments in them count. ``sources``: rendered file → the files
    that it was made of.
    """

    files: list[FileContent]
    origins: dict[str, KustomizeOrigin | HelmOrigin] = field(default_factory=dict)
    documents: list[Document] = field(default_factory=list)
    sources: dict[str, set[str]] = field(default_factory=dict)
    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def locate(self, position: Position) -> Position:
        """The place in a file that people edit."""
        origin = self.origins.get(position.file)
        return position if origin is None else origin.locate(position)

    def outcome(self, outcome: Outcome) -> Outcome:
        """What rules said, at the places that people edit. What several renderings of one file have in common is said
        once."""
        from planner.lint.evaluate import together

        merged: dict[tuple[str, Position, str], Finding] = {}
        for finding in outcome.findings:
            found = self._finding(finding)
            key = (found.rule, found.position, found.message)
            other = merged.get(key)
            if other is not None:
                by = tuple(dict.fromkeys((*other.rendered_by, *found.rendered_by)))
                found = other._replace(anchors=(*other.anchors, *found.anchors), rendered_by=by)
            merged[key] = found
        gaps = []
        aside = set(outcome.silenced)
        for gap in outcome.not_evaluated:
            if gap.position is not None and gap.position.file in self.origins:
                # A suppression may stand in the rendering or in what it was made of; it is not unused in either.
                aside.add((gap.rule, gap.position.file))
                gap = gap._replace(position=self.locate(gap.position))
            gaps.append(gap)
        aside.update((rule, source) for rule, file in tuple(aside) for source in self.sources.get(file, ()))
        moved = outcome._replace(findings=tuple(merged.values()), not_evaluated=tuple(gaps), silenced=frozenset(aside))
        return together([moved])

    def _finding(self, finding: Finding) -> Finding:
        file = finding.position.file
        if file not in self.origins:
            return finding
        places = tuple(self.locate(place) for place in finding.anchors)
        # Where an annotation or a comment stands in what was rendered, it speaks as well.
        anchors = (*places, *finding.anchors, finding.position)
        shown = os.path.dirname(file.removesuffix(RENDERED)) or "."
        # An edit of what was rendered is of no use to anybody.
        return finding._replace(position=self.locate(finding.position), anchors=anchors, rendered_by=(shown,), fix=None)

    @property
    def lines(self) -> dict[str, tuple[str, ...]]:
        """Source lines of the files that places may lead to."""
        found = dict(self.texts)
        for origin in self.origins.values():
            if isinstance(origin, HelmOrigin):
                found.update(origin.lines)
        return found


def render(files: Sequence[FileContent], values: Sequence[str] = ()) -> Rendered:
    """Renders every kustomization that no other one reads, and every chart, of some inputs. ``values``: files for
    ``helm template``. What cannot be rendered is a problem, and what it is made of is read as it stands."""
    result = Rendered([])
    made: list[FileContent] = []
    problems: dict[str, list[Problem]] = {}
    consumed: set[str] = set()
    for tree, content in _kustomizations(files, problems):
        made.append(content)
        consumed.update(tree.files)
        result.origins[content.file] = KustomizeOrigin(tree, content)
        result.sources[content.file] = {own.file for own in tree.files.values()}
        result.documents.extend(document for own in tree.files.values() for document in own.documents)
        result.texts.update({own.file: own.lines for own in tree.files.values()})
    charts: dict[str, bool] = {}
    for content in files:
        for notice in content.notices:
            folder = _chart_folder(notice)
            if folder is not None and folder not in charts:
                chart = _chart(folder, values)
                charts[folder] = helm.is_library(folder)
                found = None if charts[folder] else _templated(chart, values, problems)
                if found is not None:
                    charts[folder] = True
                    text, templates = found
                    made.append(text)
                    consumed.update(os.path.realpath(path) for path, _ in chart.values)
                    result.origins[text.file] = HelmOrigin(chart, text, templates)
                    result.sources[text.file] = {own.file for own in chart.contents}
                    result.texts.update({own.file: own.lines for own in chart.contents})
    for content in files:
        if os.path.realpath(content.file) in consumed:
            continue
        notices = tuple(n for n in content.notices if not charts.get(_chart_folder(n) or "", False))
        if content.notices and not notices and not content.documents:
            continue
        own = tuple(problems.pop(content.file, ()))
        result.files.append(content._replace(notices=notices, problems=(*content.problems, *own)))
    result.files.extend(made)
    left = [problem for several in problems.values() for problem in several]
    if left:
        result.files.append(FileContent(left[0].position.file, (), tuple(left), ()))
    return result


def _kustomizations(
    files: Sequence[FileContent], problems: dict[str, list[Problem]]
) -> Iterator[tuple[kustomize.Tree, FileContent]]:
    """The kustomizations of some inputs with what they make: those that no other one reads; then, for engines that these
    leave out, the inner ones that have them, without what was made before."""
    trees: dict[str, kustomize.Tree] = {}
    for content in files:
        if kustomize.stands_alone(content):
            trees[os.path.realpath(content.file)] = kustomize.read_tree(
                content.file, content.file, top_of(content.file)
            )
    inner = {own for real, tree in trees.items() for own in tree.kustomizations if own != real}
    found: set[tuple[str, int]] = set()
    roots = [tree for real, tree in trees.items() if real not in inner]
    for tree in roots:
        made = _kustomized(tree, problems)
        if made is not None:
            yield tree, made
            found |= _sources(tree, made)
        else:
            found |= {(own.file, own.index) for own in tree.resources}  # read as they stand
    for tree in (trees[real] for root in roots for real in root.kustomizations if real in inner and real in trees):
        left = [own for own in tree.resources if (own.file, own.index) not in found]
        if left and _starts_an_engine(left):
            made = _kustomized(tree, problems)
            if made is not None:
                fresh = tuple(one for one in made.documents if not _was_made(tree, one, found))
                yield tree, made._replace(documents=fresh)
                found |= _sources(tree, made)


def _sources(tree: kustomize.Tree, content: FileContent) -> set[tuple[str, int]]:
    """(file, number) of the resources that something was made of."""
    return {(own.file, own.index) for one in content.documents for own in sources_of(tree.resources, one.root)}


def _was_made(tree: kustomize.Tree, document: Document, found: set[tuple[str, int]]) -> bool:
    """Whether an object that runs pods has been made by an outer kustomization, which knows better."""
    from planner.workloads.extract import runs_pods

    sources = sources_of(tree.resources, document.root)
    return runs_pods(document) and bool(sources) and all((own.file, own.index) in found for own in sources)


def _starts_an_engine(documents: Sequence[Document]) -> bool:
    from planner.plan import extract_files, plan_workloads
    from planner.settings import Settings

    content = FileContent("", tuple(documents), (), ())
    return plan_workloads(extract_files([content]).workloads, Settings())[1] > 0


def top_of(file: str) -> str:
    """The folder that nothing may lead out of: the repository, else the current folder, else the file's own."""
    folder = own = os.path.dirname(os.path.abspath(file))
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    here = os.getcwd()
    return here if os.path.join(own, "").startswith(os.path.join(here, "")) else own


def _kustomized(tree: kustomize.Tree, problems: dict[str, list[Problem]]) -> FileContent | None:
    if tree.refused:
        for problem in tree.refused:
            problems.setdefault(tree.file, []).append(problem)
        return None
    try:
        data = kustomize.build(tree)
    except CannotRender as error:
        problems.setdefault(tree.file, []).append(Problem(Position(tree.file, 1, 1), f"not rendered: {error}"))
        return None
    return read_bytes(data, tree.file + RENDERED)


def _chart_folder(notice: Notice) -> str | None:
    """The folder of the chart that a notice is about."""
    folder, name = os.path.split(notice.position.file)
    return (folder or ".") if name == "Chart.yaml" else None


def _chart(folder: str, given: Sequence[str]) -> helm.Chart:
    values = [
        (path, path)
        for name in ("values.yaml",)
        if os.path.isfile(path := os.path.normpath(os.path.join(folder, name)))
    ]
    values += [(path, path) for path in given]
    contents = [read_path(path, shown) for path, shown in values]
    return helm.Chart(folder, "" if folder == "." else folder, tuple(values), contents)


def _templated(
    chart: helm.Chart, given: Sequence[str], problems: dict[str, list[Problem]]
) -> tuple[FileContent, list[tuple[int, str]]] | None:
    file = os.path.join(chart.shown, "Chart.yaml")
    try:
        data = helm.build(chart, given, top_of(os.path.join(chart.folder, "Chart.yaml")))
    except CannotRender as error:
        problems.setdefault(file, []).append(Problem(Position(file, 1, 1), f"not rendered: {error}"))
        return None
    text = data.decode("utf-8", "replace")
    return read_bytes(data, file + RENDERED), helm.templates_of(text)
