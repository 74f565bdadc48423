"""Start-up logs that somebody reduced to facts: one JSON object per line, with the configuration and what the engine printed.

Fields: ``engine_version``, ``model``, ``gpu``, ``gpu_memory_gib``, ``tp``, ``pp``, ``dp``, ``ep``, ``gpu_memory_utilization``,
``max_model_len``, ``max_num_seqs``, ``max_num_batched_tokens``, ``dtype``, ``kv_cache_dtype``, ``enforce_eager``, ``flags``
and ``speculative`` (text), and printed values in GiB: ``weights_gib``, ``peak_activation_gib``, ``non_torch_gib``, ``kv_available_gib``,
``graph_capture_gib``; ``outcome``. Any of them may be null.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import EffectiveConfig
from planner.memory.budget import MemoryBudget
from planner.models.architecture import ModelArchitecture
from planner.provenance import Fact, Provenance
from planner.units import GIB

#: Fields that stand for a flag of their own.
_FIELD_FLAGS = {
    "tp": "--tensor-parallel-size",
    "pp": "--pipeline-parallel-size",
    "dp": "--data-parallel-size",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "max_model_len": "--max-model-len",
    "max_num_seqs": "--max-num-seqs",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "kv_cache_dtype": "--kv-cache-dtype",
}
#: Further flags that decide memory, taken from the text of the command where it is a command or a dict of arguments.
_TEXT_FLAGS = frozenset(
    (
        "async-scheduling",
        "attention-backend",
        "block-size",
        "compilation-config",
        "cpu-offload-gb",
        "decode-context-parallel-size",
        "disable-custom-all-reduce",
        "enable-eplb",
        "enable-lora",
        "enable-prefix-caching",
        "kv-cache-memory-bytes",
        "language-model-only",
        "limit-mm-per-prompt",
        "mamba-ssm-cache-dtype",
        "max-cudagraph-capture-size",
        "max-lora-rank",
        "max-loras",
        "mm-encoder-tp-mode",
        "no-async-scheduling",
        "no-enable-prefix-caching",
        "num-gpu-blocks-override",
        "skip-mm-profiling",
        "speculative-config",
    )
)
#: Variables that decide memory, where the command text sets them.
_TEXT_VARIABLES = ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_USE_V1")
_LONGEST_TEXT = 10_000


class Printed(NamedTuple):
    """What the engine printed, in GiB; None where it did not."""

    weights: float | None
    activations: float | None
    non_torch: float | None
    available: float | None
    graphs: float | None


class Record(NamedTuple):
    """One log with the configuration that the planner makes of it.

    ``accelerator`` is None where the log does not name it; its terms can still be compared. ``device`` is the device memory
    in GiB: printed where it agrees with the catalog, else the catalog's (0: not known); ``device_known``: it was printed.
    ``version_assumed``: the log states no release; ``fork``: it is of a build with kernels and buffers of its own.
    """

    id: str
    model: ModelArchitecture
    config: EffectiveConfig
    accelerator: Accelerator | None
    printed: Printed
    outcome: str
    device: float
    device_known: bool
    version_assumed: bool
    fork: bool = False

    @property
    def of_release(self) -> bool:
        """Whether the log is of a known release of the engine, so that it says something about that release."""
        return not self.version_assumed and not self.fork

    @property
    def overhead(self) -> float | None:
        """GiB between the engine's share and weights + cache: everything that it charges beside the weights. None where that
        is not known, or negative, which no one start can print."""
        if self.printed.available is None or self.printed.weights is None or not self.device:
            return None
        share = self.config.gpu_memory_utilization.value * self.device
        rest = share - self.printed.weights - self.printed.available
        return rest if rest >= 0 else None

    def budget(self) -> MemoryBudget | None:
        """The planner's budget for this start, None where the log names no device. Raises what ``vllm_budget`` raises."""
        from planner.memory.vllm_budget import vllm_budget

        if self.accelerator is None:
            return None
        return vllm_budget(
            self.model, self.config, self.accelerator, capacity=False, version_assumed=self.version_assumed
        )


def read(path: Path) -> Iterator[Record]:
    """The records of a file that name a model that the planner knows, and a device that it knows or none.

    Raises OSError where the file cannot be read and ValueError (with the line) where a line is no JSON object.
    """
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path.name}:{number}: not JSON: {error}") from None
        if not isinstance(case, dict):
            raise ValueError(f"{path.name}:{number}: a JSON object is wanted")
        record = record_of(case)
        if record is not None:
            yield record


