"""The pictures of the findings: for the report, and all of them in one file for documents.

Colours are the CSS variables of `covey.advisor.theme`, which a page, or the file, sets.
"""

from __future__ import annotations

import re

from covey.advisor.theme import css
from covey.demo import curves, drawing
from covey.demo.findings import Findings, Pair, Phase

PICTURE = """
text { font: 12px system-ui, sans-serif; fill: var(--ink) }
.title { font-size: 13px; font-weight: 600 }
.tick, .small { font-size: 10.5px; fill: var(--soft) }
.grid { stroke: var(--line); stroke-width: 1 }
.mark { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 3 }
.line { fill: none; stroke-width: 2 }
.name { font-weight: 600 }
.link { fill: none; stroke: var(--series-0); stroke-linecap: round; opacity: .85 }
.idle { stroke: var(--idle); stroke-width: .8; stroke-dasharray: 3 3; opacity: 1 }
.tree { fill: none; stroke-width: 1.6 }
.broker { fill: var(--ink); stroke: var(--paper); stroke-width: 1 }
.city { font-size: 11px; paint-order: stroke; stroke: var(--paper); stroke-width: 3px }
""" + "".join(
    f"polyline.colour{n}, path.colour{n} {{ stroke: var(--series-{n + 1}) }}\n"
    f"text.colour{n} {{ fill: var(--series-{n + 1}) }}\n"
    for n in range(drawing.COLOURS)
)


def picture(found: Findings) -> str:
    """Return one SVG file with the network before and after and both curves."""
    used = set(re.findall(r"var\(--([\w-]+)\)", PICTURE))
    wide, high = drawing.WIDTH + curves.WIDTH + 20, drawing.HEIGHT + curves.HEIGHT + 20
    groups = (
        (0, 0, before_plan(found)),
        (drawing.WIDTH + 20, 0, after_plan(found)),
        (0, drawing.HEIGHT + 20, over_time(found)),
        (curves.WIDTH + 20, drawing.HEIGHT + 20, bursts(found)),
    )
    inside = "".join(f'<g transform="translate({x} {y})">{group}</g>' for x, y, group in groups)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">'
        f"<style>{css('svg', used)}{PICTURE}</style>"
        f'<rect width="{wide}" height="{high}" style="fill: var(--paper)"/>{inside}</svg>\n'
    )


def svg(group: str, small: bool = False) -> str:
    """Return a picture from a group."""
    width, height = (drawing.SMALL_WIDTH, drawing.SMALL_HEIGHT) if small else (drawing.WIDTH, curves.HEIGHT)
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">{group}</svg>'


def phases(found: Findings) -> tuple[Phase, Phase]:
    """Return what was measured before and with the plan."""
    assert found.before is not None, "the acts were played"
    assert found.after is not None, "the acts were played"
    return found.before, found.after


def _traffic(phase: Phase) -> dict[Pair, float]:
    return {pair: count / max(1, phase.events) for pair, count in phase.links.items()}


def _most(found: Findings) -> float:
    return max(*(max(_traffic(phase).values()) for phase in phases(found)), 1e-9)


def before_plan(found: Findings) -> str:
    """Return the network before the plan."""
    before, _ = phases(found)
    title = f"one tree: {before.cost:.2f} messages for each event"
    return drawing.network(title, _traffic(before), _most(found))


def after_plan(found: Findings) -> str:
    """Return the network with the plan."""
    assert found.plan is not None
    _, after = phases(found)
    title = f"{len(found.plan.trees)} planned trees: {after.cost:.2f} messages for each event"
    return drawing.network(title, _traffic(after), _most(found))


def over_time(found: Findings) -> str:
    """Return what an event costs, over time."""
    return curves.curves(
        "Messages on links for each event",
        {"": curves.rates(found.points)},
        y_title="messages for each event",
        marks=[(found.switched_s, "plan installed")],
    )


def bursts(found: Findings) -> str:
    """Return what brokers told each other, over time."""
    some = next(iter(found.bursts.values()))
    end_s = min(told.points[-1][0] for told in found.bursts.values())
    return curves.curves(
        "Control messages when covering subscriptions leave",
        {name: [p for p in told.points if p[0] <= end_s] for name, told in found.bursts.items()},
        y_title="messages so far",
        marks=[(seconds, "") for seconds in some.departures_s],
        steps=True,
    )
