"""The source files of a published release, read one by one without unpacking, installing or running anything."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import IO, Protocol, cast


class Distribution(Protocol):
    """The files of one release by their path inside it (``vllm/engine/arg_utils.py``)."""

    def read(self, path: str) -> str | None:
        """The text of a file, None where the release has none of that name."""
        ...

    def under(self, folder: str) -> tuple[str, ...]:
        """The Python files below a folder, in order."""
        ...


class NotPublished(Exception):  # noqa: N818 - an answer of the index
    """The package index has no wheel of a release; the argument is a sentence that says so."""


class Folder:
    """An unpacked distribution on disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> str | None:
        file = self._root / path
        return file.read_text("utf-8") if file.is_file() else None

    def under(self, folder: str) -> tuple[str, ...]:
        found = (self._root / folder).rglob("*.py")
        return tuple(sorted(path.relative_to(self._root).as_posix() for path in found))


class Wheel:
    """A wheel, on disk or fetched member by member (``remote_wheel``)."""

    def __init__(self, file: str | Path | IO[bytes]) -> None:
        self._archive = zipfile.ZipFile(file)
        self._names = frozenset(self._archive.namelist())

    def read(self, path: str) -> str | None:
        return self._archive.read(path).decode("utf-8") if path in self._names else None

    def under(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(name for name in self._names if name.startswith(folder + "/") and name.endswith(".py")))


def remote_wheel(package: str, version: str) -> Wheel:
    """A release's wheel on the package index that pip is set up for.

    A wheel of an engine has hundreds of megabytes, of which the argument definitions are a few hundred kilobytes: pip's
    own reader fetches the archive's directory and the members that are asked for, by range requests. Wheels for any
    platform will do, since only their Python files are read. Raises NotPublished where there is none.
    """
    from pip._internal.index.collector import LinkCollector
    from pip._internal.index.package_finder import PackageFinder
    from pip._internal.models.search_scope import SearchScope
    from pip._internal.models.selection_prefs import SelectionPreferences
    from pip._internal.network.lazy_wheel import LazyZipOverHTTP
    from pip._internal.network.session import PipSession

    index = _pip_setting("index-url") or _default_index()
    session = PipSession(index_urls=[index], retries=3)
    certificates = _pip_setting("cert")
    if certificates:
        session.verify = certificates
    finder = PackageFinder.create(
        link_collector=LinkCollector(session, SearchScope.create([], [index], False)),
        selection_prefs=SelectionPreferences(allow_yanked=True),
    )
    wheels = [
        candidate.link.url_without_fragment
        for candidate in finder.find_all_candidates(package)
        if str(candidate.version) == version and candidate.link.is_wheel
    ]
    if not wheels:
        raise NotPublished(f"the package index has no wheel of {package} {version}")
    return Wheel(cast("IO[bytes]", LazyZipOverHTTP(wheels[0], session, chunk_size=64 * 1024)))


def _pip_setting(name: str) -> str:
    """A setting of pip from its files and environment, empty where it is not set."""
    for scope in (":env:", "global"):
        shown = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", f"{scope}.{name}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if shown.returncode == 0 and shown.stdout.strip():
            return shown.stdout.strip()
    return ""


def _default_index() -> str:
    from pip._internal.models.index import PyPI

    return PyPI.simple_url
