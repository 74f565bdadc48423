"""What is built in: models by their hub id, one file each, found without reading the others.

A model's entry stands in ``models/``; its file name is the id in lower case with ``/`` written as ``--``, so that looking
an id up is one ``open``. An entry has its own ``config`` or names a ``base`` whose config it changes (a fine-tune, a
quantized copy). ``schemas/catalog-model.schema.json`` describes the format, ``python -m planner.catalog.add`` writes an
entry from a ``config.json``.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from planner.record import NamedTuple

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")

#: Longest id that is looked up; the hub itself allows 96 characters for a name.
MAX_ID_LENGTH = 200
#: Longest chain of ``base`` entries.
MAX_BASES = 4

#: Organisations and beginnings of names that the hub renamed and redirects: (as it was, as it is), in lower case.
_RENAMED = (
    ("thudm/", "zai-org/"),
    ("cohereforai/", "coherelabs/"),
    ("neuralmagic/", "redhatai/"),
    ("meta-llama/meta-llama-3.1-", "meta-llama/llama-3.1-"),
    ("gpt2", "openai-community/gpt2"),
    ("distilgpt2", "distilbert/distilgpt2"),
    ("bert-", "google-bert/bert-"),
    ("roberta-", "facebookai/roberta-"),
    ("xlm-roberta-", "facebookai/xlm-roberta-"),
)

_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


class Entry(NamedTuple):
    """One checkpoint of the catalog, its bases resolved.

    ``config`` and ``quant_config`` are what ``config.json`` and ``hf_quant_config.json`` say (the keys that matter for
    memory). ``checkpoint_bytes`` is the size of the weight files and ``parameters`` their number of elements, 0 where
    nobody stated them. ``gated``: whether the hub wants a token for the download, None where that is not known.
    """

    id: str
    config: dict[str, Any]
    quant_config: dict[str, Any] | None
    checkpoint_bytes: int
    parameters: int
    gated: bool | None
    source: str
    base: str


def is_model_id(text: str) -> bool:
    """Whether ``text`` has the form of a hub id, ``org/name`` or ``name``; says nothing about its existence."""
    if not 0 < len(text) <= MAX_ID_LENGTH:
        return False
    parts = text.split("/")
    return len(parts) <= 2 and all(part and _ID_CHARACTERS.issuperset(part) and part[0] not in ".-" for part in parts)


def entry_path(model_id: str) -> str:
    """The file that holds (or would hold) the entry of ``model_id``."""
    return os.path.join(MODELS, model_id.lower().replace("/", "--") + ".json")


def model(model_id: str) -> Entry | None:
    """The entry of a hub id in any case, None where the catalog has none."""
    raw = _read(model_id)
    if raw is None:
        return None
    chain = [raw]
    while base := chain[-1].get("base"):
        parent = _read(base)
        if parent is None or len(chain) > MAX_BASES:
            raise ValueError(
                f"catalog entry {chain[-1]['id']}: base {base} is missing or the chain of bases is too long"
            )
        chain.append(parent)
    config: dict[str, Any] = {}
    quant_config: dict[str, Any] | None = None
    for step in reversed(chain):
        patch = step.get("config") or {}
        if "quantization_config" in patch:  # what the base says in hf_quant_config.json is of its own weights
            quant_config = None
        config = _merged(config, patch)
        quant_config = step.get("quant_config", quant_config)
    config, quant_config = whole(config, quant_config)
    return Entry(
        raw["id"],
        config,
        quant_config,
        raw.get("checkpoint_bytes") or 0,
        raw.get("parameters") or 0,
        raw.get("gated"),
        raw["source"],
        raw.get("base") or "",
    )


def renamed(key: str) -> str:
    """The key of the entry that the hub also knows as ``key`` (in lower case), empty where there is none."""
    for pair in _RENAMED:
        for one, other in (pair, pair[::-1]):
            if key.startswith(one) and _read(candidate := other + key[len(one) :]) is not None:
                return candidate
    if key.startswith("nvidia/") and "-fp4" in key:  # NVIDIA names its FP4 files by their format since 2025
        candidate = key.replace("-fp4", "-nvfp4")
        return candidate if _read(candidate) is not None else ""
    return ""


def model_keys() -> list[str]:
    """All ids of the catalog in lower case, sorted; lists the folder, opens no entry."""
    names = (name[:-5] for name in os.listdir(MODELS) if name.endswith(".json"))
    return sorted(name.replace("--", "/", 1) for name in names)


def spelled(key: str) -> str:
    """The id as its organisation writes it, from the id in any case; ``key`` itself where there is no entry."""
    raw = _read(key)
    return str(raw["id"]) if raw else key


def base_of(key: str) -> str:
    """The id of the entry that an entry is based on; empty where it has a config of its own."""
    raw = _read(key)
    return str(raw.get("base") or "") if raw else ""


def _read(model_id: str) -> dict[str, Any] | None:
    """The entry's own file as it is written, None where there is none."""
    if not is_model_id(model_id):
        return None
    try:
        with open(entry_path(model_id), encoding="utf-8") as file:
            raw: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    # "a--b/c" and "a/b--c" would share a file name.
    return raw if raw["id"].lower() == model_id.lower() else None


def whole(config: dict[str, Any], quant_config: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """An entry's configs as the checkpoint's own files have them: ``<0-3,5>`` in module names is written out."""
    result = dict(config)
    for key, value in config.items():
        if key == "quantization_config":
            result[key] = _written_out(value)
        elif isinstance(value, dict) and "quantization_config" in value:
            result[key] = {**value, "quantization_config": _written_out(value["quantization_config"])}
    return result, _written_out(quant_config) if quant_config else None


def _merged(base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """``base`` changed by ``patch``: objects are merged, everything else (null too) replaces.

    A quantization scheme is replaced as a whole: the keys of two schemes have nothing to do with each other.
    """
    result = dict(base)
    for key, value in patch.items():
        old = result.get(key)
        if isinstance(value, dict) and isinstance(old, dict) and key != "quantization_config":
            value = _merged(old, value)
        result[key] = value
    return result


def _written_out(value: Any) -> Any:
    """``value`` with the short module names in its lists and keys written out."""
    if isinstance(value, dict):
        return {name: _written_out(item) for key, item in value.items() for name in _names(key)}
    if isinstance(value, list):
        return [name for item in value for name in (_names(item) if isinstance(item, str) else [_written_out(item)])]
    return value


def _names(pattern: str) -> list[str]:
    """The names that ``model.layers.<0-2>.mlp`` stands for; a regular expression (``re:…``) stands for itself."""
    if "<" not in pattern or pattern.startswith("re:"):
        return [pattern]
    match = re.search(r"<([\d,-]+)>", pattern)
    if match is None:
        return [pattern]
    head, tail = pattern[: match.start()], _names(pattern[match.end() :])
    names: list[str] = []
    for part in match.group(1).split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            names.extend(f"{head}{number}{rest}" for rest in tail)
    return names
