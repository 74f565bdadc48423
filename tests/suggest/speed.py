"""Times ``planner suggest`` as a whole process over random jobs: ``python -m tests.suggest.speed [JOBS]``.

Prints wall and CPU seconds; on a busy machine only the latter say how long a job takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from planner.suggest.wanted import Wanted
from tests.suggest.jobs import jobs


def command(wanted: Wanted) -> list[str]:
    """The command line of a job."""
    words = [
        sys.executable,
        "-m",
        "planner",
        "suggest",
        "--model",
        wanted.model,
        "--accelerator",
        wanted.accelerators[0],
    ]
    for name, value in wanted.workload.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    if wanted.release:
        words += ["--engine", f"vllm=={wanted.release}"]
    if wanted.most_gpus:
        words += ["--max-gpus", str(wanted.most_gpus)]
    return words


def measure(count: int) -> None:
    """Runs ``count`` jobs one after the other and prints median and maximum, and the slowest."""
    taken = []
    codes: dict[int, int] = {}
    for wanted in jobs(count):
        start = time.monotonic()
        process = subprocess.Popen(command(wanted), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        codes[code] = codes.get(code, 0) + 1
        taken.append((usage.ru_utime + usage.ru_stime, time.monotonic() - start, " ".join(command(wanted)[3:])))
    cpu, wall = sorted(t[0] for t in taken), sorted(t[1] for t in taken)
    print(f"{count} jobs, exit codes {codes}")
    print(f"CPU seconds: median {cpu[count // 2]:.2f}, 99 % {cpu[int(count * 0.99)]:.2f}, most {cpu[-1]:.2f}")
    print(f"wall seconds: median {wall[count // 2]:.2f}, most {wall[-1]:.2f}")
    print(
        "slowest:", *(f"{seconds:.2f} s {words}" for seconds, _, words in sorted(taken, reverse=True)[:5]), sep="\n  "
    )


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
