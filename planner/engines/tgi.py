"""The words and variables of a TGI start → ``EngineConfig``.

Source: ``struct Args`` of the launcher of Hugging Face's text-generation-inference, 0.9.0 to 3.3.7. Every argument is also an
environment variable in capitals (``MAX_TOTAL_TOKENS``), which the command line overrides. Tags name a series as often as a
release (``2.4``), so that a release counts from the first of its series on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from planner.engines.config import CommandLine, EngineConfig, FlagValue, Word
from planner.engines.version import version_key
from planner.engines.vllm import _OTHER_VARIABLES, _Arg, _convert, _Reader, _variable, flag_provenance, with_model
from planner.engines.vllm_flag_table import FlagTable
from planner.provenance import Fact, Position, Unknown

if TYPE_CHECKING:
    from planner.documents.node import Node

#: The newest release, what an unpinned image is assumed to hold; the project is in maintenance since.
NEWEST_TGI = "3.3.7"
#: Variables that are no arguments and that the budget reads: ``globals.py`` of the server, ``resolve_attention``.
_MEMORY_VARIABLES = frozenset(
    ("ATTENTION", "FLASH_DECODING", "PREFILL_CHUNKING", "PREFIX_CACHING", "TGI_WIGGLE_ROOM", "USE_PREFIX_CACHING")
)
_REMEDY = "annotate the object: planner/model: ORG/NAME"

_KINDS = {
    "int": "validation-workers num-shard speculate max-concurrent-requests max-best-of max-stop-sequences max-top-n-tokens"
    " max-input-tokens max-total-tokens max-batch-prefill-tokens max-batch-total-tokens max-waiting-tokens max-batch-size"
    " port prometheus-port master-port max-client-batch-size payload-limit graceful-termination-timeout",
    "float": "waiting-served-ratio cuda-memory-fraction rope-factor watermark-gamma watermark-delta",
    "str": "model-id revision dtype kv-cache-dtype cuda-graphs hostname shard-uds-path master-addr"
    " huggingface-hub-cache weights-cache-override rope-scaling otlp-endpoint otlp-service-name cors-allow-origin api-key"
    " ngrok-authtoken ngrok-edge tokenizer-config-path lora-adapters usage-stats",
    "optional-bool": "sharded",
    "true": "trust-remote-code disable-custom-kernels json-output ngrok disable-grammar-support env enable-prefill-logprobs"
    " disable-usage-stats disable-crash-reports enable-cuda-graphs",
}
#: The series that brought an argument, and the one that no longer has it. Such as were there in 0.9 are not listed.
_PERIODS = {
    "api-key": ("2.3", ""),
    "cuda-graphs": ("2.0", ""),
    "disable-crash-reports": ("2.2", "2.3"),
    "disable-grammar-support": ("1.4", ""),
    "disable-usage-stats": ("2.2", "2.3"),
    "enable-cuda-graphs": ("1.4", "2.0"),
    "enable-prefill-logprobs": ("3.0", ""),
    "graceful-termination-timeout": ("3.2", ""),
    "kv-cache-dtype": ("2.4", ""),
    "lora-adapters": ("2.1", ""),
    "max-batch-size": ("1.4", ""),
    "max-client-batch-size": ("2.0", ""),
    "max-top-n-tokens": ("1.0", ""),
    "otlp-service-name": ("2.1", ""),
    "payload-limit": ("2.4", ""),
    "prometheus-port": ("3.3", ""),
    "rope-factor": ("1.0", ""),
    "rope-scaling": ("1.0", ""),
    "speculate": ("1.3", ""),
    "tokenizer-config-path": ("1.4", ""),
    "usage-stats": ("2.3", ""),
}
_ALIASES = {"max-input-tokens": ["--max-input-length"], "port": ["-p"], "env": ["-e"]}
_CHOICES = {
    "dtype": ["bfloat16", "float16"],
    "kv-cache-dtype": ["fp8_e4m3fn", "fp8_e5m2"],
    "rope-scaling": ["dynamic", "linear"],
    "usage-stats": ["no-stack", "off", "on"],
}
#: Methods of ``--quantize`` (``enum Quantization``) by the series that brought them.
_QUANTIZE = (
    ("", ("bitsandbytes", "gptq")),
    ("1.0", ("bitsandbytes-fp4", "bitsandbytes-nf4")),
    ("1.1", ("awq", "eetq")),
    ("2.0", ("fp8",)),
    ("2.1", ("exl2", "marlin")),
    ("2.4", ("compressed-tensors",)),
)


@lru_cache(maxsize=64)
def flag_table(version: tuple[int, ...]) -> FlagTable:
    """The launcher's arguments in a release."""
    return FlagTable(version, _document())


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    flags: dict[str, list[dict[str, Any]]] = {}
    for kind, names in _KINDS.items():
        for name in names.split():
            variant: dict[str, Any] = {"kind": kind}
            if name in _ALIASES:
                variant["aliases"] = _ALIASES[name]
            if name in _CHOICES:
                variant["choices"] = _CHOICES[name]
            for bound, series in zip(("since", "until"), _PERIODS.get(name, ("", "")), strict=True):
                if series:
                    variant[bound] = series
            flags[name] = [variant]
    methods: list[str] = []
    flags["quantize"] = []
    for since, added in _QUANTIZE:
        methods = sorted([*methods, *added])
        bounds = {"since": since} if since else {}
        if since:
            flags["quantize"][-1]["until"] = since
        flags["quantize"].append({"kind": "str", "choices": methods, **bounds})
    return {"renamed": {"enable-cuda-graphs": "cuda-graphs", "disable-usage-stats": "usage-stats"}, "flags": flags}


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
    """The configuration that a command line and the container's variables stand for. Never raises on any input."""
    del files
    key = version_key(version.value, NEWEST_TGI)
    reader = _TGIReader(key, flag_table(key), env or {}, {})
    start = 1 if words and words[0].text.rsplit("/", 1)[-1].startswith("text-generation-") else 0
    reader.read(list(words[start:]), False)
    return reader.config("tgi", version, image, platform, command_line)


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


