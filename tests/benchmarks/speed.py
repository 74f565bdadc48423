"""Whole-process speed against yamllint, as ratios measured in one run on the same files.

    python tests/benchmarks/speed.py FOLDER [--runs N]

Prints the time of one manifest (the median file of FOLDER by size), of all files of FOLDER, and of ten copies of them,
each as the best of N runs (the least disturbed one), with the targets that the project has set itself:
one manifest ≤ 1.0 × yamllint, a folder ≤ 0.4 × yamllint, ten times the files ≤ 11 × the time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def best(command: list[str], runs: int) -> float:
    """Seconds of the fastest of ``runs`` runs; the output is thrown away, the exit code does not matter."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = []
    for _ in range(runs + 1):  # the first writes byte code and warms the page cache
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, env=environment)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    scripts = Path(sys.executable).parent
    planner = [str(scripts / "planner"), "lint"]
    yamllint = [str(scripts / "yamllint"), "-d", "relaxed"]
    files = sorted(options.folder.glob("*.yaml"), key=lambda path: path.stat().st_size)
    one = str(files[len(files) // 2])
    with tempfile.TemporaryDirectory() as temporary:
        ten = Path(temporary)
        for copy in range(10):
            for path in files:
                shutil.copy(path, ten / f"{copy}-{path.name}")
        rows = []
        for what, target, ours, theirs in (
            ("one manifest", 1.0, [*planner, one], [*yamllint, one]),
            (f"{len(files)} files", 0.4, [*planner, str(options.folder)], [*yamllint, str(options.folder)]),
        ):
            a, b = best(ours, options.runs), best(theirs, options.runs)
            rows.append((what, a, b, a / b, target))
        many = best([*planner, str(ten)], max(2, options.runs // 3))
        rows.append((f"{len(files) * 10} files against {len(files)}", many, rows[1][1], many / rows[1][1], 11.0))
    print(f"{'what':<28} {'planner':>10} {'against':>10} {'ratio':>7} {'target':>7}")
    for what, a, b, ratio, target in rows:
        verdict = "ok" if ratio <= target else "MISSED"
        print(f"{what:<28} {a * 1e3:>7.0f} ms {b * 1e3:>7.0f} ms {ratio:>7.2f} {target:>7.1f}  {verdict}")
    return int(any(ratio > target for *_, ratio, target in rows))


if __name__ == "__main__":
    sys.exit(main())
