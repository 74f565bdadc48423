"""Fits ``planner/memory/coefficients.py`` to start-up logs and shows what the fit leaves.

    python -m planner.calibration.fit LOG.jsonl … [OVERHEADS.tsv …] [--write] [--show N]

Each coefficient is a median over the logs in which its term is the one that decides, and its interval covers nine of ten of
them, widened by how exactly the logs print. Where fewer than three set-ups speak, the value stays as it is (it was worked out
from tensor sizes, or set by hand from the reference) and only the interval may grow. Nothing is fitted to single logs.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from planner.accelerators.accelerator import Accelerator
from planner.calibration.records import Record, read
from planner.memory import coefficients, runtime
from planner.memory.activations import encoder_kind, fused_experts, is_eager, phases, sampler_kind
from planner.memory.coefficients import Spread
from planner.memory.graphs import captured_graphs, counts_graphs, graph_memory, graph_surplus
from planner.memory.kv_specs import LayoutRefused
from planner.units import GIB

#: Set-ups (model and device) that a coefficient needs before its expectation moves.
_ENOUGH = 3
#: Set-ups from which on single logs at the ends may fall outside of the interval.
_MANY = 5
#: Printed weights that differ from the model's by more than this belong to another configuration than the log states.
_SAME_WEIGHTS = 0.03
#: Printed values are rounded to this many GiB, and device memory is known about as well.
_ROUNDING_GIB = 0.02
#: No coefficient is known better than this, relative to its expectation.
_LEAST_HALF_WIDTH = 0.06
#: A phase decides where it is this much larger than the others.
_DECIDES = 1.3


class Observation(NamedTuple):
    """One value of a coefficient: from which log, how far off rounding alone can put it, and of which model and device (logs
    of one set-up say one thing, however many they are)."""

    record: str
    value: float
    rounding: float
    setup: str


class Fitted(NamedTuple):
    """A coefficient before and after the fit, with the observations behind it."""

    name: str
    before: Spread
    after: Spread
    observations: tuple[Observation, ...]


class Residual(NamedTuple):
    """Predicted against printed available memory of one log, in GiB."""

    record: Record
    expected: float
    low: float
    high: float
    printed: float
    verdict: str

    @property
    def error(self) -> float:
        """Signed, relative to the printed value."""
        return (self.expected - self.printed) / abs(self.printed)

    @property
    def inside(self) -> bool:
        """Whether the printed value (two decimals) lies in the interval."""
        return self.low <= self.printed + 0.005 and self.high >= self.printed - 0.005

    @property
    def width(self) -> float:
        """Of the interval, relative to the printed value."""
        return (self.high - self.low) / abs(self.printed)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the values lie, interpolated. Raises IndexError for no values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def spread(before: Spread, observations: Sequence[Observation]) -> Spread:
    """The coefficient that the observations give: the median over set-ups, and an interval that meets eight in ten of them, each
    of which is an interval itself (what rounding leaves open is no spread of the coefficient). Of few set-ups it meets all
    logs, and with fewer than three the expectation stays, and the interval only grows."""
    if not observations:
        return before
    lows = [observation.value + observation.rounding for observation in observations]
    highs = [observation.value - observation.rounding for observation in observations]
    kinds = by_setup(observations)
    if len(kinds) < _ENOUGH:
        return max(0.0, min(before[0], *lows, before[1])), before[1], max(before[2], *highs)
    middle = quantile([observation.value for observation in kinds], 0.5)
    least = _LEAST_HALF_WIDTH * middle
    if len(kinds) < _MANY:
        return max(0.0, min(middle - least, *lows)), middle, max(middle + least, *highs)
    return (
        max(0.0, min(middle - least, quantile([o.value + o.rounding for o in kinds], 0.1))),
        middle,
        max(middle + least, quantile([o.value - o.rounding for o in kinds], 0.9)),
    )


def by_setup(observations: Sequence[Observation]) -> list[Observation]:
    """One observation for each set-up, its median: many logs of one machine are no more evidence than one."""
    setups: dict[str, list[Observation]] = defaultdict(list)
    for observation in observations:
        setups[observation.setup].append(observation)
    return [
        each[0]._replace(
            value=quantile([o.value for o in each], 0.5), rounding=quantile([o.rounding for o in each], 0.5)
        )
        for each in setups.values()
    ]


def usable(record: Record) -> bool:
    """Whether the log's printed weights are those of the configuration it states."""
    from planner.memory.weights import rank_weights

    printed = record.printed.weights
    if printed is None:
        return False
    config = record.config
    stage = config.parallel.pipeline - 1
    predicted = rank_weights(
        record.model,
        config.parallel,
        0,
        stage,
        engine_version=config.version,
        dtype=config.dtype.value,
        accelerator=record.accelerator,
        lora=config.lora,
        quantization=config.quantization,
        max_model_len=config.max_model_len.value,
        cpu_offload_gib=config.cpu_offload_gib,
        max_num_batched_tokens=config.max_num_batched_tokens.value,
        mtp=config.speculative_method == "mtp",
        towers=config.towers_loaded,
        whole_towers=config.towers_whole,
    )
    return abs(predicted.bytes.expected / GIB - printed) <= _SAME_WEIGHTS * printed


