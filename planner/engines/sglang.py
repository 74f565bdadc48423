"""The words of an SGLang start → ``EngineConfig``, as the argument parser of that release reads them.

Source of the grammar: ``sglang/srt/server_args.py`` (``prepare_server_args``) and ``sglang/cli/serve.py``, which hand the
words to Python's argparse: abbreviations work, underscores do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.engines.config import CommandLine, EngineConfig, Word
from planner.engines.sglang_flag_table import flag_table
from planner.engines.version import version_key
from planner.engines.vllm import _Arg, _Reader, _variable, _word_provenance, flag_provenance, with_model
from planner.provenance import Fact, Unknown

if TYPE_CHECKING:
    from planner.documents.node import Node

#: The newest release whose facts are built in; what an unpinned image is assumed to hold.
NEWEST_SGLANG = "0.5.23"

_REMEDY = "annotate the object: planner/model: ORG/NAME"

#: Variables that the memory budget reads.
_MEMORY_VARIABLES = frozenset(
    (
        "SGLANG_AITER_HONOR_EXPLICIT_MEM_FRACTION",
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
        "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING",
        "SGLANG_MAMBA_CONV_DTYPE",
        "SGLANG_MAMBA_SSM_DTYPE",
        "SGLANG_MM_FEATURE_CACHE_MB",
        "SGLANG_PP_LAYER_PARTITION",
        "SGLANG_SWA_EVICTION_INTERVAL",
        "SGLANG_SYMM_MEM_PREALLOC_GB_SIZE",
        "SGLANG_USE_AITER",
        "SGLANG_USE_AITER_UNIFIED_ATTN",
        "SGLANG_VLM_CACHE_SIZE_MB",
    )
)


def parse(
    words: Sequence[Word],
    *,
    version: Fact[str],
    image: Fact[str] | None = None,
    env: Mapping[str, Any] | None = None,
    files: Mapping[str, Node] | None = None,
    platform: str = "cuda",
    command_line: CommandLine | None = None,
) -> EngineConfig:
    """The configuration that a command line stands for. Never raises on any input.

    ``words`` may begin with the program (``python -m sglang.launch_server``, ``sglang serve``, wrappers before it) or with
    its arguments. ``env``: name → ``EnvVar`` (or ``Fact[str]``). ``files``: absolute path → node of the text, for
    ``--config FILE``. Model and every value carry the place they stand at.
    """
    key = version_key(version.value, NEWEST_SGLANG)
    reader = _SGLangReader(key, flag_table(key), env or {}, files or {})
    start, serve = _program_length(words)
    reader.read(list(words[start:]), serve)
    return reader.config("sglang", version, image, platform, command_line)


def parse_argv(
    flags: Sequence[str],
    *,
    version: Fact[str],
    model: Fact[str] | None = None,
    env: Mapping[str, Any] | None = None,
    platform: str = "cuda",
) -> EngineConfig:
    """The configuration of flags behind ``planner budget … --``; ``model`` stands in where the flags name none."""
    words = [Word(text, None, True, "option") for text in flags]
    return with_model(parse(words, version=version, env=env, platform=platform), model)


def _program_length(words: Sequence[Word]) -> tuple[int, bool]:
    """How many leading words are the program rather than its arguments, and whether it is ``sglang serve``."""
    for index, word in enumerate(words[:64]):
        text = word.text
        following = words[index + 1].text if index + 1 < len(words) else ""
        if text == "serve" and index == 0:
            return 1, True
        if text.rsplit("/", 1)[-1] == "sglang" and following == "serve":
            return index + 2, True
        if text == "-m" and index and re.fullmatch(r"(?:.*/)?python[\d.]*", words[0].text):
            return index + 2, False
        if (text.startswith("-msglang") and index) or text.endswith("launch_server.py"):
            return index + 1, False
        if index == 0 and text.startswith("-"):
            return 0, False
    if words and re.fullmatch(r"(?:.*/)?(?:sglang|python[\d.]*)", words[0].text):
        return 1, False
    return 0, False


class _SGLangReader(_Reader):
    """argparse's walk over the words, without what only vLLM's parser rewrites."""

    variable_prefixes = ("SGLANG_", "SGL_")
    memory_variables = _MEMORY_VARIABLES
    serve = False

    def read(self, words: list[Word], serve: bool) -> None:
        """Read all arguments."""
        self.serve = serve
        self.parse(self.rewrite(self.with_config_file(words)))
        self.report_unknown_values()

    def rewrite(self, words: list[Word]) -> list[_Arg]:
        """Underscores in names are an error to this parser; they are read in the sense that was meant."""
        result = []
        for word in words:
            name, equals, value = word.text.partition("=")
            if name.startswith("--") and "_" in name and name not in self.table.options:
                meant = name.replace("_", "-")
                if meant in self.table.options or meant in self.table.inactive:
                    if word.source.startswith("config:"):
                        result.append(_Arg(meant + equals + value, word))
                        continue
                    self.problem(word, f"unrecognized arguments: {name[:80]} (SGLang spells it {meant[:80]})")
                    result.append(_Arg(meant + equals + value, word))
                    continue
            result.append(_Arg(word.text, word))
        return result

    def take_positional(self, word: Word) -> None:
        """``sglang serve MODEL`` takes one; ``launch_server`` none."""
        first = self.model is None and not self.positionals
        super().take_positional(word)
        if first and self.model is not None and not self.serve:
            self.problem(word, f"unrecognized arguments: {word.text[:80]}")
            self.model = None

    def model_fact(self, version: str) -> Fact[str] | None:
        """The model: ``--model-path``, else the positional of ``sglang serve``; there is no default."""
        del version
        flag = self.flags.get("model-path")
        if flag is not None:
            if flag.known and flag.value:
                return Fact(str(flag.value), flag_provenance(flag))
            self.unknown = [gap for gap in self.unknown if gap.fact != "engine.flags.model-path"]
            raw = (flag.raw or "")[:80]
            variable = _variable(raw)
            remedy = f"define {variable} in the container's env, or {_REMEDY}" if variable else _REMEDY
            place = flag.value_position or flag.position
            self.unknown.append(Unknown("model", f"{raw or '--model-path'} is not expanded", remedy, place))
            return None
        word = self.model
        if word is not None and word.known:
            return Fact(word.text, _word_provenance(word))
        if word is not None:
            self.unknown.append(Unknown("model", f"{word.text[:80]} is not expanded", _REMEDY, word.position))
        elif self.unknown_arguments:
            self.unknown.append(Unknown("model", "it may stand in arguments that are not expanded", _REMEDY))
        else:
            self.unknown.append(Unknown("model", "no --model-path is given", _REMEDY))
        return None
