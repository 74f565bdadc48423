"""A name of a model, however a manifest or a person writes it → its architecture.

What is resolved, and what is not:

* a hub id in any case, with ``hf://``, ``hf:``, ``modelscope://`` or as a hub URL in front and ``@revision`` or ``:tag``
  behind, is looked up in the catalog; so is what the hub called it before it renamed the organisation;
* a path is resolved where it *says* the hub id: a hub cache folder (``models--org--name``) or last two parts that are
  exactly one id of the catalog (``/data/meta-llama/Llama-3.1-8B-Instruct``); the provenance says that it was read out of the path.
  A last part alone (``/models/Qwen3-8B``) could be anybody's fine-tune, quantized or not: it is unknown, and the catalog
  model of that name is only suggested in the remedy;
* object stores, volumes and registries (``s3://``, ``gs://``, ``pvc://``, ``oci://`` …) are known only by a mapping;
* a mapping (``overrides``) wins over everything, and a folder of this machine is read only where the user named it, as
  the reference itself (``allow_local``) or as the place that a container's path stands for (``folders``).

Nothing here guesses: what is not known raises ``UnknownModel`` with the line that would make it known.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from planner import catalog
from planner.models.architecture import ModelArchitecture, UnknownModel
from planner.provenance import Provenance
from planner.record import NamedTuple

#: A reference longer than this is no name of a model.
MAX_LENGTH = 1024
#: A larger file is no config.json.
MAX_CONFIG_BYTES = 20_000_000

_HUB_SCHEMES = ("hf://", "hf:", "huggingface://", "modelscope://", "ms://")
_HUB_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co", "hf-mirror.com", "modelscope.cn", "www.modelscope.cn")
_URL_SCHEMES = ("http://", "https://")
_GGUF_TAGS = ("q2", "q3", "q4", "q5", "q6", "q8", "iq1", "iq2", "iq3", "iq4", "ud-")


class Resolved(NamedTuple):
    """A model that is known. ``catalog_id`` is the entry it came from, None for a local folder; ``gated``: whether the hub
    wants a token for its download, None where that is not known."""

    architecture: ModelArchitecture
    provenance: Provenance
    catalog_id: str | None
    gated: bool | None


class _Name(NamedTuple):
    """What a reference says about the hub id; ``how`` is empty where the reference is the id itself."""

    id: str
    how: str = ""


def resolve(
    reference: str,
    *,
    overrides: Mapping[str, str] | None = None,
    folders: Mapping[str, str | os.PathLike[str]] | None = None,
    allow_local: bool = False,
) -> Resolved:
    """The architecture that ``reference`` (``--model`` of an engine, ``planner/model``) names.

    ``overrides`` maps references (as written, case and a trailing slash aside) to a hub id or to a local folder or
    ``config.json``; it comes from the user. ``folders`` maps a path inside containers to a folder of this machine (a
    volume's copy): a reference below that path is read there, and nowhere outside it. ``allow_local``: the reference came
    from the user, not from a manifest, and may itself be a folder or a ``config.json`` of this machine.

    Raises ``UnknownModel`` (reason and remedy).
    """
    name = reference.strip()
    if not name:
        raise UnknownModel("no model is named", _remedy())
    if len(name) > MAX_LENGTH or not name.isprintable():
        raise UnknownModel("the model's name is too long or holds control characters", _remedy())
    target = _override(name, overrides or {})
    if target is not None:
        return _mapped(name, target)
    if folders and (path := _below(name, folders)) is not None:
        return _local(path, f"{name} is mapped to a local folder")
    if allow_local and (local := _user_path(name)) is not None:
        return _local(local, name)
    if any(mark in name for mark in ("$(", "${", "$", "<", "{{")):
        raise UnknownModel(f"the model's name {name} holds a variable or placeholder that nothing fills in", _remedy())
    said = _hub_name(name)
    if (found := _from_catalog(said.id.lower())) is not None:
        if said.how:
            found = found._replace(provenance=Provenance("derived", f"catalog entry {found.catalog_id}, {said.how}"))
        return found
    raise _not_known(name, said.id)


def _mapped(name: str, target: str) -> Resolved:
    """The model that the user says ``name`` is."""
    local = _user_path(target)
    if local is not None:
        return _local(local, f"{name} is mapped to {target}")
    said = _hub_name(target.strip())
    found = _from_catalog(said.id.lower())
    if found is None:
        raise _not_known(target, said.id)
    return found._replace(provenance=Provenance("config", f"catalog entry {found.catalog_id}, mapped from {name}"))


def _override(name: str, overrides: Mapping[str, str]) -> str | None:
    """What the user maps ``name`` to: as written first, then without regard to case and a trailing slash."""
    if not overrides:
        return None
    if name in overrides:
        return overrides[name]
    wanted = name.rstrip("/").lower()
    return next((target for key, target in overrides.items() if key.strip().rstrip("/").lower() == wanted), None)


def _below(name: str, folders: Mapping[str, str | os.PathLike[str]]) -> str | None:
    """The local path of a container path that lies below one of the user's mappings, the longest one first.

    The result never leaves the mapped folder, neither by ``..`` nor by a symbolic link: the name comes from a manifest.
    """
    for prefix in sorted(folders, key=len, reverse=True):
        root = os.path.realpath(folders[prefix])
        mount = prefix.rstrip("/")
        if name.rstrip("/") != mount and not name.startswith(mount + "/"):
            continue
        path = os.path.realpath(os.path.join(root, name[len(mount) :].strip("/")))
        if path != root and not path.startswith(root.rstrip(os.sep) + os.sep):
            raise UnknownModel(f"{name} leads out of the folder that {prefix} is mapped to", _remedy())
        return path
    return None


def _user_path(name: str) -> str | None:
    """``name`` as a path of this machine where it is one: it exists, or it is written as one can only write a path."""
    if name.endswith(".json") or name.startswith(("./", "../", "~/")) or name in (".", ".."):
        return os.path.expanduser(name)
    return name if os.path.isdir(name) and os.path.isfile(os.path.join(name, "config.json")) else None


def _local(path: str, text: str) -> Resolved:
    """The model in a folder of the user, or the one that a single file describes as a config.json would."""
    from planner.models.local import read_folder

    folder, name = os.path.split(path)
    provenance = Provenance("option", text)
    if not name.endswith(".json") or os.path.isdir(path):
        return Resolved(read_folder(path), provenance, None, None)
    if name == "config.json":  # with what stands beside it
        return Resolved(read_folder(folder or "."), provenance, None, None)
    from planner.models.config import architecture

    return Resolved(architecture(_json_object(path), None, name.removesuffix(".json")), provenance, None, None)


def _json_object(path: str) -> dict[str, Any]:
    """The object in a JSON file of the user; raises UnknownModel where there is none."""
    import json

    try:
        if os.path.getsize(path) > MAX_CONFIG_BYTES:
            raise UnknownModel(f"{path} is larger than any config.json", _remedy())
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise UnknownModel(f"{path} cannot be read: {error}", _remedy()) from error
    if not isinstance(value, dict):
        raise UnknownModel(f"{path} holds no JSON object", _remedy())
    return value


def _hub_name(name: str) -> _Name:
    """The hub id that a reference says, an empty one where it says none."""
    lower = name.lower()
    for scheme in _HUB_SCHEMES:
        if lower.startswith(scheme):
            return _Name(_bare(name[len(scheme) :].strip("/")))
    if lower.startswith(_URL_SCHEMES):
        return _Name(_from_url(name))
    if lower.startswith(_HUB_HOSTS) and "/" in name:
        return _Name(_from_url("https://" + name))
    if "://" in name:
        return _Name("")
    if name.startswith(("/", "./", "../", "~")) or name.count("/") > 1:
        return _from_path(name)
    return _Name(_bare(name))


def _bare(name: str) -> str:
    """``org/name`` of ``org/name@revision`` or ``org/name:tag``; empty for a GGUF tag, which names other weights."""
    name, _, tag = name.partition("@")[0].partition(":")
    if tag.lower().startswith(_GGUF_TAGS):
        return ""
    return "/".join(name.split("/")[:2])


def _from_url(url: str) -> str:
    """``org/name`` of a page of the hub; empty for other hosts and for single GGUF files."""
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return ""
    path = unquote(parts.path).strip("/")
    if host not in _HUB_HOSTS or path.lower().endswith(".gguf"):
        return ""
    return "/".join(path.removeprefix("models/").split("/")[:2])


def _from_path(path: str) -> _Name:
    """The hub id that a path states; an empty one where it states none."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or parts[-1].lower().endswith(".gguf"):
        return _Name("")
    for part in reversed(parts):
        if part.startswith("models--") and part.count("--") >= 2:
            _, organisation, name = part.split("--", 2)
            return _Name(f"{organisation}/{name}", f"read from the hub cache folder {part}")
    if len(parts) >= 2:
        return _Name("/".join(parts[-2:]), f"read from the last two parts of {path}")
    return _Name("")


@lru_cache(maxsize=512)
def _from_catalog(key: str) -> Resolved | None:
    """The catalog's model of an id in lower case; None where there is none. Kept: an architecture never changes."""
    entry, alias = catalog.model(key), ""
    if entry is None:
        entry = catalog.model(other) if (other := catalog.renamed(key)) else None
        alias = f", which the hub also knows as {key}"
    if entry is None:
        return None
    from planner.models.config import architecture

    built = architecture(entry.config, entry.quant_config, entry.id, entry.checkpoint_bytes)
    return Resolved(built, Provenance("catalog", f"catalog entry {entry.id}{alias}"), entry.id, entry.gated)


def _remedy(suggestion: str = "") -> str:
    """The line that makes a model known."""
    return f"annotate the workload with `planner/model: {suggestion or '<hub id>'}`, or map the name under `models:` in planner.yaml"


def _not_known(name: str, model_id: str) -> UnknownModel:
    """The error for a name that is not in the catalog: why, and the catalog models it could mean."""
    lower = name.lower()
    near = _nearest(model_id or name[-200:])
    if lower.split("?")[0].endswith(".gguf") or "gguf" in lower.rsplit("/", 1)[-1]:
        reason = f"{name} is a GGUF file, whose size and quantization its name does not tell"
        return UnknownModel(reason, _remedy() + " (a folder with its config.json works too)")
    scheme, mark, _ = name.partition("://")
    if mark and not model_id:
        reason = f"{name}: what lies behind {scheme}:// cannot be read"
    elif name.startswith(("/", "./", "../", "~")):
        reason = f"{name} is a path; its config.json is not at hand"
    else:
        reason = f"{name} is not in the catalog"
    if len(near) == 1 and near[0].rpartition("/")[2].lower() == lower.rstrip("/").rpartition("/")[2]:
        return UnknownModel(reason, _remedy(near[0]))
    hint = f" (nearest in the catalog: {', '.join(near)})" if near else ""
    return UnknownModel(reason, _remedy() + hint)


@lru_cache(maxsize=512)
def _nearest(name: str) -> tuple[str, ...]:
    """Up to three catalog ids like ``name``: the only one of the same name without its organisation, else similar ones.

    Only failures pay for this. A similar name starts with the same two letters, which keeps the costly comparison to a few
    candidates; the length is bounded since that comparison is quadratic in it.
    """
    last = name.rstrip("/").lower()[-96:].rpartition("/")[2]
    ids = _ids_by_name()
    if same := ids.get(last, ())[:8]:
        originals = [k for k in same if not catalog.base_of(k).lower().endswith("/" + last)]  # the others are copies
        return tuple(catalog.spelled(k) for k in (originals or same)[:3])
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(last)
    scored = []
    for candidate, keys in ids.items():
        if candidate[:2] != last[:2] or not 0.6 < len(candidate) / len(last) < 1.7:
            continue
        matcher.set_seq1(candidate)
        if matcher.quick_ratio() > 0.7 and (ratio := matcher.ratio()) > 0.7:
            scored.append((-ratio, keys[0]))
    return tuple(catalog.spelled(key) for _, key in sorted(scored)[:3])


@lru_cache(maxsize=1)
def _ids_by_name() -> dict[str, tuple[str, ...]]:
    """The catalog's ids in lower case, by their last part."""
    ids: dict[str, tuple[str, ...]] = {}
    for key in catalog.model_keys():
        name = key.rpartition("/")[2]
        ids[name] = (*ids.get(name, ()), key)
    return ids
