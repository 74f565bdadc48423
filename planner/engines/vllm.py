"""The words of a vLLM start → ``EngineConfig``, as the argument parser of that release reads them.

Source of the grammar: ``vllm/utils/argparse_utils.py`` (earlier ``vllm/utils.py``) and Python's argparse. What the
release would refuse is kept as an ``argument_problem`` and read in the sense the author meant, so that one typing error
does not hide the rest of the file from the planner.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.engines.config import CommandLine, EngineConfig, FlagValue, Word
from planner.engines.version import NEWEST_VLLM, is_placeholder, version_key
from planner.engines.vllm_flag_table import FlagSpec, FlagTable, Option, flag_table
from planner.provenance import Fact, Position, Provenance, Unknown, assumed, from_default, from_file
from planner.record import NamedTuple, replace
from planner.workloads.workload import HIDDEN

if TYPE_CHECKING:
    from planner.documents.node import Node

#: Environment variables outside ``VLLM_`` that change what the engine does with memory or devices.
_OTHER_VARIABLES = frozenset(
    (
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "HF_HUB_OFFLINE",
        "TORCH_COMPILE_DISABLE",
    )
)
#: Variables that the memory budget reads.
_MEMORY_VARIABLES = frozenset(
    (
        "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
        "VLLM_ATTENTION_BACKEND",
        "VLLM_KV_CACHE_LAYOUT",
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
        "VLLM_MLA_DISABLE",
        "VLLM_PP_LAYER_PARTITION",
        "VLLM_USE_FLASHINFER_SAMPLER",
        "VLLM_USE_V1",
        "VLLM_USE_V2_MODEL_RUNNER",
    )
)
#: A number beyond this is a typing error or an attack, and later arithmetic must stay small.
_LARGEST = 2**62
_LONGEST_TEXT = 100_000
_DEEPEST_KEY = 16
_MOST_DOTTED = 256
_HUMAN_INT = re.compile(r"(\d{1,18})(\.\d{1,18})?([kKmMgGtT])")
_NEGATIVE_NUMBER = re.compile(r"-\d+$|-\d*\.\d+$")
#: A lone variable of such a name carries arguments, not the model.
_CARRIES_ARGUMENTS = re.compile(r"ARG|FLAG|OPT|EXTRA|PARAM|CMD|\$@|\$\*", re.IGNORECASE)

_DOTTED_SINCE = (0, 9, 0)
_OPTIMIZATION_LEVEL_SINCE = (0, 12, 0)
_DOTTED_O_UNTIL = (0, 15, 0)
#: ``vllm serve --model X`` stopped with an error in these releases.
_SERVE_REFUSES_MODEL = ((0, 8, 3), (0, 11, 1))
_QWEN_DEFAULT_SINCE = (0, 10, 0)
_CONFIG_FALSE_SINCE = (0, 28, 0)


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

    ``words`` may begin with the program (``vllm serve``, ``python -m vllm.entrypoints.openai.api_server``, wrappers
    before it) or with its arguments. ``env``: name → ``EnvVar`` (or ``Fact[str]``). ``files``: absolute path → node of
    the text, for ``--config FILE``. Model and every value carry the place they stand at.
    """
    if is_placeholder(version.value):
        stated = version.value[:60]
        version = assumed(
            NEWEST_VLLM, f"{stated} is a build from source: vLLM {NEWEST_VLLM}, the newest known, is assumed"
        )
    key = version_key(version.value)
    reader = _Reader(key, flag_table(key), env or {}, files or {})
    start, serve = _program_length(words)
    reader.read(list(words[start:]), serve)
    return reader.config("vllm", version, image, platform, command_line)


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
    config = parse(words, version=version, env=env, platform=platform)
    named = "model" in config.flags or config.positionals
    if model is None or (named and config.model is not None):
        return config
    return replace(config, model=model)


def with_model(config: EngineConfig, model: Fact[str] | None) -> EngineConfig:
    """``model`` in place of the one that an engine without a default model was not told."""
    if model is None or config.model is not None:
        return config
    return replace(config, model=model, unknown=tuple(gap for gap in config.unknown if gap.fact != "model"))


