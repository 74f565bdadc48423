"""Where the files that ship beside the code are: rules, schemas, catalog."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_folder(name: str) -> Path:
    """The folder ``rules`` or ``schemas``: inside the installed wheel, else at the top of the checkout.

    Raises FileNotFoundError where neither exists, which means a broken installation.
    """
    for folder in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"the folder {name!r} is missing from this installation of kv-planner; reinstall it")


def catalog_folder(name: str) -> Path:
    """A folder of the catalog, such as ``models`` or ``accelerators``."""
    return _PACKAGE / "catalog" / name
