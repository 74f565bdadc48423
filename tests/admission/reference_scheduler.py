"""The scheduler once more, plainly: every step, every request, every block. Slow, and what the fast one is held against.

Blocks are objects in a queue, as in vLLM's pool: a request takes them from its head and gives them back to its end, its
last one first. With prefix caching a block keeps its content until it is taken again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from planner.admission.growth import Growth, admission_blocks_of, blocks_of
from planner.admission.scheduler import Requests, Scheduler

Content = tuple[object, int]


class Pool:
    """Free blocks in the order in which they are taken; ``cached`` finds a block by its content."""

    def __init__(self, blocks: int) -> None:
        self.free: OrderedDict[int, None] = OrderedDict((block, None) for block in range(blocks))
        self.content: dict[int, Content] = {}
        self.cached: dict[Content, int] = {}
        self.holders: dict[int, int] = {}

    def take(self, count: int) -> list[int]:
        taken = [self.free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            content = self.content.pop(block, None)
            if content is not None and self.cached.get(content) == block:
                del self.cached[content]
            self.holders[block] = 1
        return taken

    def touch(self, block: int) -> None:
        self.free.pop(block, None)
        self.holders[block] = self.holders.get(block, 0) + 1

    def give_back(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks):
            self.holders[block] -= 1
            if not self.holders[block]:
                self.free[block] = None

    def remember(self, block: int, content: Content) -> None:
        if content not in self.cached:
            self.cached[content] = block
            self.content[block] = content


def run(requests: Requests, scheduler: Scheduler) -> dict[str, float]:
    """The figures of ``Outcome`` that the engine's oracle gives. Prefix caching only with one group of full attention."""
    kinds = scheduler.growths or (Growth(scheduler.block_size),)
    size, limit, ahead = scheduler.block_size, scheduler.max_model_len, scheduler.lookahead
    count = len(requests.prompts)
    tokens = list(requests.prompts)
    targets = [min(p + o, limit) for p, o in zip(requests.prompts, requests.outputs, strict=True)]
    computed, blocks = [0] * count, [[] for _ in range(count)]  # type: ignore[var-annotated]
    lost = [0] * count
    pool = Pool(scheduler.num_blocks - 1)
    reserve = int(scheduler.watermark * scheduler.num_blocks)
    pending = deque(range(count))
    waiting: deque[int] = deque()
    running: list[int] = []
    clock = steps = preemptions = recomputed = peak = total = peak_running = 0

    def content(request: int, number: int) -> Content:
        prefix, length = requests.prefixes[request] if requests.prefixes else (0, 0)
        return (("prefix", prefix) if (number + 1) * size <= length else ("own", request), number)

    def remember(request: int) -> None:
        if scheduler.prefix_caching:
            for number in range(computed_after[request] // size):
                pool.remember(blocks[request][number], content(request, number))

    computed_after: dict[int, int] = {}
    while pending or waiting or running:
        if not waiting and not running:
            clock = max(clock, int(requests.arrivals[pending[0]]))
        while pending and requests.arrivals[pending[0]] <= clock:
            waiting.append(pending.popleft())
        budget = scheduler.max_num_batched_tokens
        computed_after = {}
        preempted = False
        index = 0
        while index < len(running) and budget:
            request = running[index]
            new = min(tokens[request] - computed[request], budget)
            held = len(blocks[request])
            needed = blocks_of(kinds, min(computed[request] + new + ahead, limit), new) - held
            while needed > len(pool.free):
                victim = running.pop()
                preemptions += 1
                preempted = True
                recomputed += computed[victim]
                lost[victim] = computed[victim]
                computed[victim] = 0
                pool.give_back(blocks[victim])
                blocks[victim] = []
                waiting.appendleft(victim)
                if victim == request:
                    break
            if request not in running:
                break
            if needed < 0:
                pool.give_back(blocks[request][needed:])
                del blocks[request][needed:]
            else:
                blocks[request] += pool.take(needed)
            computed_after[request] = computed[request] + new
            remember(request)
            budget -= new
            index += 1
        while not preempted and waiting and budget and len(running) < scheduler.max_num_seqs:
            request = waiting[0]
            hits: list[int] = []
            if scheduler.prefix_caching:
                for number in range((tokens[request] - 1) // size):
                    block = pool.cached.get(content(request, number))
                    if block is None:
                        break
                    hits.append(block)
            shared = sum(block not in pool.free for block in hits)
            spare = len(pool.free) - (reserve if computed_after else 0)
            if scheduler.reserve_full_input and admission_blocks_of(kinds, tokens[request]) - shared > spare:
                break
            start = len(hits) * size
            new = min(tokens[request] - start, budget)
            needed = blocks_of(kinds, min(start + new + ahead, limit), new)
            if needed - shared > spare:
                break
            waiting.popleft()
            running.append(request)
            recomputed -= min(lost[request], start)
            lost[request] = 0
            for block in hits:
                pool.touch(block)
            blocks[request] = hits + pool.take(needed - len(hits))
            computed_after[request] = start + new
            remember(request)
            budget -= new
        clock += 1
        if computed_after:
            steps += 1
            used = scheduler.num_blocks - len(pool.free)
            peak, total = max(peak, used), total + used
            peak_running = max(peak_running, len(running))
        for request, after in computed_after.items():
            computed[request] = after
            if after < tokens[request]:
                continue
            tokens[request] += 1
            if tokens[request] >= targets[request]:
                running.remove(request)
                pool.give_back(blocks[request])
                blocks[request] = []
            else:
                # A window gives back what its last chunk alone needed before anybody asks for blocks again.
                excess = len(blocks[request]) - blocks_of(kinds, min(after + ahead, limit))
                if excess > 0:
                    pool.give_back(blocks[request][-excess:])
                    del blocks[request][-excess:]
    return {
        "steps": steps,
        "preemptions": preemptions,
        "peak_blocks": peak,
        "mean_blocks": round(total / steps, 2),
        "peak_running": peak_running,
        "recomputed_tokens": recomputed,
    }