def activations_of(record: Record) -> tuple[float, float] | None:
    """(GiB of the profile run's peak, its uncertainty): printed, or what is left of the overhead without the other terms."""
    if record.printed.activations is not None:
        return record.printed.activations, 0.005
    overhead = record.overhead
    if overhead is None or not record.of_release:
        return None
    other = runtime.non_torch(record.config, record.accelerator, record.model).bytes
    known = record.printed.non_torch
    rest = known if known is not None else other.expected / GIB
    doubt = _ROUNDING_GIB + (0.0 if known is not None else (other.high - other.low) / GIB / 4)
    if counts_graphs(record.config, record.accelerator):
        graphs = graph_memory(record.model, record.config).bytes
        rest += graphs.expected / GIB
        doubt += (graphs.high - graphs.low) / GIB / 4
    if not record.device_known and record.accelerator is not None:
        memory = record.accelerator.memory
        doubt += (memory.high - memory.low) / GIB / 4
    return overhead - rest, doubt


def sampler_observations(records: Iterable[Record]) -> dict[str, list[Observation]]:
    """Bytes per sampled row and vocabulary entry, by sampler, from logs in which sampling is the peak."""
    found: dict[str, list[Observation]] = defaultdict(list)
    for record in records:
        measured = activations_of(record)
        config = record.config
        if measured is None or not record.of_release:
            continue
        if config.runner == "v0" and config.parallel.tensor > 1:
            continue  # only the first rank samples, and the log does not say whose line it is
        sizes = phases(record.model, config)
        if not sizes.entries:
            continue
        kind = sampler_kind(config)
        others = max(_forward(record, sizes.forward, sizes.experts), sizes.encoder, sizes.latent)
        if sizes.entries * coefficients.SAMPLER_BYTES[kind][0] + sizes.hidden < _DECIDES * others:
            continue
        kept = sizes.experts * coefficients.EXPERTS_KEPT[1] if config.version >= (0, 13) else 0.0
        peak = measured[0] * GIB - sizes.hidden - sizes.encoded - kept - coefficients.PROFILE_SLACK_GIB[1] * GIB
        value = peak / sizes.entries
        if kind == "torch" and (0, 8, 3) <= config.version < (0, 11, 1) and value < 24:
            kind = "flashinfer"  # these releases take it where it is installed; the two are far apart
        found[kind].append(Observation(record.id, value, measured[1] * GIB / sizes.entries, _setup(record)))
    return found


def _forward(record: Record, forward: int, experts: int) -> float:
    factor = coefficients.FORWARD_FACTOR["eager" if is_eager(record.config) else "compiled"][1]
    kernel = "fused" if fused_experts(record.model, record.config, record.accelerator) else "staged"
    return factor * forward + experts * coefficients.EXPERTS_FACTOR[kernel][1]


def _setup(record: Record) -> str:
    return f"{record.model.id} on {record.accelerator.name if record.accelerator else 'an unnamed device'}"