def flag_provenance(flag: FlagValue) -> Provenance:
    """Where the value of a flag comes from."""
    position = flag.value_position or flag.position
    if position is None:
        return Provenance("option", f"command line: {flag.spelling}")
    return Provenance("file", str(position), position)


def flag_fact(config: EngineConfig, name: str) -> Fact[Any] | None:
    """The known value given for a flag with its place, None where it is absent or unknown."""
    flag = config.flags.get(name)
    return Fact(flag.value, flag_provenance(flag)) if flag and flag.known else None


def env_text(config: EngineConfig, name: str) -> str | None:
    """The value of an environment variable, None where it is unset or unknown."""
    fact = config.env.get(name)
    return fact.value.strip() if fact else None


def env_flag(config: EngineConfig, name: str) -> bool | None:
    """A boolean variable as vLLM reads it (``bool(int(value))``), None where it is unset or neither 0 nor 1."""
    value = env_text(config, name)
    return value == "1" if value in ("0", "1") else None


def count(value: Any) -> int | None:
    """A non-negative integer of a sane size, None for anything else that a flag or JSON may hold."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1 << 40:
        return None
    return value


def _program_length(words: Sequence[Word]) -> tuple[int, bool]:
    """How many leading words are the program rather than its arguments, and whether it is ``vllm serve``."""
    for index, word in enumerate(words[:64]):
        text = word.text
        following = words[index + 1].text if index + 1 < len(words) else ""
        if text == "serve" and index == 0:
            return 1, True
        if text == "-m" and following.startswith("vllm."):
            after = words[index + 2].text if index + 2 < len(words) else ""
            return (index + 3, True) if after == "serve" else (index + 2, False)
        if text.rsplit("/", 1)[-1] in ("vllm", "vllm-rs") and following == "serve":
            return index + 2, True
        if text.endswith("api_server.py") or (text.startswith("-mvllm.") and index):
            return index + 1, False
        if text == "-m" and index and re.fullmatch(r"(?:.*/)?python[\d.]*", words[0].text):
            return index + 2, False  # a program of its own that takes vLLM's arguments, such as dynamo.vllm
        if index == 0 and text.startswith("-"):
            return 0, False
    # A bare interpreter, or `vllm` whose subcommand is a later argument, still is no model.
    if (
        words
        and re.fullmatch(r"(?:.*/)?(?:vllm|python[\d.]*)", words[0].text)
        and not words[0].text.startswith("/models")
    ):
        return 1, False
    return 0, False


class _Arg(NamedTuple):
    """One argument after the release's own rewriting; ``word`` is the word it came from."""

    text: str
    word: Word


#: Releases of vLLM whose JSON flags take pairs as well; no other engine's releases have such numbers.
_PAIRS_SINCE, _PAIRS_UNTIL = (0, 8, 5), (0, 10)


