"""Curves as SVG, without any library: lines over seconds, with axes, and moments marked.

Colours are CSS classes, so that a page, or the picture itself, says how they look in the light and in the dark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH, HEIGHT = 460, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 36, 34
TICKS: Final = 4

Points = Sequence[tuple[float, float]]


def curves(
    title: str,
    lines: Mapping[str, Points],
    *,
    y_title: str,
    marks: Sequence[tuple[float, str]] = (),
    steps: bool = False,
) -> str:
    """Return a picture of lines, (seconds, value) each, with marks at some seconds; an SVG group of WIDTH × HEIGHT.

    A line whose name is "" has none. With `steps` a value holds until the next one.
    """
    every = [point for points in lines.values() for point in points] or [(0.0, 0.0)]
    last_s = max(1e-9, max(x for x, _ in every))
    step = nice(max(y for _, y in every) / TICKS)
    top = step * max(1, math.ceil(max(y for _, y in every) / step - 1e-9))
    parts = [f'<text class="title" x="{LEFT}" y="16">{escape(title)}</text>']

    def x_of(seconds: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * seconds / last_s, 1)

    def y_of(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top, 1)

    for number in range(round(top / step) + 1):
        y = y_of(number * step)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{number * step:,.6g}</text>'
        )
    every_s = nice(last_s / 6)
    for number in range(int(last_s / every_s) + 1):
        x = x_of(number * every_s)
        parts.append(
            f'<text class="tick" x="{x}" y="{HEIGHT - 18}" text-anchor="middle">{number * every_s:,.6g}</text>'
        )
    parts.append(f'<text class="tick" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">seconds</text>')
    parts.append(f'<text class="tick" x="{LEFT}" y="{HEIGHT - 4}">{escape(y_title)}</text>')
    for seconds, words in marks:
        x = x_of(seconds)
        parts.append(f'<line class="mark" x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}"/>')
        anchor = "end" if seconds > last_s / 2 else "start"
        shift = -4 if anchor == "end" else 4
        parts.append(
            f'<text class="tick" x="{x + shift}" y="{TOP - 4}" text-anchor="{anchor}">{escape(words)}</text>'
        )
    for place, (name, points) in enumerate(lines.items()):
        way = [f"{x_of(x)},{y_of(y)}" for x, y in (_stepped(points) if steps else points)]
        parts.append(f'<polyline class="line colour{place}" points="{" ".join(way)}"/>')
        if name and points:
            x, y = x_of(points[-1][0]), y_of(points[-1][1])
            parts.append(
                f'<text class="name colour{place}" x="{x}" y="{y - 6}" text-anchor="end">{escape(name)}</text>'
            )
    return "".join(parts)


def nice(step: float) -> float:
    """Return the round number next above: 1, 2 or 5 times a power of ten."""
    if step <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def _stepped(points: Points) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for x, y in points:
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return found


def rates(points: Sequence[tuple[float, int, int]], over_s: float = 2.0) -> list[tuple[float, float]]:
    """Return (seconds, second count for each of the first) from counts so far, over stretches of that length."""
    found = []
    start = points[0] if points else (0.0, 0, 0)
    for point in points[1:]:
        if point[0] - start[0] >= over_s and point[1] > start[1]:
            found.append(((start[0] + point[0]) / 2, (point[2] - start[2]) / (point[1] - start[1])))
            start = point
    return found
