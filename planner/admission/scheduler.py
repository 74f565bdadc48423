"""A discrete simulation of vLLM's V1 scheduler: admission, chunked prefill, block growth, preemption by recompute.

The model is replaced by "one token per running request and step". A step grants tokens to the running requests in the
order of their admission, then to waiting ones; a running request that gets no block puts the last one back to the head of
the queue, where it starts over. Sources: vLLM ``v1/core/sched/scheduler.py`` (``schedule``, ``update_from_output``) and
``v1/core/kv_cache_manager.py`` (``allocate_slots``, ``free``), 0.11 to 0.33.

Steps in which nothing but decoding happens are not walked through one by one. Every decoding request takes one token a
step, so it needs its next block when the step number has a fixed remainder modulo the block size: counting requests by
that remainder says what any step will ask for, and the simulation jumps from event to event (an arrival, the end of a
request, a shortage). Its cost grows with requests and preemptions, not with tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import ceil

from planner.admission.growth import (
    Growth,
    admission_blocks_of,
    blocks_of,
    merged,
    shared_blocks_of,
)
from planner.record import NamedTuple

_NEVER = 1 << 62
#: the timeline is thinned out where it grows beyond this many segments
_SEGMENTS = 1 << 15


class Requests(NamedTuple):
    """A stream of requests in the order of arrival, as columns of equal length.

    ``arrivals`` in the unit of the scheduler's clock (steps or seconds), ``prompts`` and ``outputs`` in tokens.
    ``prefixes``: (prefix id, tokens) of each request's common prefix, empty where no request has one.
    """

    arrivals: Sequence[float]
    prompts: Sequence[int]
    outputs: Sequence[int]
    prefixes: Sequence[tuple[int, int]] = ()


class Scheduler(NamedTuple):
    """The settings of an engine that decide what its scheduler does.

    ``num_blocks`` counts the null block, which no request gets. ``watermark``: the share of blocks that must stay free
    when a request is let in beside others. ``reserve_full_input``: admission asks for the whole prompt's blocks, not only
    for those of the first chunk. ``lookahead``: slots beyond the next token (speculative decoding). ``growths``: the
    groups of the cache, one of full attention where empty. ``step_seconds`` and ``prefill_seconds`` (per token) turn the
    clock into seconds; with 0 it counts steps.
    """

    num_blocks: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    watermark: float = 0.0
    reserve_full_input: bool = True
    lookahead: int = 0
    prefix_caching: bool = False
    growths: tuple[Growth, ...] = ()
    step_seconds: float = 0.0
    prefill_seconds: float = 0.0


class Segment(NamedTuple):
    """A stretch of the simulation: clock from ``start`` to ``end``, ``steps`` in it, blocks in use summed over the steps
    and at most, running requests at most, waiting ones at its end, preemptions in it."""

    start: float
    end: float
    steps: int
    block_steps: int
    peak_blocks: int
    running: int
    waiting: int
    preemptions: int


class Outcome(NamedTuple):
    """What the scheduler did. Blocks include the null block, as the engine counts them.

    ``steps``: calls that scheduled at least one token. ``recomputed_tokens``: computed, lost by preemption and computed
    again. ``rejected``: requests that the engine could never finish, by number, with the reason. ``token_steps``: sum of
    the running requests over the steps.
    """

    steps: int
    preemptions: int
    peak_blocks: int
    mean_blocks: float
    peak_running: int
    recomputed_tokens: int
    finished: int
    preempted_requests: int
    rejected: tuple[tuple[int, str], ...]
    clock: float
    running_steps: int
    generated_tokens: int
    timeline: tuple[Segment, ...]

    @property
    def mean_running(self) -> float:
        """Requests that run in a step, on average."""
        return self.running_steps / self.steps if self.steps else 0.0


class Impossible(Exception):  # noqa: N818 - a question that has no answer, not a bug
    """Settings that no engine starts with; the text says why, for people."""


def simulate(
    requests: Requests,
    scheduler: Scheduler,
    *,
    progress: Callable[[int], None] | None = None,
    timeline: bool = False,
    until: int | None = None,
) -> Outcome:
    """Runs the stream to its end, or until so many steps have been taken. ``progress`` is called now and then with the
    number of finished requests; ``timeline``: whether the outcome has one.

    Raises ``Impossible`` for settings that no engine starts with. Requests that the engine would refuse or never finish
    (longer than ``max_model_len``, more blocks than there are) are left out and named in the outcome.
    """
    _check(scheduler)
    return _Run(requests, scheduler, progress, timeline).run(_NEVER if until is None else until)


def _check(scheduler: Scheduler) -> None:
    for name, value in (
        ("block size", scheduler.block_size),
        ("max-num-seqs", scheduler.max_num_seqs),
        ("max-num-batched-tokens", scheduler.max_num_batched_tokens),
        ("max-model-len", scheduler.max_model_len),
    ):
        if value < 1:
            raise Impossible(f"{name} must be at least 1, not {value}")
    if scheduler.num_blocks < 2:
        raise Impossible("there must be at least 2 blocks: one of them is the engine's null block")
    if not 0 <= scheduler.watermark < 1:
        raise Impossible(f"watermark is a share of the blocks, from 0 to below 1, not {scheduler.watermark}")
    if scheduler.max_num_batched_tokens < scheduler.max_num_seqs:
        raise Impossible(
            f"max-num-batched-tokens ({scheduler.max_num_batched_tokens}) must be at least max-num-seqs "
            f"({scheduler.max_num_seqs}): the engine refuses to start otherwise"
        )


class _Prefix:
    """A common prefix in the cache: who holds it, and where its blocks are in the queue of free ones."""

    __slots__ = ("ahead", "blocks", "freed_at", "holders", "tokens")

    def __init__(self) -> None:
        self.holders = 0
        self.tokens = 0
        self.blocks = 0
        self.freed_at = 0
        self.ahead = 0


class _Lost(NamedTuple):
    """What a preempted request had: tokens computed, its blocks, those of them that went back to the pool, and their
    place in the queue of free blocks."""

    tokens: int
    blocks: int
    freed: int
    freed_at: int
    ahead: int


class _Hit(NamedTuple):
    """What the cache still has of a request: tokens, blocks that others hold too, blocks that come out of the queue."""

    tokens: int = 0
    shared: int = 0
    queued: int = 0


_MISS = _Hit()


class _Run:
    """The state of one simulation.

    A request is *waiting*, *filling* (its prompt is computed in chunks; only the last running request ever is, since it
    takes all that is left of the step's budget) or *decoding*. A decoding request that will compute its token number c in
    step t has the offset t − c for as long as it decodes.
    """

    def __init__(
        self, requests: Requests, scheduler: Scheduler, progress: Callable[[int], None] | None, timeline: bool
    ) -> None:
        self.settings = scheduler
        self.progress = progress
        self.draws = timeline
        self.arrivals, self.prompts = requests.arrivals, requests.prompts
        total = len(self.prompts)
        self.limit = limit = scheduler.max_model_len
        self.ahead = scheduler.lookahead
        self.growths = merged(scheduler.growths or (Growth(scheduler.block_size),))
        self.unit = max(growth.block_size for growth in self.growths)
        self.sizes = sorted({growth.block_size for growth in self.growths if not growth.fixed})
        self.counts = [[0] * size for size in self.sizes]
        #: (index into sizes, growth, blocks after which it no longer grows while decoding)
        self.growing = [
            (
                self.sizes.index(growth.block_size),
                growth,
                # Slots never exceed the maximum length, however far speculation looks ahead.
                min(growth.cap() or _NEVER, -(-limit // growth.block_size)),
            )
            for growth in self.growths
            if not growth.fixed
        ]
        #: the usual case, one table that grows without bound: blocks are a division
        self.plain = self.growths == (Growth(self.unit),)

        self.targets = [min(p + max(1, o), limit) for p, o in zip(self.prompts, requests.outputs, strict=True)]
        self.tokens = list(self.prompts)  # tokens that exist when the request comes out of the queue
        self.computed = [0] * total  # while it fills
        self.held = [0] * total  # blocks while it fills
        self.offsets: list[int | None] = [None] * total
        self.ends = [_NEVER] * total

        self.caching = scheduler.prefix_caching
        self.prefix_of = requests.prefixes if self.caching else ()
        self.prefixes: dict[int, _Prefix] = {}
        self.shares: dict[int, int] = {}  # blocks of a running request that belong to its prefix
        self.lost: dict[int, _Lost] = {}

        self.usable = scheduler.num_blocks - 1
        self.free = self.usable
        self.reserve = int(scheduler.watermark * scheduler.num_blocks)
        self.allocated = 0  # blocks ever taken from the head of the queue of free ones
        self.waiting: deque[int] = deque()
        self.running: dict[int, None] = {}
        self.filling = -1
        self.finishing: list[tuple[int, int]] = []
        self.capping: list[tuple[int, int, int, int, int]] = []
        self.next_arrival = 0
        self.blocked = False  # the head of the queue cannot come in before somebody leaves

        self.step = 0
        self.clock: float = 0
        self.step_time: float = scheduler.step_seconds or 1
        self.steps = self.preemptions = self.recomputed = self.peak = self.total = self.peak_running = 0
        self.running_steps = self.generated = self.finished = 0
        self.preempted_ids: set[int] = set()
        self.rejected: list[tuple[int, str]] = []
        self.skip = bytearray(total)
        self.timeline: list[Segment] = []

    def run(self, until: int) -> Outcome:
        """From the first arrival to the last token, or to the step ``until``."""
        self._reject_impossible()
        total = len(self.prompts)
        reported = 0
        while (self.next_arrival < total or self.waiting or self.running) and self.step < until:
            if not self.running and not self.waiting:
                self.clock = max(self.clock, self.arrivals[self.next_arrival])
            self._arrive()
            if not self.running and not self.waiting:
                continue
            if self.running and self.filling < 0 and (self.blocked or not self.waiting):
                self._jump(until)
                self._arrive()
            if self.step < until:
                self._one_step()
            if self.progress is not None and self.finished - reported >= 64:
                reported = self.finished
                self.progress(reported)
        if self.progress is not None:
            self.progress(self.finished)
        return Outcome(
            steps=self.steps,
            preemptions=self.preemptions,
            peak_blocks=self.peak,
            mean_blocks=round(self.total / self.steps, 2) if self.steps else 0.0,
            peak_running=self.peak_running,
            recomputed_tokens=self.recomputed,
            finished=self.finished,
            preempted_requests=len(self.preempted_ids),
            rejected=tuple(self.rejected),
            clock=self.clock,
            running_steps=self.running_steps,
            generated_tokens=self.generated,
            timeline=tuple(self.timeline),
        )

    def _reject_impossible(self) -> None:
        """Sets aside what the engine refuses, or would preempt for ever: it checks for the latter when it starts."""
        batch = self.settings.max_num_batched_tokens
        worst: dict[int, int] = {}
        for number, prompt in enumerate(self.prompts):
            target = self.targets[number]
            if prompt < 1:
                reason = "has no prompt tokens"
            elif prompt >= self.limit:
                reason = f"has {prompt:,} prompt tokens, and max-model-len is {self.limit:,}"
            else:
                if target not in worst:
                    slots = min(target - 1 + self.ahead, self.limit)
                    worst[target] = blocks_of(self.growths, slots, min(batch, slots))
                    if self.settings.reserve_full_input:
                        worst[target] = max(worst[target], admission_blocks_of(self.growths, target - 1))
                if worst[target] <= self.usable:
                    continue
                reason = f"needs {worst[target]:,} blocks for {target:,} tokens, and there are {self.usable:,}"
            self.skip[number] = 1
            self.rejected.append((number, reason))

    def _arrive(self) -> None:
        index, total = self.next_arrival, len(self.prompts)
        while index < total and self.arrivals[index] <= self.clock:
            if not self.skip[index]:
                self.waiting.append(index)
            index += 1
        self.next_arrival = index

    # Steps ---------------------------------------------------------------------------------------------------------

    def _jump(self, until: int) -> None:
        """All steps up to the next one in which something other than decoding happens, or in which blocks run short."""
        while self.finishing and self.ends[self.finishing[0][1]] != self.finishing[0][0]:
            heappop(self.finishing)  # preempted since
        limit = min(self.finishing[0][0], until) - self.step
        if self.capping:
            limit = min(limit, self.capping[0][0] - self.step)
        if not self.waiting and self.next_arrival < len(self.prompts):
            left = self.arrivals[self.next_arrival] - self.clock
            limit = min(limit, ceil(left / self.step_time))
        if limit <= 0:
            return
        free = start = self.free
        done = used = 0  # `used`: blocks taken in this jump, summed over its steps
        if len(self.sizes) == 1:
            counts, size = self.counts[0], self.sizes[0]
            growth = sum(counts)
            if not growth:
                done = limit
            else:
                cycles = min(limit // size, free // growth)
                if cycles:
                    within = taken = 0
                    for remainder in range(self.step, self.step + size):
                        taken += counts[remainder % size]
                        within += taken
                    done = cycles * size
                    used = cycles * within + growth * size * cycles * (cycles - 1) // 2
                    free -= cycles * growth
                while done < limit:
                    demand = counts[(self.step + done) % size]
                    if demand > free:
                        break
                    free -= demand
                    used += start - free
                    done += 1
        else:
            tables = list(zip(self.counts, self.sizes, strict=True))
            for step in range(self.step, self.step + limit):
                demand = sum([counts[step % size] for counts, size in tables])
                if demand > free:
                    break
                free -= demand
                used += start - free
                done += 1
        if not done:
            return
        self.free = free
        self.allocated += start - free
        self.step += done
        self._record(
            done, len(self.running), used + done * (self.settings.num_blocks - start), done * self.step_time, 0
        )
        self._apply_caps()

    def _one_step(self) -> None:
        """One call of the engine's ``schedule`` and the update after it."""
        before = self.preemptions
        budget = self.settings.max_num_batched_tokens
        demand = 0
        for counts, size in zip(self.counts, self.sizes, strict=True):
            demand += counts[self.step % size]
        scheduled = len(self.running) - (self.filling >= 0)
        if demand <= self.free:
            self.free -= demand
            self.allocated += demand
        else:
            scheduled = self._decode_with_preemption()
        budget -= scheduled
        filled: list[int] = []
        prefilled = 0
        request = self.filling
        if request >= 0 and budget > 0:
            new = min(self.tokens[request] - self.computed[request], budget)
            slots = min(self.computed[request] + new + self.ahead, self.limit)
            needed = self._blocks(slots, new) - self.held[request]
            if needed > self.free:
                self._preempt(request)
            else:
                self._take(request, needed, new)
                scheduled += 1
                budget -= new
                prefilled += new
                if self.computed[request] >= self.tokens[request]:
                    filled.append(request)
                    self.filling = -1
        self.blocked = False
        if self.preemptions == before:
            while self.waiting and budget > 0:
                new = self._admit(budget, scheduled > 0)
                if not new:
                    break
                request = next(reversed(self.running))
                scheduled += 1
                budget -= new
                prefilled += new
                if self.filling < 0:
                    filled.append(request)
        running = len(self.running)
        self.step += 1
        if scheduled:
            used = self.settings.num_blocks - self.free
            seconds = self.step_time + prefilled * self.settings.prefill_seconds
            self._record(1, running, used, seconds, self.preemptions - before)
        else:
            self.clock += self.step_time
        self._apply_caps()
        for request in filled:
            self.generated += 1
            if self.tokens[request] + 1 >= self.targets[request]:
                self._finish(request)
            else:
                self._start_decoding(request)
        last = self.step - 1
        while self.finishing and self.finishing[0][0] <= last:
            end, request = heappop(self.finishing)
            if self.ends[request] == end:
                self._stop_decoding(request)
                self._finish(request)

    def _record(self, steps: int, running: int, block_steps: int, duration: float, preemptions: int) -> None:
        """Counts steps that scheduled something; the pool is as they left it."""
        used = self.settings.num_blocks - self.free
        start = self.clock
        self.clock += duration
        self.steps += steps
        self.total += block_steps
        self.running_steps += steps * running
        self.peak = max(self.peak, used)
        self.peak_running = max(self.peak_running, running)
        if not self.draws:
            return
        self.timeline.append(
            Segment(start, self.clock, steps, block_steps, used, running, len(self.waiting), preemptions)
        )
        if len(self.timeline) > _SEGMENTS:
            self.timeline = thinned(self.timeline)

    # Requests ------------------------------------------------------------------------------------------------------

    def _blocks(self, slots: int, new_tokens: int = 1) -> int:
        if self.plain:
            return -(-slots // self.unit)
        return blocks_of(self.growths, slots, new_tokens)

    def _decode_with_preemption(self) -> int:
        """The decoding requests of a step that has too few blocks for all of them, one by one; returns how many ran."""
        order = list(self.running)
        done, end = 0, len(order)
        while done < end:
            request = order[done]
            offset = self.offsets[request]
            if offset is None:
                break  # the one that fills comes last, and is granted by the caller
            needed = 0
            for index, growth, cap in self.growing:
                slots = self.step - offset + self.ahead
                if slots % self.sizes[index] == 0 and slots // growth.block_size < cap:
                    needed += growth.copies
            while needed > self.free:
                end -= 1
                self._preempt(order[end])
                if end == done:
                    return done
            self.free -= needed
            self.allocated += needed
            done += 1
        return done

    def _admit(self, budget: int, beside_others: bool) -> int:
        """Lets the head of the queue in; returns the tokens that it computes in this step, 0 where it must wait."""
        if len(self.running) >= self.settings.max_num_seqs:
            self.blocked = True
            return 0
        request = self.waiting[0]
        total = self.tokens[request]
        hit = self._lookup(request) if self.caching else _MISS
        spare = self.free - (self.reserve if beside_others else 0)
        if self.settings.reserve_full_input:
            whole = -(-total // self.unit) if self.plain else admission_blocks_of(self.growths, total)
            if whole - hit.shared > spare:
                self.blocked = True
                return 0
        new = min(total - hit.tokens, budget)
        needed = self._blocks(min(hit.tokens + new + self.ahead, self.limit), new) - hit.shared
        if needed > spare:
            self.blocked = True
            return 0
        self.waiting.popleft()
        self.running[request] = None
        self.computed[request] = hit.tokens
        self.held[request] = hit.shared
        if self.caching:
            self._hold_prefix(request, hit)
            self.allocated -= hit.queued
        self._take(request, needed, new)
        if self.computed[request] < total:
            self.filling = request
        return new

    def _take(self, request: int, needed: int, new: int) -> None:
        self.free -= needed
        self.allocated += max(0, needed)
        self.held[request] += needed
        self.computed[request] += new

    def _start_decoding(self, request: int) -> None:
        """From this step on the request computes one token a step, its first generated one being the next."""
        offset = self.step - self.computed[request]
        self.offsets[request] = offset
        # The token that reaches the target is sampled by the step that computes the one before it.
        end = self.step + self.targets[request] - self.tokens[request] - 2
        self.ends[request] = end
        heappush(self.finishing, (end, request))
        if not self.plain:
            excess = self.held[request] - self._blocks(min(self.computed[request] + self.ahead, self.limit))
            self.free += excess  # what the last chunk needed of windows beyond what decoding keeps
            self.blocked = False
        for index, growth, cap in self.growing:
            # Block number `cap` comes with slot (cap − 1) × block size; nothing grows after it.
            full = offset - self.ahead + (cap - 1) * growth.block_size + 1
            if full <= self.step:
                continue
            remainder = (offset - self.ahead) % growth.block_size
            self.counts[index][remainder] += growth.copies
            if full <= end + 1:  # the step after the last one still finds it in the counts
                heappush(self.capping, (full, request, offset, index, growth.copies))

    def _stop_decoding(self, request: int) -> None:
        """Out of the counts; ``held`` and ``computed`` are what the request has at the start of this step."""
        offset = self.offsets[request]
        if offset is None:
            return
        for index, growth, cap in self.growing:
            if self.step < offset - self.ahead + (cap - 1) * growth.block_size + 1:
                self.counts[index][(offset - self.ahead) % growth.block_size] -= growth.copies
        self.computed[request] = self.step - offset
        self.held[request] = self._blocks(min(self.computed[request] + self.ahead, self.limit))
        self.offsets[request] = None
        self.ends[request] = _NEVER

    def _apply_caps(self) -> None:
        """Windows that are full from this step on no longer grow."""
        while self.capping and self.capping[0][0] <= self.step:
            _, request, offset, index, copies = heappop(self.capping)
            if self.offsets[request] == offset:
                self.counts[index][(offset - self.ahead) % self.sizes[index]] -= copies

    def _finish(self, request: int) -> None:
        self.generated += max(0, self.targets[request] - self.tokens[request] - 1)
        del self.running[request]
        self._release(request)
        self.finished += 1
        self.blocked = False

    def _preempt(self, request: int) -> None:
        """Back to the head of the queue with nothing computed. Only ever the last running request."""
        if request == self.filling:
            self.filling = -1
        elif self.offsets[request] is not None:
            self._stop_decoding(request)
            self.generated += self.computed[request] - self.tokens[request]
            self.tokens[request] = self.computed[request] + 1
        del self.running[request]
        computed, held, ahead = self.computed[request], self.held[request], self.free
        self.preemptions += 1
        self.recomputed += computed
        self.preempted_ids.add(request)
        self._release(request)
        if self.caching:
            self.lost[request] = _Lost(computed, held, self.free - ahead, self.allocated, ahead)
        self.computed[request] = 0
        self.waiting.appendleft(request)

    def _release(self, request: int) -> None:
        """Gives the blocks back to the pool; a common prefix goes back with its last holder."""
        held = self.held[request]
        self.held[request] = 0
        shared = self.shares.pop(request, None)
        if shared is None:
            self.free += held
            return
        prefix = self.prefixes[self.prefix_of[request][0]]
        own = max(0, held - shared)
        prefix.holders -= 1
        if not prefix.holders:
            if shared == prefix.blocks:
                prefix.blocks = min(shared, held)  # it may not have come to the end of it
            prefix.freed_at, prefix.ahead = self.allocated, self.free + own
            own += prefix.blocks
        self.free += own

    # Prefix cache --------------------------------------------------------------------------------------------------

    def _lookup(self, request: int) -> _Hit:
        """What the cache has of the request's tokens: its prefix, and what it had computed before it was preempted.

        Free blocks stand in a queue whose head is taken first and to whose end a request's blocks go, the last one
        first: of blocks with ``ahead`` others before them, allocations beyond ``ahead`` have taken as many from the end.
        """
        longest = self.tokens[request] - 1  # the last token is always computed: it gives the next one
        tokens = shared = queued = 0
        whole = True
        if self.prefix_of and self.prefix_of[request][1]:
            number, length = self.prefix_of[request]
            prefix = self.prefixes.get(number)
            wanted = min(length, longest) // self.unit * self.unit
            if prefix is None:
                whole = False
            elif prefix.holders:
                tokens = min(wanted, prefix.tokens)
                shared = shared_blocks_of(self.growths, tokens)
            elif prefix.blocks:
                taken = min(prefix.blocks, max(0, self.allocated - prefix.freed_at - prefix.ahead))
                left = prefix.tokens * (prefix.blocks - taken) // prefix.blocks
                tokens = min(wanted, left) // self.unit * self.unit
                queued = shared_blocks_of(self.growths, tokens)
                whole = not taken
        lost = self.lost.get(request)
        if lost is not None and whole and lost.blocks:
            taken = min(lost.freed, max(0, self.allocated - lost.freed_at - lost.ahead))
            left = min(longest, lost.tokens * (lost.blocks - taken) // lost.blocks) // self.unit * self.unit
            if left > tokens:
                tokens = left
                queued = max(0, self._blocks(left) - shared)
        return _Hit(tokens, shared, queued)

    def _hold_prefix(self, request: int, hit: _Hit) -> None:
        lost = self.lost.pop(request, None)
        if lost is not None:
            self.recomputed -= min(lost.tokens, hit.tokens)
        if not self.prefix_of or not self.prefix_of[request][1]:
            return
        number, length = self.prefix_of[request]
        prefix = self.prefixes.setdefault(number, _Prefix())
        if not prefix.holders:
            prefix.tokens = min(length, self.tokens[request] - 1) // self.unit * self.unit
            prefix.blocks = shared_blocks_of(self.growths, prefix.tokens)
            self.shares[request] = prefix.blocks
        else:
            self.shares[request] = hit.shared
        prefix.holders += 1


def thinned(segments: Sequence[Segment]) -> list[Segment]:
    """Half as many segments: neighbours put together."""
    pairs = []
    for index in range(0, len(segments), 2):
        a, b = segments[index], segments[min(index + 1, len(segments) - 1)]
        if a is b:
            pairs.append(a)
            continue
        pairs.append(
            Segment(
                a.start,
                b.end,
                a.steps + b.steps,
                a.block_steps + b.block_steps,
                max(a.peak_blocks, b.peak_blocks),
                max(a.running, b.running),
                b.waiting,
                a.preemptions + b.preemptions,
            )
        )
    return pairs