class _TGIReader(_Reader):
    """The launcher's parser (clap): names are exact, values may follow ``=``."""

    variables = _OTHER_VARIABLES | _MEMORY_VARIABLES
    variable_prefixes = ()
    memory_variables = _MEMORY_VARIABLES

    def read(self, words: list[Word], serve: bool) -> None:
        """Read all arguments, then the variables that stand in for the missing ones."""
        del serve
        self.parse([_Arg(word.text, word) for word in words])
        self.take_variables()
        self.report_unknown_values()

    def take_positional(self, word: Word) -> None:
        """The launcher takes none."""
        if not word.known:
            self.unknown_words(word)
            return
        self.positionals.append(word)
        self.problem(word, f"unexpected argument {word.text[:80]!r}")

    def take_variables(self) -> None:
        """Variables named like arguments in capitals."""
        names = {name.upper().replace("-", "_"): name for name in self.table.flags}
        names["MAX_INPUT_LENGTH"] = "max-input-tokens"
        for variable, name in names.items():
            if name in self.flags or variable not in self.env or name == "env":
                continue
            value, position = _value(self.env[variable])
            if value is None:
                if name in ("model-id", "num-shard", "quantize", "max-total-tokens", "cuda-memory-fraction"):
                    self.store(FlagValue(name, None, variable, f"${variable}", position, position, False))
                continue
            if value == "":
                continue
            self.take_variable(name, variable, value, position)

    def take_variable(self, name: str, variable: str, value: str, position: Position | None) -> None:
        """One variable as its argument. Unlike on the command line a switch has a value here, and clap takes ``true`` and
        ``false`` for one, nothing else (``BoolValueParser`` of clap 4, which all releases use)."""
        spec = self.table.flags[name]
        if not spec.active:
            return
        converted: Any = None
        reason = ""
        try:
            converted = _convert("optional-bool" if spec.kind == "true" else spec.kind, value.strip())
        except ValueError as error:
            reason = str(error)
        if spec.kind in ("true", "optional-bool") and value.strip() not in ("true", "false"):
            converted, reason = (
                None,
                f"{value[:60]!r} is neither true nor false, the values of a switch that is a variable",
            )
        elif spec.choices and converted is not None and str(converted) not in spec.choices:
            reason = f"invalid choice: {value[:60]!r} (choose from {', '.join(spec.choices)})"
        if reason:
            self.problems.append((position, f"{variable}: {reason}"))
        self.store(FlagValue(name, converted, variable, value, position, position, converted is not None))

    def model_fact(self, version: str) -> Fact[str] | None:
        """``--model-id`` or MODEL_ID; the launcher's own default is a small model nobody means to serve."""
        del version
        flag = self.flags.get("model-id")
        if flag is not None and flag.known and flag.value:
            return Fact(str(flag.value), flag_provenance(flag))
        if flag is not None:
            self.unknown = [gap for gap in self.unknown if gap.fact != "engine.flags.model-id"]
            raw = (flag.raw or "")[:80]
            variable = _variable(raw)
            remedy = f"define {variable} in the container's env, or {_REMEDY}" if variable else _REMEDY
            place = flag.value_position or flag.position
            self.unknown.append(Unknown("model", f"{raw or '--model-id'} is not known", remedy, place))
        elif self.unknown_arguments:
            self.unknown.append(Unknown("model", "it may stand in arguments that are not expanded", _REMEDY))
        else:
            self.unknown.append(Unknown("model", "neither --model-id nor MODEL_ID is given", _REMEDY))
        return None


def _value(variable: Any) -> tuple[str | None, Position | None]:
    """The text of a variable (None where it is not known) and its place."""
    if isinstance(variable, Fact):
        return str(variable.value), variable.position
    place: Position | None = variable.node.position if variable.node is not None else None
    return variable.value, place