def forward_observations(records: Iterable[Record]) -> dict[str, list[Observation]]:
    """Peak of the forward pass over its tensor sizes, from logs of dense models in which it decides."""
    found: dict[str, list[Observation]] = defaultdict(list)
    for record in records:
        measured = activations_of(record)
        if measured is None or not record.of_release:
            continue
        sizes = phases(record.model, record.config)
        if sizes.experts or sizes.encoder or sizes.latent or not sizes.forward:
            continue
        sampling = sizes.entries * coefficients.SAMPLER_BYTES[sampler_kind(record.config)][1] + sizes.hidden
        if sizes.forward < _DECIDES * sampling:
            continue
        peak = measured[0] * GIB - coefficients.PROFILE_SLACK_GIB[1] * GIB
        kind = "eager" if is_eager(record.config) else "compiled"
        found[kind].append(
            Observation(record.id, peak / sizes.forward, measured[1] * GIB / sizes.forward, _setup(record))
        )
    return found


def encoder_observations(records: Iterable[Record]) -> dict[str, list[Observation]]:
    """Peak of the multimodal encoder over the tensor sizes of one of its layers, from logs in which it decides."""
    found: dict[str, list[Observation]] = defaultdict(list)
    for record in records:
        measured = activations_of(record)
        if measured is None or not record.of_release:
            continue
        sizes = phases(record.model, record.config)
        kind = encoder_kind(record.model)
        expected = sizes.encoder * coefficients.ENCODER_FACTOR[kind][1]
        sampling = sizes.entries * coefficients.SAMPLER_BYTES[sampler_kind(record.config)][1] + sizes.hidden
        if not sizes.encoder or expected < _DECIDES * max(sampling, _forward(record, sizes.forward, sizes.experts)):
            continue
        peak = measured[0] * GIB - coefficients.PROFILE_SLACK_GIB[1] * GIB
        found[kind].append(
            Observation(record.id, peak / sizes.encoder, measured[1] * GIB / sizes.encoder, _setup(record))
        )
    return found


def non_torch_observations(
    records: Iterable[Record], overheads: Iterable[dict[str, str]]
) -> tuple[dict[str, list[Observation]], list[Observation]]:
    """(printed non-torch memory of single GPUs by class of device, memory in use before the engine looks)."""
    from planner.accelerators.catalog import lookup

    found: dict[str, list[Observation]] = defaultdict(list)
    used: list[Observation] = []
    seen: set[str] = set()
    for record in records:
        printed = record.printed.non_torch
        if printed is None or printed < 0 or record.config.parallel.world > 1 or record.accelerator is None:
            continue
        if not record.of_release or runtime.charges_whole_device(record.config):
            continue
        seen.add(record.id)
        found[runtime.device_class(record.accelerator)].append(Observation(record.id, printed, 0.005, _setup(record)))
    for row in overheads:
        if not (row.get("engine") or "").startswith("vllm") or "ascend" in row.get("engine", ""):
            continue
        source = row.get("source") or ""
        if any(identifier and identifier in source for identifier in seen) or source.startswith("dev log"):
            continue
        value = _float(row.get("value_gib"))
        if value is None or row.get("tp") not in ("1", "", None):
            continue
        name = row.get("accelerator") or ""
        accelerator: Accelerator | None = lookup(name) if name and "card" not in name and "(" not in name else None
        if row.get("what") == "non_torch_memory" and value >= 0:
            kind = runtime.device_class(accelerator) if accelerator is not None else _class_by_size(name)
            if kind:
                found[kind].append(Observation(source[:60], value, 0.005, source))
        elif row.get("what") == "free_at_start" and (accelerator is None or not accelerator.unified):
            total = _total_in(row.get("note") or "")
            if total is not None and 0 < total - value < 2:
                used.append(Observation(source[:60], total - value, 0.005, source))
    return found, used


def _class_by_size(name: str) -> str:
    """The class of a card that a log does not name, where its size leaves no doubt: below 60 GiB nothing is a Hopper."""
    size = _float(name.split(" ")[0])
    return "ampere" if size is not None and 20 <= size < 60 else ""


