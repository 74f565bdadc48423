"""All inputs of one run: finds them, leaves out what is not Kubernetes, reads the rest one after the other."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from planner.documents.discover import KUSTOMIZATIONS, Source, discover
from planner.documents.document import FileContent, Notice
from planner.record import NamedTuple


class Read(NamedTuple):
    """One input: what it holds, where it was found, and its bytes where there were any to read."""

    content: FileContent
    source: Source
    data: bytes | None = None


def read_inputs(
    paths: Sequence[str], exclude: Sequence[str] = (), prefilter: bool = False, render: bool = False
) -> Iterator[FileContent]:
    """The content of every input behind ``paths``, in order (see :func:`planner.documents.discover.discover`).

    Files of folders and globs that do not look like Kubernetes are passed over without a word; with ``prefilter`` (for
    pre-commit, which names every file that changed) named files as well. A Helm chart gives one notice, however many of
    its files are named, and so does a kustomization that changes what it reads; with ``render``, for which they are meant,
    kustomizations are read without a notice. Never raises for what an input is or holds.
    """
    for read in read_all(paths, exclude, prefilter, render):
        yield read.content


def read_all(
    paths: Sequence[str], exclude: Sequence[str] = (), prefilter: bool = False, render: bool = False
) -> Iterator[Read]:
    """What ``read_inputs`` gives, with where it was found and its bytes, for those that edit files."""
    from planner.documents.read import LARGEST, load, may_hold_workload, read_bytes

    noticed: set[Notice] = set()
    for source in discover(paths, exclude):
        if source.problem is not None:
            yield Read(FileContent(source.file, (), (source.problem,), ()), source)
            continue
        data = None
        if source.notice is not None:
            content = FileContent(source.file, (), (), (source.notice,))
        elif source.path is None:
            data = sys.stdin.buffer.read(LARGEST + 1)
            content = read_bytes(data, source.file)
        else:
            loaded = load(source.path, source.file)
            if not isinstance(loaded, bytes):
                yield Read(FileContent(source.file, (), (loaded,), ()), source)
                continue
            data = loaded
            kustomization = source.path.rpartition("/")[2] in KUSTOMIZATIONS
            if (prefilter or not source.named) and not may_hold_workload(data, source.file):
                if not kustomization:
                    continue
                content = FileContent(source.file, (), (), ())
                if render:
                    content = read_bytes(data, source.file, source.path)
            else:
                content = read_bytes(data, source.file, source.path)
            if kustomization and not render:
                from planner.documents.kustomizations import with_notice

                content = with_notice(content, data)
                if not content.documents and not content.problems and not content.notices:
                    continue
        fresh = tuple(notice for notice in content.notices if notice not in noticed)
        if content.notices and not fresh:
            continue
        noticed.update(fresh)
        yield Read(content, source, data)
