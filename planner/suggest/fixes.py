"""The fixes that rules propose, made as edits of text: ``planner lint --fix`` and the ``fix`` of findings in JSON.

One function for each edit that a rule file can name (``planner.lint.rule.EDITS``); what it gives is tried and read again
(``planner.suggest.manifests``), and kept only where the rules find nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from planner.documents.tree import Mapping as Pairs
from planner.documents.tree import Sequence as Items
from planner.record import NamedTuple
from planner.suggest import flag_edits, yaml_edits
from planner.suggest.existing import every_rule, everything, has, label, linted, proposals, unfiltered, worse
from planner.suggest.flag_edits import Files, Proposal
from planner.suggest.manifests import Key, Manifests, Meant
from planner.suggest.patch import Edit
from planner.suggest.places import Place, own, raw_of
from planner.suggest.verify import Expected, between, words_of
from planner.suggest.verify import plain as plain_data

if TYPE_CHECKING:
    from planner.documents.node import Node
    from planner.engines.config import FlagValue
    from planner.lint.finding import Finding, ProposedFix
    from planner.lint.rule import Rule
    from planner.plan import Plan
    from planner.provenance import Position
    from planner.report.result import LintResult

#: Fixes of one container, one after the other; nobody writes a manifest that needs more.
_MOST = 60
#: An engine that hangs on more files than this is not tried over and over for a report; ``--fix`` mends it all the same.
_MANY_FILES = 24


class Fixed(NamedTuple):
    """A violation that was mended, and how."""

    finding: Finding
    fix: ProposedFix


class Tried(NamedTuple):
    """What one edit is: proposals of text, what they must lead to, the flags they may change."""

    proposals: Iterator[Proposal]
    flags: frozenset[str]
    holds: Callable[[Plan], bool]


# -- all fixes of a run ------------------------------------------------------------------------------------------------


def fix_all(manifests: Manifests, rules: Sequence[Rule], unsafe: bool) -> tuple[Fixed, ...]:
    """Makes every fix that can be made, safe ones only unless ``unsafe``. Raises BrokenRule."""
    every = every_rule(manifests)
    first = linted(manifests, every)
    ids = {rule.id for rule in rules}
    wanted = {(f.workload, f.container) for f in first.findings if f.rule in ids and _usable(f, unsafe)}
    fixed: list[Fixed] = []
    start = manifests.mark()
    for key, plans in manifests.plans().items():
        if label(plans[0]) in wanted:
            fixed += _fix_one(manifests, key, every, ids, unsafe)
    if manifests.changed and worse(everything(first), everything(linted(manifests, every))):
        manifests.back_to(start)
        return ()
    return tuple(fixed)


def _usable(finding: Finding, unsafe: bool) -> bool:
    return any(unsafe or fix.safety == "safe" for fix in finding.fixes)


def _fix_one(
    manifests: Manifests, key: Key, rules: Sequence[Rule], ids: Collection[str], unsafe: bool
) -> Iterator[Fixed]:
    tried: set[tuple[str, str, tuple[str, ...]]] = set()
    result = _scope_result(manifests, key, rules)
    for _ in range(_MOST):
        who = label(manifests.plans(manifests.scope(key))[key][0])
        found = [f for f in result.findings if f.rule in ids and (f.workload, f.container) == who]
        finding = next((f for f in found if _usable(f, unsafe) and _id(f) not in tried), None)
        if finding is None:
            return
        tried.add(_id(finding))
        for fix in finding.fixes:
            after = _made(manifests, key, finding, fix, rules, result) if unsafe or fix.safety == "safe" else None
            if after is not None:
                result = after
                yield Fixed(finding, fix)
                break


def _id(finding: Finding) -> tuple[str, str, tuple[str, ...]]:
    return finding.rule, finding.message, tuple(fix.title for fix in finding.fixes)


def _scope_result(manifests: Manifests, key: Key, rules: Sequence[Rule]) -> LintResult:
    from planner.lint.run import lint

    names = manifests.scope(key)
    return lint([manifests.contents[name] for name in names], rules, unfiltered(manifests.settings))


def _made(
    manifests: Manifests, key: Key, finding: Finding, fix: ProposedFix, rules: Sequence[Rule], before: LintResult
) -> LintResult | None:
    """Makes one fix and says what the rules find then; None, and nothing made, where it cannot be or they find something
    new."""
    mark = manifests.mark()
    if not _attempted(manifests, key, finding, fix):
        return None
    after = _scope_result(manifests, key, rules)
    mended = sum(f.rule == finding.rule for f in after.findings) < sum(f.rule == finding.rule for f in before.findings)
    if mended and not worse(everything(before), everything(after)):
        return after
    manifests.back_to(mark)
    return None


def _attempted(manifests: Manifests, key: Key, finding: Finding, fix: ProposedFix) -> bool:
    plan = manifests.plans(manifests.scope(key))[key][0]
    tried = _EDITS[fix.edit](manifests, plan, finding, dict(fix.arguments))
    return tried is not None and not manifests.attempt(tried.proposals, Meant(key, tried.flags, tried.holds))


def with_fixes(manifests: Manifests, result: LintResult) -> LintResult:
    """The result with ``fix`` of every finding that can be mended: the edits of text that do it, tried and taken back."""
    from planner.record import replace

    if not any(finding.fixes for finding in result.findings):
        return result
    rules = every_rule(manifests)
    keys: dict[tuple[str, str], list[Key]] = {}
    for key, plans in manifests.plans().items():
        keys.setdefault(label(plans[0]), []).append(key)
    found = []
    before: dict[tuple[str, ...], LintResult] = {}
    for finding in result.findings:
        fix = None
        for key in keys.get((finding.workload, finding.container), ()) if finding.fixes else ():
            names = manifests.scope(key)
            if len(names) > _MANY_FILES:
                continue
            if names not in before:
                before[names] = _scope_result(manifests, key, rules)
            fix = _as_json(manifests, key, finding, rules, before[names])
            if fix is not None:
                break
        found.append(finding if fix is None else finding._replace(fix=fix))
    return replace(result, findings=tuple(found))


def _as_json(
    manifests: Manifests, key: Key, finding: Finding, rules: Sequence[Rule], before: LintResult
) -> dict[str, Any] | None:
    start = manifests.mark()
    for fix in finding.fixes:
        if _made(manifests, key, finding, fix, rules, before) is None:
            continue
        proposal = manifests.last
        manifests.back_to(start)
        if proposal is None:
            return None
        source = manifests.files().places[proposal.file].source
        edits = []
        for edit in proposal.edits:
            line, column = source.locate(edit.start) if source else (1, 1)
            end_line, end_column = source.locate(edit.end) if source else (1, 1)
            edits.append(
                {
                    "file": proposal.file,
                    "line": line,
                    "column": column,
                    "end_line": end_line,
                    "end_column": end_column,
                    "text": edit.text,
                }
            )
        return {"title": fix.title, "safety": fix.safety, "edits": edits}
    return None


# -- edits of flags ----------------------------------------------------------------------------------------------------


def _same_place(one: Position | None, other: Position) -> bool:
    return one is not None and one[:3] == other[:3]


def _flag_at(plan: Plan, position: Position) -> FlagValue | None:
    return next((flag for flag in plan.engine.given if _same_place(flag.position, position)), None)


def _canonical(plan: Plan, spelling: str) -> str:
    """The name that a spelling's flag has in the table of its release."""
    from planner.facts.flag_tables import tables

    known = tables(plan)
    option = known.here.options.get(spelling) if known is not None else None
    return option.spec.name if option is not None else ""