def _total_in(note: str) -> float | None:
    words = note.replace("of ", "").split(" ")
    return _float(words[0]) if words and "GiB total" in note else None


def communicator_observations(
    records: Iterable[Record], overheads: Iterable[dict[str, str]]
) -> dict[str, list[Observation]]:
    """What several ranks add to the non-torch memory, by link: printed, or what is left of the overhead."""
    from planner.accelerators.catalog import lookup
    from planner.engines.version import NEWEST_VLLM, version_key

    found: dict[str, list[Observation]] = defaultdict(list)
    for row in overheads:
        value, source = _float(row.get("value_gib")), row.get("source") or ""
        ranks = row.get("tp") or ""
        named = (row.get("accelerator") or "").partition(" ")[0]
        accelerator = lookup(named) if row.get("engine") == "vllm" and row.get("what") == "non_torch_memory" else None
        if accelerator is None or value is None or not ranks.isdecimal() or source.startswith("dev log"):
            continue
        link = runtime.link_of(accelerator, int(ranks), version_key(row.get("version") or NEWEST_VLLM))
        if link:
            share = value - coefficients.NON_TORCH_GIB[runtime.device_class(accelerator)][1]
            share /= int(ranks) if link == "pcie" else 1
            found[link].append(Observation(source[:60], share, 0.01, source))
    for record in records:
        link = runtime.link_kind(record.config, record.accelerator)
        if not link or not record.of_release or record.accelerator is None:
            continue
        alone = coefficients.NON_TORCH_GIB[runtime.device_class(record.accelerator)][1]
        value, doubt = record.printed.non_torch, 0.005
        if value is None:
            overhead = record.overhead
            if overhead is None or not usable(record):
                continue
            if counts_graphs(record.config, record.accelerator):
                overhead -= graph_memory(record.model, record.config).bytes.expected / GIB
            from planner.memory.activations import profile_peak

            peak = profile_peak(record.model, record.config, record.accelerator).bytes
            if (peak.high - peak.low) > 1.1 * GIB:
                continue
            value, doubt = overhead - peak.expected / GIB, (peak.high - peak.low) / GIB / 4
        share = (value - alone) / (record.config.parallel.world if link == "pcie" else 1)
        found[link].append(Observation(record.id, share, doubt, _setup(record)))
    return found


def graph_observations(records: Iterable[Record]) -> list[tuple[Record, float, float]]:
    """(log, layers × graphs, printed GiB) of captures with a positive size, of models with attention in every layer."""
    found = []
    for record in records:
        if record.model.is_hybrid or record.model.is_sparse:
            continue
        printed, graphs = record.printed.graphs, captured_graphs(record.config)
        stated = record.accelerator is not None or record.config.max_num_batched_tokens.provenance.source == "option"
        if printed is None or printed <= 0 or not graphs or not record.of_release or not stated:
            continue
        found.append((record, float(record.model.num_layers * graphs), printed))
    return found


def fit_graphs(observations: Sequence[tuple[Record, float, float]]) -> tuple[float, float]:
    """(GiB at no graphs, GiB per layer and graph) with the least relative error: a search over sensible values, since sizes
    differ by an order of magnitude and are printed with noise of some tenths of a GiB."""
    best = (float("inf"), 0.0, 0.0)
    for base in (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3):
        for step in range(1, 41):
            slope = step * 1e-5
            misses = 0.0
            for record, work, printed in observations:
                factor = coefficients.GRAPH_RANKS_FACTOR[1] if record.config.parallel.tensor > 1 else 1.0
                predicted = (base + slope * work) * factor
                misses += abs(predicted - printed) / max(predicted, printed)
            if misses < best[0]:
                best = (misses, base, slope)
    return best[1], best[2]