class _Reader:
    """One pass over a command line. Collects instead of raising.

    Other engines' readers derive from it: they bring their table, override what their parser does otherwise, and name the
    variables that act as configuration (``variables``, ``variable_prefixes``; ``memory_variables`` are those whose value
    the budget misses where it is not known).
    """

    variables = _OTHER_VARIABLES
    variable_prefixes: tuple[str, ...] = ("VLLM_",)
    memory_variables = _MEMORY_VARIABLES

    def __init__(
        self, version: tuple[int, ...], table: FlagTable, env: Mapping[str, Any], files: Mapping[str, Node]
    ) -> None:
        self.version = version
        self.table = table
        self.env = env
        self.files = files
        self.flags: dict[str, FlagValue] = {}
        self.given: list[FlagValue] = []
        self.unknown: list[Unknown] = []
        self.positionals: list[Word] = []
        self.problems: list[tuple[Position | None, str]] = []
        self.model: Word | None = None
        self.unknown_arguments = False

    # ---- the whole line -----------------------------------------------------------------------------------------

    def read(self, words: list[Word], serve: bool) -> None:
        """Read all arguments."""
        low, high = _SERVE_REFUSES_MODEL
        if serve and low <= self.version < high:
            for word in words:
                if word.text == "--model":
                    self.problem(word, "`vllm serve` of this release refuses --model: the model is its first argument")
                    break
        words = self.with_config_file(words)
        arguments, dotted = self.split_dotted(self.rewrite(words))
        self.parse(arguments)
        for option, (first, value) in dotted.items():
            self.take_dotted(option, first, value)
        self.report_unknown_values()

    def with_config_file(self, words: list[Word]) -> list[Word]:
        """The words with the entries of ``--config FILE`` put before them, so that the command line wins."""
        for index, word in enumerate(words):
            if word.text.startswith("--config=") and word.known:
                self.problem(word, "--config=FILE is not read: the parser only looks for --config FILE as two words")
            if word.text != "--config":
                continue
            if index + 1 == len(words):
                self.problem(word, "--config names no file")
                return words
            value = words[index + 1]
            rest = words[:index] + words[index + 2 :]
            path = value.text
            node = self.files.get(path) if value.known else None
            flag = FlagValue(
                "config", path if value.known else None, "--config", path, word.position, value.position, value.known
            )
            self.store(flag, once=True)
            if node is None:
                reason = (
                    f"the config file {path[:120]} is not among the inputs"
                    if value.known
                    else f"{path[:120]} is not expanded"
                )
                self.unknown_arguments = True
                self.unknown.append(
                    Unknown(
                        "engine.arguments",
                        reason,
                        "pass the ConfigMap that holds the file to planner as well, or write its entries as arguments",
                        value.position,
                    )
                )
                return rest
            return self.config_words(node, path, word) + rest
        return words

    def config_words(self, node: Node, path: str, word: Word) -> list[Word]:
        """The arguments that a YAML config file stands for, each with its place in the file."""
        from planner.engines.vllm_config_file import ConfigFileError, read_entries

        try:
            entries = read_entries(node.text)
        except ConfigFileError as bad:
            self.problem(word, f"config file {path[:120]}: {bad}")
            return []
        source = f"config:{path}"
        words: list[Word] = []
        for key, value, key_offset, value_offset in entries:
            key_position, value_position = node.position_at(key_offset), node.position_at(value_offset)
            name = key.replace("_", "-")
            spec = self.table.flags.get(name)
            if isinstance(value, bool) and (spec is None or spec.kind != "optional-bool"):
                if value:
                    words.append(Word("--" + key, key_position, True, source))
                elif self.version >= _CONFIG_FALSE_SINCE and f"--no-{name}" in self.table.options:
                    words.append(Word("--no-" + key, key_position, True, source))
                continue
            items = value if isinstance(value, list) else [value]
            if not items:
                continue
            words.append(Word("--" + key, key_position, True, source))
            for item in items:
                text = json.dumps(item) if isinstance(item, (dict, list)) else str(item)
                words.append(Word(text, value_position, True, source))
        return words

    def rewrite(self, words: list[Word]) -> list[_Arg]:
        """Underscores in names become hyphens, ``-O3`` becomes what the release makes of it."""
        result: list[_Arg] = []
        for index, word in enumerate(words):
            text = word.text
            if text.startswith("--"):
                name, equals, value = text.partition("=")
                head, dot, tail = name.partition(".")
                if self.version < _DOTTED_SINCE and dot:
                    head, tail = name, ""
                    dot = ""
                result.append(_Arg(head.replace("_", "-") + dot + tail + equals + value, word))
            elif text.startswith("-O") and text != "-O":
                self.rewrite_optimization(text, word, result)
            elif (
                text == "-O"
                and self.version >= _OPTIMIZATION_LEVEL_SINCE
                and index + 1 < len(words)
                and words[index + 1].text in ("0", "1", "2", "3")
            ):
                result.append(_Arg("--optimization-level", word))
            elif text == "-O" and self.version >= _OPTIMIZATION_LEVEL_SINCE:
                result.append(_Arg("--compilation-config", word))
                self.problem(word, "-O takes a level (0 to 3) in this release; --compilation-config takes JSON")
            else:
                result.append(_Arg(text, word))
        return result

    def rewrite_optimization(self, text: str, word: Word, result: list[_Arg]) -> None:
        if text.startswith("-O."):
            if self.version >= _DOTTED_O_UNTIL:
                self.problem(word, f"{text[:60]} is not taken by this release; write -cc{text[2:60]}")
            result.append(_Arg("--compilation-config" + text[2:], word))
            return
        level = text[3:] if text.startswith("-O=") else text[2:]
        if self.version >= _OPTIMIZATION_LEVEL_SINCE:
            result += [_Arg("--optimization-level", word), _Arg(level, word)]
        elif level.lstrip().startswith("{"):
            result += [_Arg("--compilation-config", word), _Arg(level, word)]
        else:
            result += [
                _Arg("--compilation-config", word),
                _Arg(json.dumps({"level": _json_or_text(level)}), word),
            ]

    def split_dotted(self, arguments: list[_Arg]) -> tuple[list[_Arg], dict[str, tuple[Word, dict[str, Any] | None]]]:
        """Take out ``--name.key value`` pairs and merge those of one name, as the parser does before argparse.

        A value of None says that a part could not be known.
        """
        plain: list[_Arg] = []
        dotted: dict[str, tuple[Word, dict[str, Any] | None]] = {}
        if self.version < _DOTTED_SINCE:
            return arguments, dotted
        skip = False
        count = 0
        for index, argument in enumerate(arguments):
            if skip:
                skip = False
                continue
            name, equals, value = argument.text.partition("=")
            if not re.match(r"--?[A-Za-z]", name) or "." not in name or any(c.isspace() for c in name):
                plain.append(argument)
                continue
            value_word = argument.word
            if not equals:
                if index + 1 == len(arguments):
                    self.problem(argument.word, f"{name[:80]} has no value")
                    continue
                value, value_word = arguments[index + 1].text, arguments[index + 1].word
                skip = True
            count += 1
            listing = name.endswith("+")
            option, *keys = name.removesuffix("+").split(".", _DEEPEST_KEY)
            option = self.canonical(option)
            if count > _MOST_DOTTED or "." in keys[-1]:
                self.problem(argument.word, f"{name[:80]}: more keys than planner reads")
                continue
            first, tree = dotted.get(option, (argument.word, {}))
            if not argument.word.known or not value_word.known:
                tree = None
            elif tree is not None:
                item: Any = value.split(",") if listing else _json_or_human(value)
                for key in reversed(keys):
                    item = {key: item}
                _merge(tree, item)
            dotted[option] = (first, tree)
        return plain, dotted

    def canonical(self, spelling: str) -> str:
        option = self.find(spelling)
        return "--" + option.spec.name if option else spelling

    def take_dotted(self, option: str, word: Word, tree: dict[str, Any] | None) -> None:
        name = option.lstrip("-").replace("_", "-")
        found = self.table.options.get(option)
        if found is None:
            self.not_taken(word, option)
        raw = None if tree is None else json.dumps(tree)
        self.store(FlagValue(name, tree, word.text, raw, word.position, word.position, tree is not None))

    # ---- argparse -----------------------------------------------------------------------------------------------

    def parse(self, arguments: list[_Arg]) -> None:
        """argparse's walk: options take the values that follow, the rest are positionals."""
        index = 0
        only_positionals = False
        while index < len(arguments):
            argument = arguments[index]
            index += 1
            text = argument.text
            if only_positionals or not self.is_option(argument):
                self.take_positional(argument.word)
                continue
            if text == "--":
                only_positionals = True
                continue
            name, equals, explicit = text.partition("=")
            option = self.table.options.get(text)
            if option is not None:
                equals = ""
            else:
                option = self.find(name, argument.word)
            if option is None:
                index = self.take_unknown(argument, name, equals, explicit, arguments, index)
                continue
            index = self.take_option(option, argument, equals, explicit, arguments, index)

    def is_option(self, argument: _Arg) -> bool:
        """Whether argparse takes the argument for an option rather than a value."""
        text = argument.text
        if len(text) < 2 or text[0] != "-":
            return False
        if text in self.table.options or text == "--":
            return True
        if text.partition("=")[0] in self.table.options:
            return True
        if _NEGATIVE_NUMBER.match(text):
            return False
        return " " not in text.partition("=")[0] if text.startswith("--") else " " not in text

    def find(self, spelling: str, word: Word | None = None) -> Option | None:
        """The option of a spelling, exact or abbreviated; None where this release has none or several."""
        option = self.table.options.get(spelling)
        if option is not None or not spelling.startswith("--") or len(spelling) < 4:
            return option
        matches = self.table.starting_with(spelling)
        specs = {self.table.options[match].spec.name for match in matches}
        if len(matches) == 1 or (len(specs) == 1 and matches and self.same_effect(matches)):
            return self.table.options[matches[0]]
        if matches and word is not None and spelling not in self.table.inactive:
            self.problem(word, f"ambiguous option: {spelling[:60]} could be {', '.join(matches[:4])}")
        return None

    def same_effect(self, matches: list[str]) -> bool:
        return len({self.table.options[match].negated for match in matches}) == 1

    def take_option(
        self, option: Option, argument: _Arg, equals: str, explicit: str, arguments: list[_Arg], index: int
    ) -> int:
        """Take one option and its values; returns the index behind them."""
        spec, word = option.spec, argument.word
        spelling = word.text.partition("=")[0]
        if spec.kind in ("switch", "true", "false"):
            value = (spec.kind != "false") != option.negated
            if equals:
                meant = _boolean(explicit)
                if not word.known and meant is None:
                    self.store(FlagValue(spec.name, None, spelling, explicit, word.position, word.position, False))
                    return index
                self.problem(word, f"{spelling[:60]} takes no value (ignored explicit argument {explicit[:40]!r})")
                value = value if meant is None else meant != option.negated
            self.store(FlagValue(spec.name, value, spelling, explicit or None, word.position, word.position))
            return index
        values: list[_Arg] = []
        if equals:
            values.append(_Arg(explicit, word))
        else:
            many = spec.kind == "list"
            while index < len(arguments) and (many or not values) and not self.is_option(arguments[index]):
                values.append(arguments[index])
                index += 1
        self.take_values(spec, word, spelling, values)
        return index

    def take_values(self, spec: FlagSpec, word: Word, spelling: str, values: list[_Arg]) -> None:
        if not values:
            if spec.kind in ("optional", "optional-bool"):
                self.store(FlagValue(spec.name, True, spelling, None, word.position, word.position))
                return
            self.problem(
                word, f"{spelling[:60]}: expected {'at least one argument' if spec.kind == 'list' else 'one argument'}"
            )
            self.store(FlagValue(spec.name, None, spelling, None, word.position, word.position, False))
            return
        first = values[0].word
        raw = " ".join(value.text for value in values) if len(values) > 1 else values[0].text
        position = first.position
        if not all(value.word.known for value in values):
            self.store(FlagValue(spec.name, None, spelling, raw, word.position, position, False))
            return
        try:
            if spec.kind == "list":
                converted: Any = [_convert(spec.element, value.text) for value in values]
            else:
                converted = _convert(self._kind(spec, raw), raw)
            self.check_choice(spec, word, spelling, converted)
        except ValueError as error:
            self.problem(first, f"{spelling[:60]}: {error}")
            self.store(FlagValue(spec.name, None, spelling, raw, word.position, position, False))
            return
        if spec.append:
            before = self.flags.get(spec.name)
            converted = [*(before.value if before and isinstance(before.value, list) else []), converted]
        self.store(FlagValue(spec.name, converted, spelling, raw, word.position, position))

    def _kind(self, spec: FlagSpec, raw: str) -> str:
        """How a value is read: from 0.8.5 on, and until 0.10, what stands outside of braces was a list of pairs
        (image=2,video=1) where JSON was asked for (``parse_type`` of ``engine/arg_utils.py``)."""
        pairs = spec.kind == "json" and _PAIRS_SINCE <= self.version < _PAIRS_UNTIL and not raw.lstrip().startswith("{")
        return "kvs" if pairs else spec.kind

    def check_choice(self, spec: FlagSpec, word: Word, spelling: str, value: Any) -> None:
        if not spec.choices or value is None:
            return
        for item in value if isinstance(value, list) else [value]:
            if str(item) not in spec.choices:
                listed = ", ".join(spec.choices[:8]) + (" …" if len(spec.choices) > 8 else "")
                self.problem(word, f"{spelling[:60]}: invalid choice: {str(item)[:60]!r} (choose from {listed})")
                return

    def take_unknown(
        self, argument: _Arg, name: str, equals: str, explicit: str, arguments: list[_Arg], index: int
    ) -> int:
        """An option that this release does not have: kept, with the arity of another release's or a guessed one."""
        word = argument.word
        if not word.known and "$" in name:
            self.unknown_words(word)
            return index
        inactive = self.table.inactive.get(name)
        if not any(
            message.startswith("ambiguous") and position == word.position for position, message in self.problems[-1:]
        ):
            self.not_taken(word, name)
        if inactive is not None:
            return self.take_option(inactive, argument, equals, explicit, arguments, index)
        spelling = word.text.partition("=")[0]
        canonical = name.lstrip("-")
        if equals:
            self.store(
                FlagValue(
                    canonical,
                    explicit if word.known else None,
                    spelling,
                    explicit,
                    word.position,
                    word.position,
                    word.known,
                )
            )
            return index
        if index < len(arguments) and not self.is_option(arguments[index]):
            value = arguments[index]
            self.store(
                FlagValue(
                    canonical,
                    value.text if value.word.known else None,
                    spelling,
                    value.text,
                    word.position,
                    value.word.position,
                    value.word.known,
                )
            )
            return index + 1
        self.store(FlagValue(canonical, True, spelling, None, word.position, word.position))
        return index

    def not_taken(self, word: Word, name: str) -> None:
        inactive = self.table.inactive.get(name)
        if inactive is None:
            self.problem(word, f"unrecognized arguments: {name[:80]}")
            return
        spec = inactive.spec
        removed = bool(spec.until) and self.version >= version_key(spec.until)
        when = (
            f"removed in {spec.until}" if removed else f"from {spec.since} on" if spec.since else "not in this release"
        )
        instead = self.table.renamed.get(spec.name)
        self.problem(
            word, f"unrecognized arguments: {name[:80]} ({when}{f'; now --{instead}' if instead and removed else ''})"
        )

    def take_positional(self, word: Word) -> None:
        if not word.known and (self.model is not None or _CARRIES_ARGUMENTS.search(word.text)):
            self.unknown_words(word)
            return
        if not word.text.strip():
            # The value of an empty variable; argparse would take it for the model or refuse it.
            self.problem(word, "an empty argument")
            return
        self.positionals.append(word)
        if self.model is None and _boolean(word.text) is None:
            self.model = word
        else:
            self.problem(word, f"unrecognized arguments: {word.text[:80]}")

    def unknown_words(self, word: Word) -> None:
        """A word that may stand for any number of arguments."""
        self.unknown_arguments = True
        if word.text == HIDDEN:
            remedy = "lint what decides them together with it, or annotate the object: planner/model: ORG/NAME"
            self.unknown.append(Unknown("engine.arguments", word.reason, remedy, word.position))
            return
        self.unknown.append(
            Unknown(
                "engine.arguments",
                f"{word.text[:80]} is not expanded, it may hold any arguments",
                f"define {_variable(word.text) or 'the variable'} in the container's env, or write its arguments out",
                word.position,
            )
        )

    # ---- results ------------------------------------------------------------------------------------------------

    def config(
        self,
        engine: str,
        version: Fact[str],
        image: Fact[str] | None,
        platform: str,
        command_line: CommandLine | None,
    ) -> EngineConfig:
        """What was read, once all of it was."""
        return EngineConfig(
            engine=engine,
            version=version,
            version_key=self.version,
            model=self.model_fact(version.value),
            flags=self.flags,
            given=tuple(self.given),
            env=self.environment(),
            command_line=command_line,
            image=image,
            platform=platform,
            unknown=tuple(self.unknown),
            positionals=tuple(self.positionals),
            argument_problems=tuple(self.problems),
        )

    def store(self, flag: FlagValue, once: bool = False) -> None:
        self.given.append(flag)
        if not (once and flag.name in self.flags):
            self.flags[flag.name] = flag

    def problem(self, word: Word, message: str) -> None:
        self.problems.append((word.position, message))

    def report_unknown_values(self) -> None:
        wrong = {position for position, _ in self.problems}
        for name, flag in self.flags.items():
            if flag.known or name == "config":
                continue
            raw = (flag.raw or "")[:80]
            fact = "model" if name == "model" else f"engine.flags.{name}"
            variable = _variable(raw)
            if variable:
                reason = f"{raw} is not expanded"
                remedy = f"define {variable} in the container's env, or write --{name} with its value"
            elif "{{" in raw or flag.value_position not in wrong:
                reason, remedy = f"{raw or 'its value'} is not expanded", f"write --{name} with its value"
            else:
                reason, remedy = f"{raw!r} is no value of --{name}", f"correct the value of --{name}"
            if name == "model":
                remedy = "annotate the object: planner/model: ORG/NAME"
            self.unknown.append(Unknown(fact, reason, remedy, flag.value_position or flag.position))

    def model_fact(self, version: str) -> Fact[str] | None:
        """The model: the first positional, else ``--model``, else the release's own default."""
        word = self.model
        if word is not None and "model" not in self.flags:
            if word.known:
                return Fact(word.text, _word_provenance(word))
            self.unknown.append(
                Unknown(
                    "model",
                    f"{word.text[:80]} is not expanded",
                    "annotate the object: planner/model: ORG/NAME",
                    word.position,
                )
            )
            return None
        flag = self.flags.get("model")
        if word is not None and flag is not None and word.known:
            # Whatever `vllm serve X --model Y` would do in this release, X is what its author meant to serve.
            return Fact(word.text, _word_provenance(word))
        if flag is not None:
            return Fact(str(flag.value), flag_provenance(flag)) if flag.known and flag.value else None
        if self.unknown_arguments:
            self.unknown.append(
                Unknown(
                    "model",
                    "it may stand in arguments that are not expanded",
                    "annotate the object: planner/model: ORG/NAME",
                )
            )
            return None
        default = "Qwen/Qwen3-0.6B" if self.version >= _QWEN_DEFAULT_SINCE else "facebook/opt-125m"
        return from_default(default, f"vLLM {version} default (no model given)")

    def environment(self) -> dict[str, Fact[str]]:
        """The variables that act as configuration, where their value is known."""
        result: dict[str, Fact[str]] = {}
        for name, variable in self.env.items():
            if not name.startswith(self.variable_prefixes) and name not in self.variables:
                continue
            if isinstance(variable, Fact):
                result[name] = variable
            elif variable.value is not None:
                result[name] = from_file(variable.value, variable.node.position)
            elif not variable.secret and name in self.memory_variables:
                self.unknown.append(
                    Unknown(
                        f"engine.env.{name}",
                        variable.reason or "its value is not in the input",
                        f"set {name} to a value",
                    )
                )
        return result