def _rename_flag(manifests: Manifests, plan: Plan, finding: Finding, arguments: Mapping[str, str]) -> Tried | None:
    flag = _flag_at(plan, finding.position)
    name = arguments.get("to", "")
    canonical = _canonical(plan, name)
    if flag is None or not canonical:
        return None
    raw = flag.raw

    def holds(after: Plan) -> bool:
        # Words before it have kept their length, so that the flag still starts where it did.
        renamed = _flag_at(after, finding.position)
        return renamed is not None and renamed.name == canonical and renamed.raw == raw and renamed.known

    return Tried(flag_edits.rename(manifests.files(), flag, name), frozenset((flag.name, canonical)), holds)


def _remove_flag(manifests: Manifests, plan: Plan, finding: Finding, arguments: Mapping[str, str]) -> Tried | None:
    flag = _flag_at(plan, finding.position)
    return None if flag is None else _without(manifests, plan, flag)


def _remove_earlier_flag(
    manifests: Manifests, plan: Plan, finding: Finding, arguments: Mapping[str, str]
) -> Tried | None:
    """The flag's value before the last one, which is not in effect."""
    last = _flag_at(plan, finding.position)
    if last is None:
        return None
    before = [flag for flag in plan.engine.given if flag.name == last.name]
    number = before.index(last)
    return _without(manifests, plan, before[number - 1]) if number > 0 else None


