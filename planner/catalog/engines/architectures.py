"""Makes ``vllm_architectures.json``: ``python -m planner.catalog.engines.architectures FOLDER|VERSION …``.

Reads the model registry of each release, by its syntax tree alone: from an unpacked distribution in a folder that is named
after the release, or from the package index (a few hundred kilobytes each). Releases are taken in their own order; what is
already in the table stays unless it is contradicted.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from planner.catalog.engines.distribution import Distribution, Folder, NotPublished, remote_wheel
from planner.data import engine_table
from planner.engines.version import is_version, parse_version

TABLE = Path(engine_table("vllm_architectures"))
_REGISTRIES = ("vllm/model_executor/models/registry.py", "vllm/model_executor/models/__init__.py")
_CLASS = re.compile(r"[A-Z]\w+")


def architectures(release: Distribution) -> set[str]:
    """Architecture names that a release's registry maps to a module of its own. Raises SyntaxError for no Python."""
    found: set[str] = set()
    for path in _REGISTRIES:
        for node in ast.walk(ast.parse(release.read(path) or "")):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    named = (
                        isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Tuple)
                    )
                    if named and _CLASS.fullmatch(key.value):  # type: ignore[union-attr]
                        found.add(str(key.value))  # type: ignore[union-attr]
    return found


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


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; 2 where a release cannot be read."""
    releases = []
    for word in sys.argv[1:] if argv is None else argv:
        folder = Path(word)
        version = folder.name if folder.is_dir() else word
        if not is_version(version):
            print(f"error: {word!r} is neither a release nor a folder named after one", file=sys.stderr)
            return 2
        try:
            releases.append(
                (version, architectures(Folder(folder) if folder.is_dir() else remote_wheel("vllm", version)))
            )
        except (NotPublished, SyntaxError) as error:
            print(f"error: {version}: {error}", file=sys.stderr)
            return 2
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(since)}" for name, since in table(releases).items())
    head = {
        "engine": "vllm",
        "source": "model_executor/models/registry.py of each release",
        "releases": [version for version, _ in sorted(releases, key=lambda release: parse_version(release[0]))],
    }
    text = json.dumps(head, indent=1)[:-2] + ',\n "architectures": {\n' + lines + "\n }\n}\n"
    TABLE.write_text(text, encoding="utf-8")
    print(f"{len(releases)} releases, {text.count('[') - 2} architectures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
