"""A model in a local folder: its config files, and the exact bytes of its weight files where they are there.

Only files directly inside the folder are read, none that a link leads elsewhere, and none beyond a size limit. Weight
files are never read whole: their sizes come from the safetensors index, or from the headers.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from planner.models.architecture import ModelArchitecture, UnknownModel
from planner.models.config import architecture

#: Bytes; a config.json of 10 MB lists every module of the largest models several times over.
CONFIG_LIMIT = 20_000_000
INDEX_LIMIT = 100_000_000
HEADER_LIMIT = 100_000_000
_MOST_FILES = 1000
_REMEDY = "name a folder that holds config.json, or name the model with the annotation planner/model"
_WIDTH = {"F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16}


def read_folder(path: Path | str, id: str = "") -> ModelArchitecture:
    """The architecture of the model in ``path``, with ``checkpoint_bytes`` where weight files or an index are there.

    ``path`` may also name the config file itself, under any name; nothing beside it is read then. Raises UnknownModel
    where config.json is missing, unreadable, too large or not understood.
    """
    folder = Path(path)
    if folder.suffix == ".json" and not folder.is_dir():
        config = _json(folder.parent, folder.name, CONFIG_LIMIT)
        if config is None:
            raise UnknownModel(f"there is no file {folder.name}", _REMEDY)
        if folder.name != "config.json":
            return architecture(config, id=id or folder.stem)
        folder = folder.parent
    else:
        config = _json(folder, "config.json", CONFIG_LIMIT)
    if config is None:
        raise UnknownModel(f"{folder.name} holds no config.json", _REMEDY)
    quantization = _json(folder, "hf_quant_config.json", CONFIG_LIMIT)
    return architecture(config, quantization, id=id or folder.name, checkpoint_bytes=weight_bytes(folder))


def weight_bytes(folder: Path) -> int:
    """Bytes of all tensors in the safetensors files of a folder; 0 where there are none.

    The index's ``metadata.total_size`` is the sum the files were written with; without an index the headers are added up.
    """
    try:
        index = _json(folder, "model.safetensors.index.json", INDEX_LIMIT)
    except UnknownModel:
        index = None
    if isinstance(index, dict):
        metadata = index.get("metadata")
        total = metadata.get("total_size") if isinstance(metadata, dict) else None
        if isinstance(total, (int, float)) and not isinstance(total, bool) and 0 < total < 10**16:
            return int(total)
    total_bytes = 0
    for file in _files(folder, ".safetensors"):
        if file.name.startswith("consolidated"):  # Mistral's second copy of the same weights
            continue
        total_bytes += _tensor_bytes(file)
    return total_bytes


def _files(folder: Path, suffix: str) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(suffix))
    except OSError:
        return []
    found = (_inside(folder, name) for name in names[:_MOST_FILES])
    return [file for file in found if file is not None]


def _inside(folder: Path, name: str) -> Path | None:
    """The file of that name in the folder, None where there is none or a link leads out of the folder."""
    file = folder / name
    try:
        root, real = folder.resolve(), file.resolve()
        if not real.is_file() or not (real.parent == root or root in real.parents):
            return None
    except (OSError, RuntimeError):
        return None
    return file


def _json(folder: Path, name: str, limit: int) -> Any:
    file = _inside(folder, name)
    if file is None:
        return None
    try:
        if file.stat().st_size > limit:
            raise UnknownModel(f"{name} is larger than {limit // 10**6} MB", _REMEDY)
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UnknownModel(f"{name} cannot be read: {type(error).__name__}", _REMEDY) from None


def _tensor_bytes(file: Path) -> int:
    """Bytes of the tensors in one safetensors file, from its header; 0 where the header makes no sense."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 2 <= length <= min(HEADER_LIMIT, size - 8):
                return 0
            header = json.loads(stream.read(length))
    except (OSError, ValueError, RecursionError):
        return 0
    if not isinstance(header, dict):
        return 0
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__" and isinstance(tensor, dict):
            total += _size(tensor)
    return min(total, size)


def _size(tensor: dict[str, Any]) -> int:
    offsets, shape = tensor.get("data_offsets"), tensor.get("shape")
    if isinstance(offsets, list) and len(offsets) == 2 and all(type(o) is int for o in offsets):
        return max(int(offsets[1]) - int(offsets[0]), 0)
    if not isinstance(shape, list) or len(shape) > 8 or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        return 0
    count = 1
    for n in shape:
        count *= n
    return count * _WIDTH.get(str(tensor.get("dtype")), 8) // 8