def _without(manifests: Manifests, plan: Plan, flag: FlagValue) -> Tried:
    name = flag.name
    left = [one for one in plan.engine.given if one.name == name and one is not flag]
    wanted = [(one.raw, str(one.value)) for one in left]

    def holds(after: Plan) -> bool:
        return [(one.raw, str(one.value)) for one in after.engine.given if one.name == name] == wanted

    return Tried(flag_edits.remove(manifests.files(), flag), frozenset((name,)), holds)


def _set_flag(manifests: Manifests, plan: Plan, finding: Finding, arguments: Mapping[str, str]) -> Tried | None:
    name, value = arguments.get("flag", "").lstrip("-"), arguments.get("value", "")
    if not name or not value:
        return None
    return Tried(proposals(manifests, plan, name, value), frozenset((name,)), partial(has, name, value))


def _model_as_positional(
    manifests: Manifests, plan: Plan, finding: Finding, arguments: Mapping[str, str]
) -> Tried | None:
    """``vllm serve --model X`` → ``vllm serve X``: the model in front of all arguments."""
    flag = plan.engine.flags.get("model")
    line = plan.engine.command_line
    if flag is None or not flag.raw or line is None or not line.words or plan.engine.positionals:
        return None
    model = flag.raw

    def holds(after: Plan) -> bool:
        engine = after.engine
        words = [word.text for word in engine.positionals]
        return words == [model] and "model" not in engine.flags and engine.model is not None

    return Tried(_model_first(manifests.files(), plan, flag, model), frozenset(("model",)), holds)


def _model_first(files: Files, plan: Plan, flag: FlagValue, model: str) -> Iterator[Proposal]:
    line = plan.engine.command_line
    first = files.find(line.words[0].position) if line is not None else None
    holder = files.find(flag.position)
    if first is None or holder is None or holder[0] is not first[0] or flag.position is None:
        return
    text, _, index, place = first
    for proposal in flag_edits.remove(files, flag):
        parent = place.parent
        if isinstance(parent, Items) and holder[3].parent is parent and holder[3].scalar[0].startswith("--model"):
            at = yaml_edits.insert_before(text, parent, place.number, model, place.scalar)
            if at is None:
                return
            old = [plain_data(item) for item in parent.items]
            gone = proposal.expected[0].removed
            where = holder[3].number
            new = old[: place.number] + [model] + old[place.number : where] + old[where + len(gone) :]
            expected = Expected("items", *between(old, new))
            if len(old) == len(new) and len(expected.removed) == 1:
                expected = Expected("scalar", expected.removed[0], expected.added[0])
        elif holder[3].scalar[3] == place.scalar[3]:
            serve = text.rfind("serve", place.scalar[3], index)
            if serve < 0:
                return
            at = Edit(serve + 5, serve + 5, f" {model}")
            # One cut and one insertion in the same text: what lies between them has moved.
            cut = proposal.edits[0]
            from planner.suggest.patch import applied

            begin, end = place.scalar[3], place.scalar[4]
            changed = applied(text[begin:end], [Edit(e.start - begin, e.end - begin, e.text) for e in (at, cut)])
            expected = Expected("words", *between(words_of(text[begin:end]), words_of(changed)))
        else:
            return
        yield Proposal(proposal.file, (at, *proposal.edits), (expected,))


# -- edits of fields ---------------------------------------------------------------------------------------------------


def _nothing(_: Plan) -> bool:
    return True


def _mapping(node: Node | None, files: Files) -> tuple[str, Pairs] | None:
    """The file and the mapping of a node that stands in a file of its own."""
    if node is None or node.kind != "mapping":
        return None
    file = node.position.file
    if file not in files.texts or not own(node, files.places[file].source):
        return None
    raw = raw_of(node)
    return (file, raw) if isinstance(raw, Pairs) else None


def _copy_resource(manifests: Manifests, plan: Plan, finding: Finding, arguments: Mapping[str, str]) -> Tried | None:
    """The quantity of a resource under ``requests`` or ``limits`` (``from``) under the other one as well."""
    if plan.container is None:
        return None
    files = manifests.files()
    source, name = arguments.get("from", "limits"), arguments.get("name", "")
    target = "requests" if source == "limits" else "limits"
    resources = plan.container.node.get("resources")
    found = _mapping(resources, files)
    value = resources.get(source, name) if resources is not None else None
    if found is None or resources is None or value is None or value.kind != "scalar":
        return None
    return Tried(_resource_edits(files, found, resources, target, name, value), frozenset(), _nothing)