def _word_provenance(word: Word) -> Provenance:
    if word.position is None:
        return Provenance("option", "command line")
    return Provenance("file", str(word.position), word.position)


def _variable(text: str) -> str:
    """The name of the first variable in a source spelling, empty where there is none."""
    match = re.search(r"\$[({]?([A-Za-z_][A-Za-z0-9_]{0,60})", text)
    return match.group(1) if match else ""


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}.get(text.strip().lower())


def human_int(text: str) -> int:
    """An integer with an optional suffix: lower case is decimal (32k = 32000, 1.5m), upper case binary (32K = 32768).

    Raises ValueError where the text is none. Source: ``human_readable_int`` in vllm/utils/argparse_utils.py.
    """
    text = text.strip()
    match = _HUMAN_INT.fullmatch(text)
    if match:
        number, fraction, suffix = match.groups()
        power = "kmgt".index(suffix.lower()) + 1
        if suffix.islower():
            if fraction:
                return _bounded(int(float(number + fraction) * 1000**power), text)
            return _bounded(int(number) * 1000**power, text)
        if fraction:
            raise ValueError(f"no decimals with the binary suffix {suffix}; perhaps {number}{fraction}{suffix.lower()}")
        return _bounded(int(number) * 1024**power, text)
    return _integer(text)


