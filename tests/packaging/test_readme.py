"""What the README says its main command prints is what it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_main_command_prints_what_the_readme_shows() -> None:
    shown = re.search(r"It prints.*?```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown
    command = [sys.executable, "-m", "planner", "lint", "examples/"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout == shown[1]