def _resource_edits(
    files: Files, found: tuple[str, Pairs], resources: Node, target: str, name: str, value: Node
) -> Iterator[Proposal]:
    file, mapping = found
    text = files.texts[file]
    quantity: Any = value.text if value.quoted or not isinstance(value.value, int) else value.value
    marked = quantity if isinstance(quantity, str) else ("int", str(quantity))
    section = resources.get(target)
    inner = _mapping(section, files)
    if section is None:
        edit = yaml_edits.insert_pair(text, mapping, target, {name: quantity})
        expected = Expected("pairs", {}, {target: {name: marked}})
    elif inner is None:
        return
    elif name not in inner[1].pairs:
        edit = yaml_edits.insert_pair(text, inner[1], name, quantity)
        expected = Expected("pairs", {}, {name: marked})
    else:
        scalar = inner[1].pairs[name][1]
        if not isinstance(scalar, tuple):
            return
        edit = yaml_edits.replace_scalar(text, scalar, value.text)
        expected = Expected("scalar", scalar[0], value.text)
    if edit is not None:
        yield Proposal(file, (edit,), (expected,))


def _add_shared_memory(
    manifests: Manifests, plan: Plan, finding: Finding, arguments: Mapping[str, str]
) -> Tried | None:
    """A RAM-backed volume at ``/dev/shm``: one that the pod declares already, or a new one of ``size``."""
    if plan.container is None or plan.pod is None or plan.pod.spec is None:
        return None
    files = manifests.files()
    spec = _mapping(plan.pod.spec, files)
    at = files.find(plan.position)
    if spec is None or at is None or not isinstance(at[3].parent, Pairs):
        return None

    def holds(after: Plan) -> bool:
        mounts = after.container.mounts if after.container is not None else ()
        return any(m.path == "/dev/shm" and m.kind == "emptyDir" and m.medium == "Memory" for m in mounts)

    size = arguments.get("size", "8Gi")
    return Tried(_memory_volume(files, plan.pod.spec, spec, at[3], plan.position.file, size), frozenset(), holds)


def _memory_volume(
    files: Files, spec: Node, found: tuple[str, Pairs], place: Place, file: str, size: str
) -> Iterator[Proposal]:
    container = place.parent
    if not isinstance(container, Pairs) or file != found[0]:
        return
    text = files.texts[file]
    volumes = spec.get("volumes")
    names = {volume.string("name") or "" for volume in volumes or ()}
    declared = next((v.string("name") for v in volumes or () if v.string("emptyDir", "medium") == "Memory"), None)
    name = declared or next(name for name in ("dshm", "dshm-1", "dshm-2", "planner-dshm") if name not in names)
    edits: list[Edit | None] = []
    expected: list[Expected] = []

    def put(mapping: Pairs, key: str, item: dict[str, Any]) -> None:
        edit, meant = flag_edits.put_item(text, mapping, key, item)
        edits.append(edit)
        expected.append(meant)

    put(container, "volumeMounts", {"name": name, "mountPath": "/dev/shm"})
    if declared is None:
        put(found[1], "volumes", {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}})
    made = tuple(edit for edit in edits if edit is not None)
    if len(made) == len(edits):
        yield Proposal(file, made, tuple(expected))


def _set_image_tag(manifests: Manifests, plan: Plan, finding: Finding, arguments: Mapping[str, str]) -> Tried | None:
    """A release in place of a floating tag."""
    image = plan.container.image if plan.container is not None else None
    tag = arguments.get("tag", "")
    if image is None or not tag or "@" in image.value:
        return None
    name = image.value.rpartition("/")[2].partition(":")[0]
    pinned = f"{image.value[: len(image.value) - len(image.value.rpartition('/')[2])]}{name}:{tag}"

    def holds(after: Plan) -> bool:
        return (
            after.container is not None and after.container.image is not None and after.container.image.value == pinned
        )

    return Tried(_image_edits(manifests.files(), image.position, image.value, pinned), frozenset(), holds)


def _image_edits(files: Files, position: Position | None, before: str, after: str) -> Iterator[Proposal]:
    found = files.find(position)
    if found is None or position is None or found[3].scalar[0] != before:
        return
    edit = yaml_edits.replace_scalar(found[0], found[3].scalar, after)
    if edit is not None:
        yield Proposal(position.file, (edit,), (Expected("scalar", before, after),))


_EDITS: dict[str, Callable[[Manifests, Plan, Finding, Mapping[str, str]], Tried | None]] = {
    "rename-flag": _rename_flag,
    "remove-flag": _remove_flag,
    "remove-earlier-flag": _remove_earlier_flag,
    "set-flag": _set_flag,
    "model-as-positional": _model_as_positional,
    "copy-resource": _copy_resource,
    "add-shared-memory": _add_shared_memory,
    "set-image-tag": _set_image_tag,
}