def _integer(text: str) -> int:
    if len(text) > 40:
        raise ValueError(f"invalid int value: {text[:40]!r}…")
    try:
        return _bounded(int(text), text)
    except ValueError:
        raise ValueError(f"invalid int value: {text[:60]!r}") from None


def _bounded(value: int, text: str) -> int:
    if abs(value) > _LARGEST:
        raise ValueError(f"{text[:60]!r} is too large")
    return value


def _convert(kind: str, text: str) -> Any:
    """The typed value of one argument. Raises ValueError with a sentence for people."""
    if kind == "str":
        return text
    if text in ("", "None"):
        return None
    if kind == "int":
        return _integer(text)
    if kind == "float":
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"invalid float value: {text[:60]!r}") from None
        if not math.isfinite(value):
            raise ValueError(f"{text[:60]!r} is not a finite number")
        return value
    if kind == "human-int":
        return human_int(text)
    if kind == "human-int-auto":
        return -1 if text.strip().lower() == "auto" else human_int(text)
    if kind == "json":
        return _json(text)
    if kind == "json-or-str":
        return _json(text) if text.lstrip().startswith("{") else text
    if kind == "kvs":
        return _pairs(text)
    if kind == "optional-bool":
        if text.lower() not in ("true", "false"):
            raise ValueError(f"invalid boolean value: {text[:60]!r}")
        return text.lower() == "true"
    return text