def record_of(case: dict[str, Any]) -> Record | None:
    """One case, None where its engine or model is not known to the planner, or its device is named but not known."""
    from planner.accelerators.catalog import lookup
    from planner.engines.version import NEWEST_VLLM
    from planner.engines.vllm import parse_argv
    from planner.engines.vllm_defaults import effective
    from planner.models.architecture import UnknownModel
    from planner.models.resolve import resolve
    from planner.provenance import assumed

    model_name, gpu = case.get("model"), case.get("gpu")
    if not isinstance(model_name, str) or case.get("engine") not in (None, "vllm"):
        return None
    accelerator = lookup(gpu) if isinstance(gpu, str) else None
    if accelerator is None and (gpu or str(case.get("gpu_as_stated") or "").startswith("AMD")):
        return None
    if accelerator is not None and accelerator.vendor not in ("nvidia", "amd"):
        return None
    try:
        model = resolve(model_name).architecture
    except UnknownModel:
        return None
    release = re.match(r"v?(\d+\.\d+(?:\.\d+)?(?:rc\d+|\.post\d+)?)", str(case.get("engine_version") or ""))
    version = (
        Fact(release.group(1), Provenance("given", "the log"))
        if release
        else assumed(NEWEST_VLLM, "the log states no release")
    )
    engine = parse_argv(
        arguments(case),
        version=version,
        model=Fact(model_name, Provenance("given", "the log")),
        env=_variables(str(case.get("flags") or "")[:_LONGEST_TEXT]),
        platform="rocm" if accelerator is not None and accelerator.vendor == "amd" else "cuda",
    )
    config = effective(engine, model, accelerator, None)
    known = _number(case, "gpu_memory_gib")
    expected = accelerator.memory.expected / GIB if accelerator is not None else 0.0
    plausible = known is not None and (not expected or abs(known - expected) <= 0.01 * expected)
    return Record(
        id=str(case.get("id", "")),
        model=model,
        config=config,
        accelerator=accelerator,
        printed=Printed(
            _number(case, "weights_gib"),
            _number(case, "peak_activation_gib"),
            _number(case, "non_torch_gib"),
            _number(case, "kv_available_gib"),
            _number(case, "graph_capture_gib"),
        ),
        outcome=str(case.get("outcome") or ""),
        device=known if known is not None and plausible else expected,
        device_known=plausible,
        version_assumed=engine.version_assumed,
        fork="fork" in str(case.get("engine_version") or ""),
    )


def arguments(case: dict[str, Any]) -> list[str]:
    """The engine's command line of a case: its fields, then what else its command text says about memory."""
    words: list[str] = []
    for key, flag in _FIELD_FLAGS.items():
        value = case.get(key)
        if value in (None, "") or (key in ("tp", "pp", "dp") and value == 1):
            continue
        text = re.sub(r"\s*\(.*\)$", "", str(value))  # "auto (bf16)" → "auto"
        words += [flag, {"bf16": "bfloat16", "fp16": "float16"}.get(text, text)]
    if case.get("enforce_eager") is True:
        words.append("--enforce-eager")
    if case.get("ep"):
        words.append("--enable-expert-parallel")
    drafted = re.match(r"mtp\D{0,40}(\d{1,2})\b", str(case.get("speculative") or "").lower())
    if drafted:
        options = {"method": "mtp", "num_speculative_tokens": int(drafted.group(1))}
        words += ["--speculative-config", json.dumps(options)]
    return words + _from_text(str(case.get("flags") or "")[:_LONGEST_TEXT])


def _from_text(text: str) -> list[str]:
    """Flags of ``_TEXT_FLAGS`` in a command line or in the engine's "non-default args: {…}"."""
    start = text.find("{")
    if text.startswith("non-default args") and start >= 0:
        try:
            given = ast.literal_eval(text[start:])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return []
        pairs = (
            [(str(name).replace("_", "-"), value) for name, value in given.items()] if isinstance(given, dict) else []
        )
        words = []
        for name, value in pairs:
            if name in _TEXT_FLAGS and value is not False and value is not None:
                words += [f"--{name}"] if value is True else [f"--{name}", json.dumps(value)]
        return words
    try:
        parts = shlex.split(text)
    except ValueError:
        return []
    words = []
    for index, part in enumerate(parts):
        name, _, inline = part.partition("=")
        if not name.startswith("--") or name[2:].replace("_", "-") not in _TEXT_FLAGS:
            continue
        follows = parts[index + 1] if index + 1 < len(parts) else "--"
        words.append(name)
        if inline or not follows.startswith("--"):
            words.append(inline or follows)
    return words


def _variables(text: str) -> dict[str, Fact[str]]:
    """Variables of ``_TEXT_VARIABLES`` that a command text sets (``NAME=VALUE``)."""
    found = {}
    for name in _TEXT_VARIABLES:
        match = re.search(rf"\b{name}=([^\s;,'\"]{{1,20}})", text)
        if match:
            found[name] = Fact(match.group(1), Provenance("given", "the log"))
    return found


def _number(case: dict[str, Any], key: str) -> float | None:
    value = case.get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