def fit(records: Sequence[Record], overheads: Sequence[dict[str, str]]) -> list[Fitted]:
    """Every coefficient with enough evidence, against its present value. Units as in ``planner.memory.coefficients``."""
    good = [record for record in records if record.printed.activations is not None or usable(record)]
    results: list[Fitted] = []

    def add(name: str, before: Spread, observations: Sequence[Observation]) -> None:
        results.append(Fitted(name, before, spread(before, observations), tuple(observations)))

    samplers = sampler_observations(good)
    for kind, before in coefficients.SAMPLER_BYTES.items():
        add(f"SAMPLER_BYTES.{kind}", before, samplers.get(kind, []))
    forwards = forward_observations(good)
    for kind, before in coefficients.FORWARD_FACTOR.items():
        add(f"FORWARD_FACTOR.{kind}", before, forwards.get(kind, []))
    alone, used = non_torch_observations(records, overheads)
    for kind, before in coefficients.NON_TORCH_GIB.items():
        add(f"NON_TORCH_GIB.{kind}", before, alone.get(kind, []))
    encoders = encoder_observations(good)
    for kind, before in coefficients.ENCODER_FACTOR.items():
        add(f"ENCODER_FACTOR.{kind}", before, encoders.get(kind, []))
    links = communicator_observations(good, overheads)
    for kind, before in coefficients.COMMUNICATORS_GIB.items():
        add(f"COMMUNICATORS_GIB.{kind}", before, links.get(kind, []))
    add("CONTEXT_GIB", coefficients.CONTEXT_GIB, used)
    captures = graph_observations(records)
    if len(captures) >= _ENOUGH:
        results += _fitted_graphs(captures)
    return results


def _fitted_graphs(captures: Sequence[tuple[Record, float, float]]) -> list[Fitted]:
    """The two coefficients of the graphs; both are scaled by the ratios of nine in ten captures for the interval."""
    base, slope = fit_graphs(captures)
    ratios = []
    for record, work, printed in captures:
        predicted = base + slope * work
        if record.config.parallel.tensor > 1:
            predicted *= coefficients.GRAPH_RANKS_FACTOR[1]
        ratio = printed / predicted
        if ratio > 1:
            ratio = max(1.0, ratio / graph_surplus(record.model, record.config))
        ratios.append(Observation(record.id, ratio, 0.005 / printed, _setup(record)))
    low, high = (quantile([ratio.value for ratio in by_setup(ratios)], share) for share in (0.1, 0.9))
    scaled = [(coefficient * low, coefficient, coefficient * high) for coefficient in (base, slope)]
    return [
        Fitted("GRAPH_BASE_GIB", coefficients.GRAPH_BASE_GIB, scaled[0], ()),
        Fitted("GRAPH_PER_LAYER_GIB", coefficients.GRAPH_PER_LAYER_GIB, scaled[1], tuple(ratios)),
    ]


def residuals(records: Iterable[Record]) -> list[Residual]:
    """Predicted against printed available memory, for every log that prints it and whose cache can be laid out."""
    found = []
    for record in records:
        printed = record.printed.available
        if printed is None or printed == 0:
            continue
        try:
            budget = record.budget()
        except LayoutRefused:
            continue
        if budget is None:
            continue
        rank = budget.ranks[budget.tightest]
        available = rank.bytes("kv_available")
        found.append(
            Residual(
                record,
                available.expected / GIB,
                available.low / GIB,
                available.high / GIB,
                printed,
                budget.verdict,
            )
        )
    return found


def summary(found: Sequence[Residual]) -> str:
    """Median and 90th percentile of the relative error, share inside and median width, in one line."""
    if not found:
        return "no logs"
    errors = [abs(residual.error) for residual in found]
    inside = sum(residual.inside for residual in found) / len(found)
    return (
        f"n={len(found):3}  median {quantile(errors, 0.5):6.1%}  p90 {quantile(errors, 0.9):6.1%}  "
        f"inside {inside:4.0%}  width {quantile([r.width for r in found], 0.5):4.0%}  "
        f"bias {quantile([r.error for r in found], 0.5):+6.1%}"
    )


