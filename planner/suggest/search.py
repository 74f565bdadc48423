"""The search for a new deployment: the fewest GPUs on which a workload keeps its progress reserve.

Layouts are tried from the smallest engine copy upwards. For each, the fewest replicas follow from what one copy serves
with its settings at their most generous (largest safe utilization, smallest batch, graphs or none), of which the mildest
that still serve are then chosen. What one copy serves falls as ``max-num-seqs`` rises, since buffers and graphs are sized
for it, so that a copy for one request bounds every other: layouts that cannot win cost one or two plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from planner.engines.version import parse_version
from planner.record import NamedTuple
from planner.suggest.configuration import CAPTURE_SIZE_SINCE, Knobs, Question, plan_of, settled
from planner.suggest.evaluate import (
    MOST_UTILIZATION,
    Judge,
    Judged,
    utilization_limit,
    watermark_for,
)
from planner.suggest.layouts import MOST_GPUS, MOST_PODS, NODES_SINCE, Layout, NodeSize, layouts
from planner.units import ceil_div

#: Batches that are tried below the engine's default, tokens a step.
_BATCHES = (4096, 2048, 1024, 512)
#: Layouts with equally many GPUs whose settings are worked out, and copies of other sizes that are shown.
_MOST_TIES, _MOST_OTHERS = 4, 2
#: No share of a device below this is tried.
_LEAST_PERCENT = 50
#: Watermarks that are tried, each larger than the one before.
_MOST_WATERMARKS = 4
#: From the mildest to the one that costs the most speed.
_GRAPHS = ("all", "few", "none")


class Choice(NamedTuple):
    """A configuration that serves the workload. ``requests``: of one copy at a time; ``judged``: its plan; ``others``: the
    same layout with no more sequences than those, then with the smallest share of the device that serves them, worked out
    when asked for."""

    layout: Layout
    knobs: Knobs
    replicas: int
    requests: int
    judged: Judged
    others: tuple[Callable[[], Choice], ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.layout.gpus * self.replicas

    @property
    def rank(self) -> tuple[int, ...]:
        """Smaller is better: GPUs, then one pod before several, graphs before none, little copies before large ones."""
        return (
            self.gpus,
            self.layout.pods > 1,
            _GRAPHS.index(self.knobs.graphs),
            self.layout.gpus,
            self.layout.pods,
            self.layout.pipeline,
        )


class _Candidate(NamedTuple):
    """A layout with the fewest replicas of it that serve, before its settings are chosen."""

    layout: Layout
    replicas: int
    requests: int

    @property
    def gpus(self) -> int:
        return self.layout.gpus * self.replicas

    @property
    def rank(self) -> tuple[int, ...]:
        """As ``Choice.rank``, without what settings decide."""
        layout = self.layout
        return (self.gpus, layout.pods > 1, layout.gpus, layout.pods, layout.pipeline)


class Attempt(NamedTuple):
    """A layout that serves no request, and why."""

    layout: Layout
    reason: str


class Found(NamedTuple):
    """``choices``: working configurations, best first; ``attempts``: layouts that do not work, smallest first.
    ``node``: GPUs of a node."""

    choices: tuple[Choice, ...]
    attempts: tuple[Attempt, ...]
    node: NodeSize


class _Explored(NamedTuple):
    """What a search has found before settings are chosen: ``best``: the fewest GPUs, 0 where nothing works."""

    seeker: _Seeker
    candidates: list[_Candidate]
    attempts: list[Attempt]
    best: int


def search(
    question: Question,
    in_flight: int,
    node: NodeSize,
    *,
    most_gpus: int = 0,
    most_pods: int = MOST_PODS,
    alternatives: bool = True,
    cache_dtype: str = "",
) -> Found:
    """The configurations on the fewest GPUs for ``in_flight`` requests at a time, and the next best copies of other sizes.

    ``most_gpus``: no more than these in all (0: as many as it takes, in copies of up to ``MOST_GPUS``). ``most_pods``: of
    one copy. ``cache_dtype``: ``--kv-cache-dtype`` of every configuration. Pure: reads the catalog, nothing else.
    """
    seeker, candidates, attempts, best = _explore(question, in_flight, node, most_gpus, most_pods, cache_dtype)
    choices = _settled(seeker, [candidate for candidate in candidates if candidate.gpus == best])
    if alternatives and choices:
        # Where a copy spans pods, what one pod a copy would take is worth knowing.
        spans = choices[0].layout.pods > 1
        larger = [one for one in candidates if one.gpus > best and not (spans and one.layout.pods > 1)]
        found = [*map(seeker.settle, larger[:1]), *_others(seeker, choices[0], node, most_gpus)]
        choices += sorted({(one.layout, one.replicas): one for one in found}.values(), key=lambda choice: choice.rank)
    return Found(tuple(choices), tuple(attempts), node)


def fewest_gpus(
    question: Question,
    in_flight: int,
    node: NodeSize,
    most_gpus: int,
    most_pods: int = MOST_PODS,
    cache_dtype: str = "",
) -> int:
    """The number of GPUs that ``search`` would find, at most ``most_gpus``; 0 where that is not enough."""
    explored = _explore(question, in_flight, node, most_gpus, most_pods, cache_dtype)
    return explored.best if explored.candidates else 0


def _explore(
    question: Question, in_flight: int, node: NodeSize, most_gpus: int, most_pods: int, cache_dtype: str
) -> _Explored:
    """Every layout that could be the best, from the smallest copy upwards."""
    seeker = _Seeker(question, in_flight, cache_dtype)
    pods = max(1, most_pods) if parse_version(question.version.value) >= NODES_SINCE else 1
    limit = min(most_gpus or MOST_GPUS, MOST_GPUS, node.gpus * pods)
    candidates: list[_Candidate] = []
    attempts: list[Attempt] = []
    best = most_gpus
    enough = seeker.enough_for_weights()
    if enough > 1:
        attempts.append(seeker.too_few(min(enough - 1, limit)))
    for gpus in range(enough, limit + 1):
        if best and gpus > best:
            break
        for layout in seeker.layouts(gpus, node.gpus, pods):
            outcome = seeker.fewest(layout, best // gpus if best else 0)
            if isinstance(outcome, Attempt):
                attempts.append(outcome)
            elif outcome is not None:
                candidates.append(outcome)
                best = min(best or outcome.gpus, outcome.gpus)
    candidates.sort(key=lambda candidate: candidate.rank)
    return _Explored(seeker, candidates, attempts, candidates[0].gpus if candidates else 0)


def _settled(seeker: _Seeker, ties: list[_Candidate]) -> list[Choice]:
    """Settings for layouts that take equally many GPUs, best first: no more than it takes to find one with all graphs."""
    choices: list[Choice] = []
    for candidate in ties[:_MOST_TIES]:
        choices.append(seeker.settle(candidate))
        if choices[-1].knobs.graphs == "all":
            break
    return sorted(choices, key=lambda choice: choice.rank)


def _others(seeker: _Seeker, best: Choice, node: NodeSize, most_gpus: int) -> list[Choice]:
    """What copies of other common sizes would take: the next larger ones on one node, and whole nodes for a copy that
    spans several."""
    sizes = [size for size in (1, 2, 4, 8, 16) if size <= node.gpus and size != best.layout.gpus]
    sizes = [size for size in sizes if size > best.layout.gpus or best.replicas > 1]
    layouts = [(size, 1) for size in sizes]
    if best.layout.pods > 1:
        layouts = [(node.gpus * best.layout.pods, best.layout.pods)]
    found: list[Choice] = []
    for size, pods in layouts:
        if len(found) == _MOST_OTHERS or (most_gpus and size > most_gpus) or size == best.layout.gpus:
            break
        for layout in seeker.layouts(size, node.gpus, pods):
            outcome = seeker.fewest(layout, 0)
            if isinstance(outcome, _Candidate):
                found.append(seeker.settle(outcome))
                break
    return sorted(found, key=lambda choice: choice.rank)


class _Seeker:
    """One search: remembers every configuration that it has judged."""

    def __init__(self, question: Question, in_flight: int, cache_dtype: str) -> None:
        self.question = question
        self.in_flight = max(1, in_flight)
        self.cache_dtype = cache_dtype
        self._judge = Judge()
        self._judged: dict[tuple[Layout, Knobs], Judged] = {}
        self._indivisible: dict[tuple[int, bool], bool] = {}
        self._limits: dict[tuple[Layout, Knobs], float] = {}
        self._first = settled(question, Layout(1), self._knobs(1))
        self._shares_fixed = bool({"gpu-memory-utilization", "kv-cache-memory-bytes"} & question.fixed_names)
        few = parse_version(question.version.value) >= CAPTURE_SIZE_SINCE
        chosen = question.fixed_names & {
            "enforce-eager",
            "compilation-config",
            "max-cudagraph-capture-size",
            "cudagraph-capture-sizes",
        }
        self._graphs = ("all",) if chosen else tuple(kind for kind in _GRAPHS if kind != "few" or few)

    def enough_for_weights(self) -> int:
        """The fewest GPUs of one copy that could hold the weights, none of them twice, in the largest share of a device."""
        weights, room = self._weights()
        return max(1, ceil_div(weights, room)) if room else 1

    def too_few(self, gpus: int) -> Attempt:
        """The attempt that stands for all copies of at most ``gpus`` GPUs, which cannot hold the weights."""
        from planner.units import format_gib

        weights, room = self._weights()
        here = f"{gpus} GPU{'s' if gpus > 1 else ''} ha{'ve' if gpus > 1 else 's'}"
        share = f"{gpus} × {format_gib(room)}" if gpus > 1 else format_gib(room)
        return Attempt(Layout(1, gpus_per_pod=gpus), f"weights of {format_gib(weights)}; {here} {share} for the engine")

    def _weights(self) -> tuple[int, int]:
        """(bytes of the whole model at the least, bytes of a device that an engine may take)."""
        budget = self.judge(Layout(1), self._knobs(1)).plan.budget
        if budget is None or not budget.ranks:
            return 0, 0
        rank = budget.ranks[0]
        shares = self._shares_fixed
        most = rank.bytes("device").high if shares else int(rank.bytes("device").high * MOST_UTILIZATION)
        return rank.bytes("weights").low, most

    def layouts(self, gpus: int, node: int, most_pods: int) -> Iterator[Layout]:
        """The layouts of a copy of this size that the engine does not refuse, whole experts where cut ones are refused."""
        question = self.question
        model = self._first.model
        if model is None:
            return
        for layout in layouts(model, gpus, node, most_pods):
            if self._differs_from_fixed(layout):
                continue
            if not self._refused(layout):
                yield layout
            elif model.is_moe and layout.tensor > 1 and "enable-expert-parallel" not in question.fixed_names:
                whole = layout._replace(expert=True)
                if not self._refused(whole):
                    yield whole

    def _differs_from_fixed(self, layout: Layout) -> bool:
        """Whether the user's own parallel sizes are others."""
        config, names = self._first.effective, self.question.fixed_names
        if config is None:
            return False
        return ("tensor-parallel-size" in names and layout.tensor != config.parallel.tensor) or (
            "pipeline-parallel-size" in names and layout.pipeline != config.parallel.pipeline
        )

    def _refused(self, layout: Layout) -> bool:
        """Whether a rule says that the ranks cannot share something (heads, blocks of scales), or the stages the model."""
        model = self._first.model
        if layout.pipeline > 1 and model is not None:
            from planner.engines.architectures import stages_since

            release = parse_version(self.question.version.value)
            if stages_since("vllm", model.architecture, release) is not None:
                return True
        if layout.tensor == 1:
            return False
        from planner.facts.parallel import parallel_facts

        key = (layout.tensor, layout.expert)
        if key not in self._indivisible:
            plan = settled(self.question, layout, self._knobs(1))
            self._indivisible[key] = bool(parallel_facts(plan, {}).get("indivisible"))
        return self._indivisible[key]

    def judge(self, layout: Layout, knobs: Knobs) -> Judged:
        """The configuration's plan and what it serves."""
        key = (layout, knobs)
        if key not in self._judged:
            self._judged[key] = self._judge(plan_of(self.question, layout, knobs))
        return self._judged[key]

    def _knobs(self, sequences: int) -> Knobs:
        return Knobs(sequences, cache_dtype=self.cache_dtype)

    # ---- replicas -----------------------------------------------------------------------------------------------

    def fewest(self, layout: Layout, most_replicas: int) -> _Candidate | Attempt | None:
        """The fewest replicas of a layout that serve with some settings; None where it takes more than ``most_replicas``
        (0: any number), an attempt where no number serves."""
        least = ceil_div(self.in_flight, most_replicas) if most_replicas else 1
        bounds = []
        for knobs in self._extremes(layout, 1):
            bounds.append(self.judge(layout, knobs))
            if bounds[-1].keeps(least):
                break
        else:
            one = next((bound for bound in bounds if bound.keeps(1)), None)
            reasons = [bound.reason or _too_small(bound) for bound in bounds]
            return Attempt(layout, reasons[-1]) if one is None else None
        low = ceil_div(self.in_flight, bounds[-1].most)
        replicas = self._replicas(layout, low, most_replicas)
        # The bound is that of one kind of graphs; the other may serve more.
        while replicas == low > 1 and self._serves(layout, ceil_div(self.in_flight, low - 1)):
            replicas = low = low - 1
        return _Candidate(layout, replicas, ceil_div(self.in_flight, replicas)) if replicas else None

    def settle(self, candidate: _Candidate) -> Choice:
        """The mildest settings of a candidate."""
        layout, replicas, requests = candidate
        mildest = self._mildest(layout, requests)
        knobs = self._with_reserve(layout, mildest, requests)

        def chosen(chosen_knobs: Knobs) -> Choice:
            return Choice(layout, chosen_knobs, replicas, requests, self._whole(layout, chosen_knobs))

        others: list[Callable[[], Choice]] = [] if knobs == mildest else [lambda: chosen(mildest)]
        if not self._shares_fixed:
            others.append(lambda: chosen(self._smallest_share(layout, mildest, requests)))
        return chosen(knobs)._replace(others=tuple(others))

    def _whole(self, layout: Layout, knobs: Knobs) -> Judged:
        return self._judge(plan_of(self.question, layout, knobs, capacity=True))

    def _replicas(self, layout: Layout, low: int, most: int) -> int:
        """The fewest replicas, at least ``low``, whose share of the requests one copy serves; 0 where it takes more than
        ``most`` (0: any number)."""
        if self._serves(layout, ceil_div(self.in_flight, low)):
            return low
        failing, serving = low, 0
        step = 1
        while not serving:
            candidate = failing + step
            if most and failing >= most:
                return 0
            if candidate >= self.in_flight:
                # One request a copy is what gave the bound.
                serving = self.in_flight
            elif self._serves(layout, ceil_div(self.in_flight, candidate)):
                serving = candidate
            else:
                failing, step = candidate, 2 * step
        while serving - failing > 1:
            middle = (failing + serving) // 2
            if self._serves(layout, ceil_div(self.in_flight, middle)):
                serving = middle
            else:
                failing = middle
        return serving if not most or serving <= most else 0

    def _serves(self, layout: Layout, requests: int) -> bool:
        return any(self.judge(layout, knobs).serves(requests) for knobs in self._extremes(layout, requests))

    def _extremes(self, layout: Layout, sequences: int) -> Iterator[Knobs]:
        """The settings with the largest cache: eager for most releases, with graphs where eager activations cost more."""
        batch = self._batches(layout, sequences)[-1]
        for graphs in (self._graphs[-1], *self._graphs[:1]):
            knobs = self._knobs(sequences)._replace(batched=batch, graphs=graphs)
            yield knobs._replace(utilization=self._utilizations(layout, knobs)[-1])

    # ---- settings -----------------------------------------------------------------------------------------------

    def _batches(self, layout: Layout, sequences: int) -> list[int]:
        """Tokens a step, the engine's default first; 0 where the user has fixed them."""
        if "max-num-batched-tokens" in self.question.fixed_names:
            return [0]
        config = settled(self.question, layout, self._knobs(sequences)).effective
        if config is None:
            return [0]
        default = max(config.max_num_batched_tokens.value, sequences)
        if not config.chunked_prefill.value:
            return [max(default, self.question.length)]
        return [default, *(size for size in _BATCHES if sequences <= size < default)]

    def _utilizations(self, layout: Layout, knobs: Knobs) -> list[float]:
        """The default share where that is safe, and the largest safe one; 0 where the user has fixed it."""
        if self._shares_fixed:
            return [0.0]
        config = self._first.effective
        default = config.gpu_memory_utilization.value if config else 0.9
        most = self._largest_share(layout, knobs)
        if most <= 0:
            return [default]
        return [most] if most <= default else [default, most]

    def _largest_share(self, layout: Layout, knobs: Knobs) -> float:
        if (layout, knobs) not in self._limits:
            self._limits[layout, knobs] = utilization_limit(settled(self.question, layout, knobs))
        return self._limits[layout, knobs]

    def _mildest(self, layout: Layout, requests: int) -> Knobs:
        """The settings that serve and change the least: graphs before none, the default batch before smaller ones, the
        default share before a larger one."""
        for graphs in self._graphs:
            for batch in self._batches(layout, requests):
                base = self._knobs(requests)._replace(batched=batch, graphs=graphs)
                shares = self._utilizations(layout, base)
                for share in shares:
                    knobs = base._replace(utilization=share)
                    if self.judge(layout, knobs).serves(requests):
                        return self._least_share(layout, knobs, shares[0], requests)
        # The extremes that serve are among these, in another order of graphs.
        return next(knobs for knobs in self._extremes(layout, requests) if self.judge(layout, knobs).serves(requests))

    def _least_share(self, layout: Layout, knobs: Knobs, default: float, requests: int) -> Knobs:
        """The smallest share above the default that still serves: what stays outside is a reserve of bytes."""
        return self._share_above(layout, knobs, round(100 * default), requests)

    def _smallest_share(self, layout: Layout, knobs: Knobs, requests: int) -> Knobs:
        """The same with the smallest share of the device that serves, for what lives outside of it."""
        return self._share_above(layout, knobs, _LEAST_PERCENT, requests)

    def _share_above(self, layout: Layout, knobs: Knobs, low: int, requests: int) -> Knobs:
        """Knobs that serve with the smallest share between ``low`` per cent, which does not, and their own, which does."""
        high = round(100 * knobs.utilization)
        if high <= low:
            return knobs
        while high - low > 1:
            middle = (low + high) // 2
            if self.judge(layout, knobs._replace(utilization=middle / 100)).serves(requests):
                high = middle
            else:
                low = middle
        return knobs._replace(utilization=high / 100)

    def _with_reserve(self, layout: Layout, knobs: Knobs, requests: int) -> Knobs:
        """More sequences where the cache keeps the reserve for them, and the engine's own watermark where the release has
        one: it then lets in as many as fit, and stops by itself where requests are longer than was said."""
        if "max-num-seqs" in self.question.fixed_names:
            return knobs
        more = knobs
        wanted = min(self.judge(layout, knobs).most, self._default_sequences(layout), 4 * requests)
        # Buffers grow with the sequences, so that the number that fits is found from above.
        for _ in range(3):
            if wanted <= requests:
                break
            judged = self.judge(layout, knobs._replace(sequences=wanted))
            if judged.serves(wanted):
                more = knobs._replace(sequences=wanted)
                break
            wanted = min(wanted - 1, judged.most)
        floating = self._watermarked(layout, more, requests)
        return floating or more

    def _default_sequences(self, layout: Layout) -> int:
        config = settled(self.question, layout, self._knobs(0)).effective
        return config.max_num_seqs.value if config else 256

    def _watermarked(self, layout: Layout, knobs: Knobs, requests: int) -> Knobs | None:
        """The same with ``--watermark``, if the requests that are planned for still run at a time under it."""
        from planner.admission.reserve import MOST_WATERMARK

        judged = self.judge(layout, knobs)
        if "watermark" in self.question.fixed_names or judged.mix is None or judged.cache is None:
            return None
        share = watermark_for(judged)
        room = judged.cache.blocks - judged.mix.shared
        sequences = min(self._default_sequences(layout), int(room / max(1e-9, judged.mix.mean)))
        for _ in range(_MOST_WATERMARKS):
            if not 0 < share < MOST_WATERMARK:
                return None
            found = knobs._replace(watermark=share, sequences=max(knobs.sequences, sequences))
            missing = self._missing_under(self.judge(layout, found), requests)
            if missing == 0:
                return found
            if missing is None:
                return None
            # What one of the longest needs to its end can be more than what the risk asks for.
            share = math.ceil(1000 * (share + missing / (judged.cache.blocks + 1))) / 1000
        return None

    def _missing_under(self, judged: Judged, requests: int) -> int | None:
        """Blocks that the engine's watermark falls short of the reserve for as many requests as it would ever let in; None
        where the planned ones do not run at a time under it."""
        from planner.admission.reserve import missing_blocks

        pool, mix, workload = judged.cache, judged.mix, judged.workload
        if pool is None or mix is None or workload is None or not judged.serves(requests):
            return None
        running, missing = missing_blocks(pool, mix, requests, workload.risk)
        if running < requests or missing:
            return None
        return missing_blocks(pool, mix, judged.sequences, workload.risk)[1]


def _too_small(judged: Judged) -> str:
    if judged.cache is None or judged.mix is None:
        return "the KV cache of this configuration is not known"
    longest = judged.mix.longest
    return f"its {judged.cache.blocks:,} KV blocks do not hold one request with its reserve ({longest:,} blocks at its end)"
