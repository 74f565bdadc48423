"""Engines that are recognised and have no flag table: the model and the parallel sizes that their start states.

What else they are told is not read, and nothing is made of what they are not told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.engines.config import EngineConfig, FlagValue, Parallelism, Word
from planner.provenance import Fact, Provenance, from_file
from planner.record import NamedTuple
from planner.workloads.workload import HIDDEN

if TYPE_CHECKING:
    from planner.documents.node import Node
    from planner.engines.detect import EngineStart
    from planner.workloads.workload import Container

_TENSOR = ("tensor-parallel-size", "tp-size", "tp")
_PIPELINE = ("pipeline-parallel-size", "pp-size", "pp")
_DATA = ("data-parallel-size", "dp-size", "dp")


class _Spellings(NamedTuple):
    """Names of flags (hyphens inside), best first: of the model, of the tensor parallel size, of a config file. ``first``:
    whether the model may stand alone as the first word. ``model_variables`` and ``tensor_variables`` are environment
    variables that say the same."""

    model: tuple[str, ...] = ("model",)
    tensor: tuple[str, ...] = _TENSOR
    first: bool = False
    config: tuple[str, ...] = ()
    model_variables: tuple[str, ...] = ()
    tensor_variables: tuple[str, ...] = ()
    pipeline_variables: tuple[str, ...] = ()


_ENGINES = {
    "vllm-omni": _Spellings(("model",), _TENSOR, True),
    "huggingfaceserver": _Spellings(("model-id", "model-dir"), _TENSOR, model_variables=("MODEL_ID", "MODEL_DIR")),
    "dynamo-vllm": _Spellings(("model",)),
    "dynamo-sglang": _Spellings(("model-path", "model"), _TENSOR, config=("config",)),
    "dynamo-trtllm": _Spellings(("model-path", "model"), _TENSOR, config=("extra-engine-args", "config")),
    "sglang": _Spellings(("model-path", "model"), _TENSOR, True, ("config",)),
    "trtllm": _Spellings(("model", "model-path"), _TENSOR, True, ("extra-llm-api-options", "config")),
    "tgi": _Spellings(("model-id",), ("num-shard",), False, (), ("MODEL_ID",), ("NUM_SHARD",)),
    "tei": _Spellings(("model-id",), (), model_variables=("MODEL_ID",)),
    "llama.cpp": _Spellings(
        ("model", "m", "hf-repo", "hf", "model-url", "mu"), (), False, (), ("LLAMA_ARG_MODEL", "LLAMA_ARG_HF_REPO")
    ),
    "nim": _Spellings(
        (), (), False, (), ("NIM_MODEL_NAME",), ("NIM_TENSOR_PARALLEL_SIZE",), ("NIM_PIPELINE_PARALLEL_SIZE",)
    ),
    "triton": _Spellings(("model-repository", "model-store"), ()),
    "lmdeploy": _Spellings((), ("tp",), True),
    "aphrodite": _Spellings(("model",), _TENSOR, True),
    "infinity": _Spellings(("model-id",), ()),
}
#: Keys of config files → canonical flag.
_KEYS = {
    "model-path": "model",
    "model": "model",
    "tensor-parallel-size": "tensor-parallel-size",
    "tp-size": "tensor-parallel-size",
    "tp": "tensor-parallel-size",
    "pipeline-parallel-size": "pipeline-parallel-size",
    "data-parallel-size": "data-parallel-size",
}
#: What flag tables of engines call them.
_SIZES = (
    ("tensor-parallel-size", "tp-size", "num-shard"),
    ("pipeline-parallel-size", "pp-size"),
    ("data-parallel-size", "dp-size"),
)
_CANONICAL = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")


def read(start: EngineStart, container: Container, *, files: Mapping[str, Node], platform: str) -> EngineConfig:
    """The configuration that an engine's start states: ``flags`` hold parallel sizes only. Never raises."""
    spellings = _ENGINES.get(start.engine, _Spellings(()))
    found: dict[str, FlagValue] = {}
    model: Fact[str] | None = None
    words = start.command_line.words
    given = _given(words)
    for name in spellings.config:
        if name in given and given[name][1] is not None:
            model = _config_file(given[name][1], files, found) or model
    for canonical, names in zip(_CANONICAL, (spellings.tensor, _PIPELINE, _DATA), strict=True):
        for name in names:
            if name in given:
                found[canonical] = _size(canonical, *given[name])
                break
    said = zip(_CANONICAL, (spellings.tensor_variables, spellings.pipeline_variables), strict=False)
    for canonical, variables in said:
        for name in variables if canonical not in found else ():
            variable = container.env.get(name)
            if variable is not None and variable.value is not None:
                word = Word(variable.value, variable.node.position, True, f"env:{name}")
                found[canonical] = _size(canonical, word, word)
                break
    for name in spellings.model:
        if name in given and given[name][1] is not None:
            model = _model(given[name][1])
            break
    else:
        if spellings.first and words and not words[0].text.startswith("-") and words[0].text != HIDDEN:
            model = _model(words[0])
        elif model is None:
            told = (container.env.get(name) for name in spellings.model_variables)
            variable = next((item for item in told if item is not None and item.value), None)
            if variable is not None and variable.value is not None:
                model = from_file(variable.value, variable.node.position)
    return EngineConfig(
        engine=start.engine,
        version=Fact("", Provenance("assumption", "not read for this engine")),
        version_key=(),
        model=model,
        flags=found,
        command_line=start.command_line,
        image=container.image,
        platform=platform,
    )


