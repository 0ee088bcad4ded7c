"""Where the names in a picture stand: beside their marks, never over a mark, another name or the edge of the picture.

Each name in turn takes the first free place around its mark: outwards from the middle of the picture first, then in
directions that are ever farther from that. A place where no line runs is better than one where a line runs through the
name. A name for which there is no place is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

GAP: Final = 1.5  # points between a mark and its name
APART: Final = 1.0  # points between two names
TURNS: Final = (0, 1, -1, 2, -2, 3, -3, 4)  # eighths of a circle from the outward direction
SIZE: Final = 9.0  # of a name, in points: 12 pixels of a page

Point = tuple[float, float]
Line = tuple[Point, Point]


class Box(NamedTuple):
    """A rectangle, in points."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box, apart: float = 0.0) -> bool:
        """Return whether the two are nearer to each other than `apart`."""
        return (
            self.left < other.right + apart
            and other.left < self.right + apart
            and self.bottom < other.top + apart
            and other.bottom < self.top + apart
        )

    def covers(self, mark: Mark) -> bool:
        """Return whether it covers a part of a mark."""
        x = min(max(mark.x, self.left), self.right)
        y = min(max(mark.y, self.bottom), self.top)
        return math.hypot(mark.x - x, mark.y - y) < mark.radius

    def within(self, room: Box) -> bool:
        """Return whether all of it is in there."""
        return (
            room.left <= self.left
            and room.bottom <= self.bottom
            and self.right <= room.right
            and self.top <= room.top
        )

    def crossed(self, line: Line) -> bool:
        """Return whether a line runs through it."""
        (x, y), (to_x, to_y) = line
        first, last = 0.0, 1.0  # the stretch of the line that is inside the edges seen so far
        for start, step, low, high in (
            (x, to_x - x, self.left, self.right),
            (y, to_y - y, self.bottom, self.top),
        ):
            if step == 0:
                if not low < start < high:
                    return False
                continue
            enters, leaves = sorted(((low - start) / step, (high - start) / step))
            first, last = max(first, enters), min(last, leaves)
        return first < last


class Mark(NamedTuple):
    """A dot with a name, in points; `width` and `height` are those of the name."""

    name: str
    x: float
    y: float
    radius: float
    width: float = 0.0
    height: float = 0.0


def places(
    named: Sequence[Mark], marks: Sequence[Mark], lines: Sequence[Line], room: Box, middle: Point
) -> dict[int, Box]:
    """Return the place of each name, by its number in `named`; those without room are not in it."""
    found: dict[int, Box] = {}
    for number, mark in enumerate(named):
        free = [
            box
            for box in _around(mark, middle)
            if box.within(room)
            and not any(box.covers(other) for other in marks)
            and not any(box.overlaps(other, APART) for other in found.values())
        ]
        if free:
            found[number] = min(free, key=lambda box: sum(box.crossed(line) for line in lines))
    return found


def _around(mark: Mark, middle: Point) -> Iterator[Box]:
    """Yield the places beside a mark, the best first."""
    x, y = mark.x - middle[0], mark.y - middle[1]
    outward = round(math.atan2(y, x) / (math.pi / 4)) if math.hypot(x, y) > mark.radius else 0
    for turn in TURNS:
        angle = (outward + turn) * math.pi / 4
        across, up = math.cos(angle), math.sin(angle)
        distance = mark.radius + GAP
        left = (
            mark.x + distance * across - mark.width * (0.0 if across > 0.1 else 0.5 if across > -0.1 else 1.0)
        )
        bottom = mark.y + distance * up - mark.height * (0.0 if up > 0.1 else 0.5 if up > -0.1 else 1.0)
        yield Box(left, bottom, left + mark.width, bottom + mark.height)


def write_names(
    axes: Any,
    named: Sequence[tuple[str, Point, float]],
    others: Sequence[tuple[Point, float]] = (),
    lines: Sequence[Line] = (),
    middle: Point | None = None,
) -> int:
    """Write names beside their marks and return how many there was no room for.

    Marks are (name, point in data, radius in points), the most important first; `others` are marks without a name,
    `lines` are in data. The axes have their place in the picture and their limits already.
    """
    sheet = axes.get_figure()
    points = 72 / sheet.dpi
    renderer = sheet.canvas.get_renderer()

    def spot(point: Point) -> Point:
        x, y = axes.transData.transform(point)
        return float(x) * points, float(y) * points

    texts = [
        axes.text(*point, name, fontsize=SIZE, ha="left", va="bottom", zorder=5) for name, point, _ in named
    ]
    boxes = [text.get_window_extent(renderer) for text in texts]
    marks = [
        Mark(name, *spot(point), radius, box.width * points, box.height * points)
        for (name, point, radius), box in zip(named, boxes, strict=True)
    ]
    blind = [Mark("", *spot(point), radius) for point, radius in others]
    edge = axes.get_window_extent(renderer)
    room = Box(*(float(value) * points for value in (edge.x0, edge.y0, edge.x1, edge.y1)))
    centre = spot(middle) if middle is not None else ((room.left + room.right) / 2, room.bottom)
    found = places(marks, [*marks, *blind], [(spot(a), spot(b)) for a, b in lines], room, centre)
    for number, text in enumerate(texts):
        if number in found:
            place = found[number]
            text.set_position(
                axes.transData.inverted().transform((place.left / points, place.bottom / points))
            )
        else:
            text.remove()
    return len(texts) - len(found)
