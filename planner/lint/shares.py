"""A large run in shares, one process a core: once the inputs are read, workloads do not depend on each other.

Processes are forked, so that a share starts with everything that has been read; where that is not to be had, or a process
does not come to its end, its share is worked out here, with whatever error it has.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Workloads from which on a second process is worth its start.
_WORTH = 60
#: Further processes find less to do: reading and reporting are not shared.
_MOST = 4


def shares(workloads: int) -> int:
    """Processes that a run of this many workloads is worth."""
    if workloads < _WORTH or not hasattr(os, "fork"):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _MOST, workloads // (_WORTH // 2)))


def in_shares(work: Callable[[int, int], T], count: int) -> list[T]:
    """``work(share, count)`` of every share; results of other processes are pickled, so they must be plain data."""
    if count == 1:
        return [work(0, 1)]
    started = [_start(work, share, count) for share in range(1, count)]
    results = [work(0, count)]
    for share, process in enumerate(started, 1):
        found: tuple[T] | None = _result(process)
        results.append(work(share, count) if found is None else found[0])
    return results


def _start(work: Callable[[int, int], T], share: int, count: int) -> tuple[int, int] | None:
    import pickle

    try:
        reader, writer = os.pipe()
        process = os.fork()
    except OSError:
        return None
    if process:
        os.close(writer)
        return process, reader
    status = 1
    try:
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(pickle.dumps((work(share, count),), pickle.HIGHEST_PROTOCOL))
        status = 0
    finally:
        # Not through the interpreter's exit, which would write out buffers that belong to the parent.
        os._exit(status)


def _result(process: tuple[int, int] | None) -> tuple[T] | None:
    """What a process found; None where there was none or it failed."""
    import pickle

    if process is None:
        return None
    number, reader = process
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(number, 0)
    if status != 0:
        return None
    found: tuple[T] = pickle.loads(data)
    return found
