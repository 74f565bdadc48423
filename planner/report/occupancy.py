"""Blocks in use over time, drawn with characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.admission.scheduler import Segment

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:-=+*##"


def draw(
    segments: Sequence[Segment],
    num_blocks: int,
    *,
    width: int = 72,
    height: int = 8,
    unit: str = "steps",
    plain: bool = False,
) -> list[str]:
    """The mean of the blocks in use as filled columns, their peak as ``¯``, and below them where requests were preempted
    (``!``) or waited (``w``). ``unit`` names the clock; ``plain`` uses ASCII alone."""
    if not segments:
        return []
    begin, end = segments[0].start, segments[-1].end
    columns = _columns(segments, begin, max(end - begin, 1e-9), width)
    levels = _ASCII if plain else _EIGHTHS
    lines = []
    for row in range(height, 0, -1):
        text = ""
        for mean, peak, _, _ in columns:
            filled = mean / num_blocks * height - (row - 1)
            cell = levels[min(8, max(0, round(filled * 8)))]
            if cell == " " and peak / num_blocks * height > row - 1:
                cell = "'" if plain else "·"
            text += cell
        label = f"{num_blocks:,}" if row == height else f"{num_blocks // 2:,}" if row == height // 2 else ""
        lines.append(f"{label:>9} |{text}|")
    lines.append(f"{'blocks':>9} +{'-' * width}+")
    if any(lost for *_, lost in columns):
        lines.append(f"{'preempted':>9}  {''.join('!' if lost else ' ' for *_, lost in columns)}".rstrip())
    if any(queued for _, _, queued, _ in columns):
        lines.append(f"{'waiting':>9}  {''.join('w' if queued else ' ' for _, _, queued, _ in columns)}".rstrip())
    left, right = f"{begin:,.0f}", f"{end:,.0f} {unit}"
    lines.append(f"{'':>9}  {left}{right:>{max(1, width - len(left))}}")
    return lines


def _columns(segments: Sequence[Segment], begin: float, span: float, width: int) -> list[tuple[float, int, bool, int]]:
    """(mean blocks, peak blocks, whether anything waited, preemptions) of equal parts of the time."""
    area, busy = [0.0] * width, [0.0] * width
    peak, preempted = [0] * width, [0] * width
    queued = [False] * width
    for segment in segments:
        first = min(width - 1, int((segment.start - begin) / span * width))
        last = min(width - 1, max(first, int((segment.end - begin) / span * width - 1e-9)))
        mean = segment.block_steps / max(1, segment.steps)
        for column in range(first, last + 1):
            left = max(segment.start, begin + column * span / width)
            right = min(segment.end, begin + (column + 1) * span / width)
            share = max(right - left, 1e-12)
            area[column] += mean * share
            busy[column] += share
            # Blocks grow within a stretch: its peak stands at its end.
            high = segment.peak_blocks if column == last else int(mean)
            peak[column] = max(peak[column], high)
            queued[column] = queued[column] or segment.waiting > 0
        preempted[last] += segment.preemptions
    wide = span / width
    return [(area[c] / max(busy[c], wide) if busy[c] else 0.0, peak[c], queued[c], preempted[c]) for c in range(width)]