def sizes(config: EngineConfig) -> Parallelism | None:
    """The parallel sizes that the start states; 1 where it states none, None where one is not known."""
    values = []
    for names in _SIZES:
        flag = next((config.flags[name] for name in names if name in config.flags), None)
        if flag is not None and (not flag.known or not isinstance(flag.value, int)):
            return None
        values.append(flag.value if flag is not None else 1)
    return Parallelism(tensor=values[0], pipeline=values[1], data=values[2], data_local=values[2])


def _given(words: tuple[Word, ...]) -> dict[str, tuple[Word, Word | None]]:
    """Flags by name (hyphens inside) with the word and the value that follows, the last of each."""
    found: dict[str, tuple[Word, Word | None]] = {}
    for index, word in enumerate(words[:5_000]):
        if not word.text.startswith("-") or re.match(r"-\d", word.text):
            continue
        name, equals, value = word.text.lstrip("-").partition("=")
        after = words[index + 1] if index + 1 < len(words) else None
        if equals:
            after = word._replace(text=value)
        found[name.replace("_", "-")] = (word, after)
    return found


def _model(word: Word | None) -> Fact[str] | None:
    if word is None or not word.text:
        return None
    if word.position is None:
        return Fact(word.text, Provenance("option", "command line"))
    return from_file(word.text, word.position)


def _size(name: str, flag: Word, value: Word | None) -> FlagValue:
    text = value.text.strip() if value is not None else ""
    known = value is not None and value.known and text.isascii() and text.isdecimal() and 0 < len(text) < 7
    return FlagValue(
        name, int(text) if known else None, flag.text, text, flag.position, value.position if value else None, known
    )


def _config_file(path: Word | None, files: Mapping[str, Node], found: dict[str, FlagValue]) -> Fact[str] | None:
    """Takes the parallel sizes of a YAML file that is mounted; returns the model that it names."""
    node = files.get(path.text) if path is not None and path.known else None
    if node is None:
        return None
    from planner.engines.vllm_config_file import ConfigFileError, read_entries

    try:
        entries: list[Any] = read_entries(node.text)
    except ConfigFileError:
        return None
    model: Fact[str] | None = None
    for entry in entries:
        canonical = _KEYS.get(str(entry.key).replace("_", "-"))
        place = node.position_at(entry.value_offset)
        if canonical == "model" and isinstance(entry.value, str):
            model = from_file(entry.value, place)
        elif canonical is not None and canonical != "model":
            word = Word(str(entry.value), place, True, f"config:{path.text if path else ''}")
            found[canonical] = _size(canonical, word, word)
    return model
