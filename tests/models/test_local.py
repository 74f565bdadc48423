"""Models in local folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from planner.models.architecture import UnknownModel
from planner.models.local import read_folder, weight_bytes
from tests.models.test_config import LLAMA_8B


def write(folder: Path, name: str, content: Any) -> Path:
    file = folder / name
    file.write_text(json.dumps(content))
    return file


def safetensors(folder: Path, name: str, tensors: dict[str, tuple[str, list[int], int]]) -> None:
    header, offset = {}, 0
    for tensor, (dtype, shape, size) in tensors.items():
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    (folder / name).write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * offset)


def test_folder_with_index(tmp_path: Path) -> None:
    write(tmp_path, "config.json", LLAMA_8B)
    write(tmp_path, "model.safetensors.index.json", {"metadata": {"total_size": 16060522496}, "weight_map": {}})
    model = read_folder(tmp_path, id="mine")
    assert (model.id, model.parameters, model.checkpoint_bytes) == ("mine", 8_030_261_248, 16_060_522_496)


def test_headers_are_added_up_without_an_index(tmp_path: Path) -> None:
    safetensors(tmp_path, "model-1.safetensors", {"a": ("BF16", [4, 8], 64)})
    safetensors(tmp_path, "model-2.safetensors", {"b": ("F8_E4M3", [16], 16), "c": ("F32", [2], 8)})
    safetensors(tmp_path, "consolidated.safetensors", {"a": ("BF16", [4, 8], 64)})
    assert weight_bytes(tmp_path) == 88


def test_quantization_beside_the_config(tmp_path: Path) -> None:
    write(tmp_path, "config.json", LLAMA_8B)
    write(tmp_path, "hf_quant_config.json", {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}})
    assert read_folder(tmp_path).kv_cache_dtype_hint == "fp8"


def test_a_config_file_by_its_own_name(tmp_path: Path) -> None:
    assert read_folder(write(tmp_path, "llama.json", LLAMA_8B)).id == "llama"
    assert read_folder(str(write(tmp_path, "config.json", LLAMA_8B))).id == tmp_path.name


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"nul"])
def test_broken_configs(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UnknownModel):
        read_folder(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x10" + b"\0" * 7 + b"{", b"\x02" + b"\0" * 7 + b"[]"])
def test_broken_weight_files_count_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    assert weight_bytes(tmp_path) == 0


def test_links_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = write(outside, "secret.json", LLAMA_8B)
    folder = tmp_path / "model"
    folder.mkdir()
    os.symlink(secret, folder / "config.json")
    with pytest.raises(UnknownModel, match="holds no config"):
        read_folder(folder)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(UnknownModel):
        read_folder(tmp_path / "nowhere.json")
