"""Where the files that ship beside the code are: rules, schemas, catalog."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def data_path(name: str) -> str:
    """The folder ``rules`` or ``schemas``: inside the installed wheel, else at the top of the checkout.

    Raises FileNotFoundError where neither exists, which means a broken installation.
    """
    for folder in (os.path.join(_PACKAGE, "_data", name), os.path.join(os.path.dirname(_PACKAGE), name)):
        if os.path.isdir(folder):
            return folder
    raise FileNotFoundError(f"the folder {name!r} is missing from this installation of kv-planner; reinstall it")


def data_folder(name: str) -> Path:
    """``data_path`` as a ``Path``, for those that can wait for the import of pathlib."""
    from pathlib import Path

    return Path(data_path(name))


def engine_table(name: str) -> str:
    """The file of an engine's table, such as ``vllm_flags``."""
    return os.path.join(data_path("schemas"), "engines", name + ".json")