def _json(text: str) -> Any:
    if len(text) > _LONGEST_TEXT:
        raise ValueError("JSON longer than planner reads")
    try:
        return json.loads(_expanded_numbers(text))
    except (ValueError, RecursionError) as error:
        why = getattr(error, "msg", None) or "nested too deeply"
        raise ValueError(f"invalid JSON ({why}): {text[:80]}") from None


def _expanded_numbers(text: str) -> str:
    """Bare numbers such as 80m inside JSON, written out; strings stay as they are."""
    if not re.search(r"\d[kKmMgGtT]\b", text):
        return text
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    for index in range(0, len(parts), 2):
        parts[index] = re.sub(r"\b\d{1,18}(?:\.\d{1,18})?[kKmMgGtT]\b", _expanded_number, parts[index])
    return "".join(parts)


def _expanded_number(match: re.Match[str]) -> str:
    try:
        return str(human_int(match.group()))
    except ValueError:
        return match.group()


def _json_or_text(text: str) -> Any:
    try:
        return _json(text)
    except ValueError:
        return text


def _json_or_human(text: str) -> Any:
    try:
        return _json(text)
    except ValueError:
        try:
            return human_int(text)
        except ValueError:
            return text


def _pairs(text: str) -> dict[str, int]:
    """``image=16,video=2`` as old releases spell ``--limit-mm-per-prompt``."""
    if text.lstrip().startswith("{"):
        value = _json(text)
        if isinstance(value, dict):
            return value
    result: dict[str, int] = {}
    for item in text.split(","):
        key, equals, number = item.partition("=")
        if not equals:
            raise ValueError(f"expected key=number, not {item[:40]!r}")
        result[key.strip().lower()] = _integer(number.strip())
    return result


def _merge(tree: dict[str, Any], update: dict[str, Any]) -> None:
    """Merge ``update`` into ``tree``: objects merged, lists joined, the rest replaced. ``update`` is one path deep."""
    while True:
        ((key, value),) = update.items()
        old = tree.get(key)
        if isinstance(value, dict) and len(value) == 1 and isinstance(old, dict):
            tree, update = old, value
            continue
        if isinstance(value, list) and isinstance(old, list):
            tree[key] = old + value
        elif isinstance(value, dict) and isinstance(old, dict):
            old.update(value)
        else:
            tree[key] = value
        return
