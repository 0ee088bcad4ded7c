"""The pictures of the findings: for the report, and all of them in one file for documents.

The network stands where its cities are; links are as wide as the messages that cross them for each event, to one scale
in both pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from covey.demo.findings import Findings, Pair, Phase
from covey.demo.scene import CITIES, LINKS
from covey.reports.drawing import Dots, Picture, draw_dots, draw_links, drawn, legend_below, picture, way
from covey.reports.labels import write_names
from covey.reports.theme import IDLE, INK, SERIES

NETWORK: Final = (5.4, 3.2)  # inches
CURVES: Final = (5.4, 2.8)
PANEL: Final = (2.4, 1.35)  # of a tree
PANELS_A_ROW: Final = 3
MOST_TREES: Final = 12
WIDEST: Final = 8.0  # points, of the link with most messages
ROOM: Final = (-1.5, 11.5, -1.3, 5.1)  # of the map: left, right, below, above
# Links that would run through other cities bend away from them.
AROUND: Final[Mapping[Pair, float]] = {("seattle", "tokyo"): 1.75, ("losangeles", "sydney"): -1.35}
MIDDLE: Final = (5.5, 2.4)  # of the map: names stand outwards from it where there is room
CITY: Final = 3.0  # points, radius
IDLE_LINK, USED_LINK = "link without messages", "link, as wide as its messages for each event"


# -- for the report ------------------------------------------------------------------------------------------


def before_plan(found: Findings) -> Picture:
    """Return the network before the plan."""
    return picture(
        "The network before the plan", NETWORK, lambda sheet: _draw_before(sheet, found), constrained=False
    )


def after_plan(found: Findings) -> Picture:
    """Return the network with the plan."""
    return picture(
        "The network with the plan", NETWORK, lambda sheet: _draw_after(sheet, found), constrained=False
    )


def over_time(found: Findings) -> Picture:
    """Return what an event costs, over time."""
    return picture("Messages on links for each event", CURVES, lambda sheet: _draw_rates(sheet, found))


def bursts(found: Findings) -> Picture:
    """Return what brokers told each other, over time."""
    return picture(
        "Control messages when covering subscriptions leave",
        CURVES,
        lambda sheet: _draw_bursts(sheet, found),
    )


def trees(found: Findings) -> Picture:
    """Return the trees of the plan, a panel each."""
    assert found.plan is not None
    shown = found.plan.trees[:MOST_TREES]
    columns = min(PANELS_A_ROW, len(shown))
    rows = -(-len(shown) // columns)

    def draw(sheet: Any) -> str:
        for place, tree in enumerate(shown):
            row, column = divmod(place, columns)
            axes = _map(sheet.add_axes((column / columns, 1 - (row + 1) / rows, 1 / columns, 0.84 / rows)))
            others = [pair for pair in LINKS if pair not in tree.links]
            draw_links(axes, CITIES, others, IDLE, 0.6, style=":", bends=AROUND)
            own = [pair for pair in LINKS if pair in tree.links]
            draw_links(axes, CITIES, own, SERIES[place % len(SERIES)], 1.6, bends=AROUND)
            draw_dots(axes, CITIES, Dots(list(CITIES), [1.6] * len(CITIES)), color=INK, linewidths=0)
            draw_dots(axes, CITIES, Dots([tree.root], [4.0]), facecolors="none", edgecolors=INK)
            axes.set_title(f"tree {place}, root {tree.root}")
        return "Each tree in its colour, a ring around its root. Dotted links are not on the tree."

    return picture("The trees of the plan", (PANEL[0] * columns, PANEL[1] * rows), draw, constrained=False)


# -- all of them in one file ---------------------------------------------------------------------------------


def poster(found: Findings) -> str:
    """Return one SVG file with the network before and after, and both curves."""
    size = (NETWORK[0] + CURVES[0], NETWORK[1] + CURVES[1])

    def draw(sheet: Any) -> str:
        halves = sheet.subfigures(2, 1, height_ratios=(NETWORK[1], CURVES[1]))
        maps, curves = (half.subfigures(1, 2) for half in halves)
        for part, draw_part in zip(
            (*maps, *curves), (_draw_before, _draw_after, _draw_rates, _draw_bursts), strict=True
        ):
            draw_part(part, found)
        return ""

    content, _ = drawn(size, draw)
    return content.decode()


# -- the network ---------------------------------------------------------------------------------------------


def phases(found: Findings) -> tuple[Phase, Phase]:
    """Return what was measured before and with the plan."""
    assert found.before is not None, "the acts were played"
    assert found.after is not None, "the acts were played"
    return found.before, found.after


def _draw_before(sheet: Any, found: Findings) -> str:
    before, _ = phases(found)
    return _draw_network(sheet, f"One tree: {before.cost:.2f} messages for each event", before, _most(found))


def _draw_after(sheet: Any, found: Findings) -> str:
    assert found.plan is not None
    _, after = phases(found)
    count = len(found.plan.trees)
    title = f"{count} planned tree{'s' * (count != 1)}: {after.cost:.2f} messages for each event"
    return _draw_network(sheet, title, after, _most(found))


def _traffic(phase: Phase) -> dict[Pair, float]:
    return {pair: count / max(1, phase.events) for pair, count in phase.links.items()}


def _most(found: Findings) -> float:
    return max(*(max(_traffic(phase).values(), default=0.0) for phase in phases(found)), 1e-9)


def _draw_network(sheet: Any, title: str, phase: Phase, most: float) -> str:
    """Draw the links by their messages, the widest of which has `most` for each event; return the caption."""
    axes = _map(sheet.add_axes((0.0, 0.11, 1.0, 0.8)))
    axes.set_title(title, fontweight="bold")
    traffic = _traffic(phase)
    used = [pair for pair in LINKS if traffic.get(pair)]
    idle = [pair for pair in LINKS if not traffic.get(pair)]
    draw_links(axes, CITIES, idle, IDLE, 0.8, title=IDLE_LINK, style=":", bends=AROUND)
    widths = [max(0.8, WIDEST * traffic[pair] / most) for pair in used]
    draw_links(axes, CITIES, used, SERIES[0], widths, title=USED_LINK, bends=AROUND)
    cities = list(CITIES)
    draw_dots(axes, CITIES, Dots(cities, [CITY] * len(cities)), color=INK, linewidths=0)
    ways = [way(CITIES[a], CITIES[b], AROUND.get((a, b), 0.0)) for a, b in LINKS]
    lines = [piece for points in ways for piece in pairwise(points)]
    write_names(axes, [(city, CITIES[city], CITY + 1.0) for city in cities], lines=lines, middle=MIDDLE)
    legend = legend_below(sheet, axes, 2, fontsize=8)
    legend.get_lines()[-1].set_linewidth(2.5 if used else 0.8)  # not that of the first link
    busiest = max(traffic.items(), key=lambda one: one[1], default=None)
    if busiest is None or not busiest[1]:
        return ""
    (a, b), count = busiest
    return f"The busiest link, {a}–{b}, carries {count:.2f} messages for each event."


def _map(axes: Any) -> Any:
    """Return axes in which the cities have room for their names."""
    axes.set_axis_off()
    axes.set_xlim(ROOM[0], ROOM[1])
    axes.set_ylim(ROOM[2], ROOM[3])
    return axes


# -- curves over time ----------------------------------------------------------------------------------------


def _draw_rates(sheet: Any, found: Findings) -> str:
    """Draw what an event cost over time; return the caption."""
    points = rates(found.points)
    axes = _curves(sheet, "Messages on links for each event", "messages for each event")
    if points:
        axes.plot(*zip(*points, strict=True), color=SERIES[0], label="measured, over two seconds each")
    if found.switched_s:
        axes.axvline(found.switched_s, color=INK, linestyle=":", linewidth=1.4, label="plan installed")
    axes.set_ylim(bottom=0)
    legend_below(sheet, axes, 2, fontsize=8)
    return "What brokers have sent to each other for each event, over time."


def _draw_bursts(sheet: Any, found: Findings) -> str:
    """Draw what brokers told each other when covering subscriptions left; return the caption."""
    axes = _curves(sheet, "Control messages when covering subscriptions leave", "messages so far")
    end_s = min(told.points[-1][0] for told in found.bursts.values())
    for place, (name, told) in enumerate(found.bursts.items()):
        points = [point for point in told.points if point[0] <= end_s]
        axes.plot(
            *zip(*points, strict=True), color=SERIES[place], linestyle=("-", "--")[place % 2],
            drawstyle="steps-post", label=name,
        )  # fmt: skip
    some = next(iter(found.bursts.values()))
    for place, seconds in enumerate(some.departures_s):
        title = None if place else "a covering subscription leaves"
        axes.axvline(seconds, color=IDLE, linestyle=":", linewidth=1.0, zorder=1, label=title)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    legend_below(sheet, axes, 3, fontsize=8)
    return ""


def _curves(sheet: Any, title: str, unit: str) -> Any:
    axes = sheet.subplots()
    axes.set_title(title, fontweight="bold", loc="left")
    axes.set_xlabel("seconds")
    axes.set_ylabel(unit)
    return axes


def rates(points: Sequence[tuple[float, int, int]], over_s: float = 2.0) -> list[tuple[float, float]]:
    """Return (seconds, second count for each of the first) from counts so far, over stretches of that length."""
    found = []
    start = points[0] if points else (0.0, 0, 0)
    for point in points[1:]:
        if point[0] - start[0] >= over_s and point[1] > start[1]:
            found.append(((start[0] + point[0]) / 2, (point[2] - start[2]) / (point[1] - start[1])))
            start = point
    return found
