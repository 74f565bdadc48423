"""Makes ``{vllm,sglang}_architectures.json``: ``python -m planner.catalog.engines.architectures ENGINE FOLDER|VERSION …``.

Reads which architectures a release has, by its syntax trees alone: vLLM's registry names them, SGLang's model modules name
their entry classes. A release is an unpacked distribution in a folder that is named after it, or comes from the package
index. The releases named make the whole table. It also says which architectures run on one pipeline stage only.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from planner.catalog.engines.distribution import Distribution, Folder, NotPublished, remote_wheel
from planner.catalog.engines.pipeline_stages import sglang_without_stages, syntax, vllm_without_stages
from planner.data import engine_table
from planner.engines.version import is_version, parse_version

_REGISTRIES = ("vllm/model_executor/models/registry.py", "vllm/model_executor/models/__init__.py")
_MODELS = "sglang/srt/models"
_CLASS = re.compile(r"[A-Z]\w+")


def classes_of_vllm(release: Distribution) -> dict[str, tuple[str, str]]:
    """Architecture → (module, class) of the registry's entries."""
    found: dict[str, tuple[str, str]] = {}
    for path in _REGISTRIES:
        for node in ast.walk(syntax(release.read(path))):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if (
                        isinstance(key, ast.Constant)
                        and isinstance(key.value, str)
                        and _CLASS.fullmatch(key.value)
                        and isinstance(value, ast.Tuple)
                    ):
                        module, label = ast.literal_eval(value)
                        found[key.value] = (module, label)
    return found


def _of_vllm(release: Distribution) -> tuple[set[str], set[str]]:
    classes = classes_of_vllm(release)
    return set(classes), vllm_without_stages(release, classes)


def _of_sglang(release: Distribution) -> tuple[set[str], set[str]]:
    """Names of the classes that a model module declares as its ``EntryClass``, one or a list."""
    found: dict[str, tuple[str, str]] = {}
    for path in release.under(_MODELS):
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for node in syntax(release.read(path)).body:
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "EntryClass" for target in node.targets
            ):
                items = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]
                found.update({item.id: (module, item.id) for item in items if isinstance(item, ast.Name)})
    return set(found), sglang_without_stages(release, found)


#: engine → (what reads a release: its architectures and those of one stage only; where that is kept)
ENGINES = {
    "vllm": (_of_vllm, "model_executor/models/registry.py of each release"),
    "sglang": (_of_sglang, "entry classes of sglang/srt/models of each release"),
}


def table(releases: Iterable[tuple[str, set[str]]]) -> dict[str, list[str]]:
    """Architecture → [first release, and the last one where the newest has it no more]."""
    ordered = sorted(releases, key=lambda release: parse_version(release[0]))
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for version, names in ordered:
        for name in names:
            first.setdefault(name, version)
            last[name] = version
    newest = ordered[-1][0] if ordered else ""
    return {name: [first[name], *([last[name]] if last[name] != newest else [])] for name in sorted(first)}


def ranges(releases: Iterable[tuple[str, set[str]]]) -> dict[str, list[str]]:
    """Name → [first release that has it, last of them, first that has it again, …], without a last one that is the newest."""
    ordered = sorted(releases, key=lambda release: parse_version(release[0]))
    found: dict[str, list[str]] = {}
    before: set[str] = set()
    newest = ordered[-1][0] if ordered else ""
    for version, names in ordered:
        for name in sorted(names):
            if name not in before:
                found.setdefault(name, []).extend((version, version))
            found[name][-1] = version
        before = names
    return {name: bounds[:-1] if bounds[-1] == newest else bounds for name, bounds in sorted(found.items())}


def _lines(entries: dict[str, list[str]]) -> str:
    return ",\n".join(f"  {json.dumps(name)}: {json.dumps(since)}" for name, since in entries.items())


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; 2 where a release cannot be read."""
    engine, *words = sys.argv[1:] if argv is None else argv
    read, source = ENGINES[engine]
    releases, single = [], []
    for word in words:
        folder = Path(word)
        version = folder.name if folder.is_dir() else word
        if not is_version(version):
            print(f"error: {word!r} is neither a release nor a folder named after one", file=sys.stderr)
            return 2
        try:
            names, one = read(Folder(folder) if folder.is_dir() else remote_wheel(engine, version))
        except (NotPublished, SyntaxError) as error:
            print(f"error: {version}: {error}", file=sys.stderr)
            return 2
        releases.append((version, names))
        single.append((version, one))
    found = table(releases)
    head = {
        "engine": engine,
        "source": source,
        "releases": [version for version, _ in sorted(releases, key=lambda release: parse_version(release[0]))],
    }
    text = json.dumps(head, indent=1)[:-2] + ',\n "architectures": {\n' + _lines(found) + "\n },\n"
    text += ' "one_stage": {\n' + _lines(ranges(single)) + "\n }\n}\n"
    Path(engine_table(f"{engine}_architectures")).write_text(text, encoding="utf-8")
    print(f"{len(releases)} releases, {len(found)} architectures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