def grouped(found: Sequence[Residual], key: Callable[[Record], str]) -> list[tuple[str, list[Residual]]]:
    """Residuals by a property of the log, largest groups first."""
    groups: dict[str, list[Residual]] = defaultdict(list)
    for residual in found:
        groups[key(residual.record)].append(residual)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def source_text(results: Sequence[Fitted]) -> str:
    """The text of ``planner/memory/coefficients.py`` with the fitted values in place of the present ones."""
    text = Path(coefficients.__file__).read_text(encoding="utf-8")
    for result in results:
        name, _, key = result.name.partition(".")
        lines = text.split("\n")
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{name}:"))
        if key:
            at = next(i for i in range(at, len(lines)) if f'"{key}":' in lines[i])
        values = "(" + ", ".join(f"{value:.4g}" for value in result.after) + ")"
        head = f'"{key}": ' if key else f"{name}: Spread = "
        start = lines[at].index(head) + len(head)
        end = lines[at].index(")", start) + 1
        lines[at] = lines[at][:start] + values + lines[at][end:]
        text = "\n".join(lines)
    return text


def report(records: Sequence[Record], results: Sequence[Fitted], show: int) -> str:
    """Coefficients before and after, and the residuals of the available memory by device, release and kind of model."""
    lines = [
        f"logs with a known model and device: {len(records)}",
        "",
        "coefficient: before → after (low, expected, high)",
    ]
    for result in results:
        before = ", ".join(f"{value:.3g}" for value in result.before)
        after = ", ".join(f"{value:.3g}" for value in result.after)
        lines.append(f"  {result.name:28} ({before}) → ({after})  n={len(result.observations)}")
        middle = 1.0 if result.name.startswith("GRAPH") else result.after[1]
        far = sorted(result.observations, key=lambda o: -abs(o.value - middle))[:show]
        lines += [f"      {observation.value:8.3f}  {observation.record}" for observation in far]
    found = residuals(records)
    stated = [residual for residual in found if residual.record.of_release]
    lines += ["", "available memory, with the coefficients as they stand", f"  all             {summary(found)}"]
    lines.append(f"  release stated  {summary(stated)}")
    by: list[tuple[str, Callable[[Record], str]]] = [
        ("device", lambda record: record.accelerator.name if record.accelerator else ""),
        ("release", lambda record: ".".join(map(str, record.config.version[:2])) + " " + record.config.runner),
        ("ranks", lambda record: f"tp{record.config.parallel.tensor}"),
        ("model", lambda record: "experts" if record.model.is_moe else "hybrid" if record.model.is_hybrid else "dense"),
    ]
    for title, key in by:
        lines += ["", f"by {title}"]
        lines += [f"  {name:24} {summary(group)}" for name, group in grouped(found, key)]
    lines += ["", "largest errors"]
    for residual in sorted(found, key=lambda r: -abs(r.error))[: max(show, 1) * 4]:
        outside = " " if residual.inside else "!"
        lines.append(
            f"  {residual.error:+8.1%} {outside} {residual.expected:8.2f} [{residual.low:.2f}, {residual.high:.2f}] "
            f"vs {residual.printed:.2f}  {residual.verdict:12} {residual.record.id}"
        )
    return "\n".join(lines)


def read_overheads(path: Path) -> list[dict[str, str]]:
    """Rows of a table of measured overheads (accelerator, engine, tp, what, value_gib, note, source …)."""
    with path.open(encoding="utf-8", newline="") as file:
        return [dict(row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def _float(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; 2 where a file cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m planner.calibration.fit", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("logs", nargs="+", type=Path, help="JSON Lines of start-up logs; a .tsv of measured overheads")
    parser.add_argument(
        "--write", action="store_true", help="write the fitted values to planner/memory/coefficients.py"
    )
    parser.add_argument("--show", type=int, default=3, help="observations to list per coefficient, furthest first")
    options = parser.parse_args(argv)
    records: list[Record] = []
    overheads: list[dict[str, str]] = []
    try:
        for path in options.logs:
            if path.suffix == ".tsv":
                overheads += read_overheads(path)
            else:
                records += list(read(path))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    results = fit(records, overheads)
    print(report(records, results, options.show))
    if options.write:
        Path(coefficients.__file__).write_text(source_text(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
