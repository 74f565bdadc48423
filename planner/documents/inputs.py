"""All inputs of one run: finds them, leaves out what is not Kubernetes, reads the rest one after the other."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from planner.documents.discover import KUSTOMIZATIONS, discover
from planner.documents.document import FileContent, Notice


def read_inputs(
    paths: Sequence[str], exclude: Sequence[str] = (), prefilter: bool = False, render: bool = False
) -> Iterator[FileContent]:
    """The content of every input behind ``paths``, in order (see :func:`planner.documents.discover.discover`).

    Files of folders and globs that do not look like Kubernetes are passed over without a word; with ``prefilter`` (for
    pre-commit, which names every file that changed) named files as well. A Helm chart gives one notice, however many of
    its files are named, and so does a kustomization that changes what it reads; with ``render``, for which they are meant,
    kustomizations are read without a notice. Never raises for what an input is or holds.
    """
    from planner.documents.read import LARGEST, load, may_hold_workload, read_bytes

    noticed: set[Notice] = set()
    for source in discover(paths, exclude):
        if source.problem is not None:
            yield FileContent(source.file, (), (source.problem,), ())
            continue
        if source.notice is not None:
            content = FileContent(source.file, (), (), (source.notice,))
        elif source.path is None:
            content = read_bytes(sys.stdin.buffer.read(LARGEST + 1), source.file)
        else:
            data = load(source.path, source.file)
            if not isinstance(data, bytes):
                yield FileContent(source.file, (), (data,), ())
                continue
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
        yield content
