"""What a change would do to a network, as a page: a table, the network drawn, and the links whose load changes most."""

from __future__ import annotations

from typing import Any

from covey.advisor.layout import radial
from covey.advisor.summary import entries_text
from covey.advisor.whatif import Comparison, Pair, State, link_changes
from covey.reports.drawing import Dots, Picture, draw_dots, draw_links, legend_below, picture
from covey.reports.labels import write_names
from covey.reports.page import Cell, Content, Table, page
from covey.reports.theme import IDLE, INK, SERIES
from covey.reports.words import cut, number_text

MOST_LINKS = 20
MOST_NAMED = 60
ROWS = (  # a number of a state, and its title
    ("brokers", "brokers"),
    ("links", "links"),
    ("subscriptions", "subscriptions"),
    ("events", "events, by rate"),
    ("trees", "trees"),
    ("entries", "table entries"),
    ("cost", "traffic of an event"),
    ("over_steiner", "traffic over Steiner trees"),
    ("price", "price of an event"),
    ("delay", "delay at p99, in link costs"),
    ("stretch", "stretch at p99"),
)

LOOKS = {  # how a link's load changes: colour and line
    "added": (SERIES[2], "-"),
    "removed": (SERIES[1], ":"),
    "carries more": (SERIES[0], "-"),
    "carries less": (SERIES[3], "-"),
    "as before": (IDLE, "-"),
}


def rows_of(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """Return the table of what changes, as texts: before, after, and after with the plan of before."""
    states = [comparison.before, comparison.after, *([comparison.kept] if comparison.kept else [])]
    rows = [("plan", [state.plan.name for state in states])]
    for key, title in ROWS:
        share = key == "over_steiner"
        rows.append(
            (title, [f"{s.numbers[key]:+.1%}" if share else f"{number_text(s.numbers[key])}" for s in states])
        )
    rows.append(("busiest link", [_link(state) for state in states]))
    rows.append(("busiest broker", [_broker(state) for state in states]))
    return rows


def heads_of(comparison: Comparison) -> list[str]:
    """Return the titles of the columns of `rows_of`."""
    return ["", "before", "after", *(["after, plan of before"] if comparison.kept else [])]


def _link(state: State) -> str:
    (a, b), load = state.busiest_link
    return f"{cut(a)}–{cut(b)}: {number_text(load)}"


def _broker(state: State) -> str:
    broker, load = state.busiest_broker
    return f"{cut(broker)}: {number_text(load)}"


def whatif_page(comparison: Comparison) -> str:
    """Return the page."""
    cells: list[list[Content]] = [
        [title, *(Cell(text, is_number=True) for text in texts)] for title, texts in rows_of(comparison)
    ]
    links: list[list[Content]] = [
        [f"{cut(a)}–{cut(b)}", before, after]
        for (a, b), before, after in link_changes(comparison)[:MOST_LINKS]
        if before != after
    ]
    return page(
        "whatif.html",
        "What if",
        first=result(comparison),
        table=Table(heads_of(comparison), cells, copy=True),
        changes=comparison.changes.lines(),
        notes=comparison.notes,
        picture=network_picture(comparison),
        links=Table(["link", "before", "after"], links) if links else None,
    )


def result(comparison: Comparison) -> str:
    """Return what the change does, in a sentence."""
    before, after = (state.numbers for state in (comparison.before, comparison.after))
    change = after["cost"] / before["cost"] - 1 if before["cost"] else 0.0
    traffic = (
        f"{abs(change):.0%} {'more' if change > 0 else 'less'} traffic"
        if abs(change) >= 0.005
        else "the same traffic"
    )
    return f"After the change an event needs {traffic}{entries_text(after['entries'], before['entries'])}."


def network_picture(comparison: Comparison) -> Picture:
    """Return the network before and after in one picture."""
    return picture(
        "The network before and after",
        (8.0, 7.2),
        lambda sheet: draw(sheet, comparison),
        constrained=False,
    )


def draw(sheet: Any, comparison: Comparison) -> str:
    """Draw links by how their load changes; return the caption."""
    axes = sheet.add_axes((0.03, 0.1, 0.94, 0.88))
    axes.axis("off")
    axes.set_aspect("equal")
    state = comparison.before
    tree = state.plan.trees[0]
    brokers = tuple(sorted({*state.brokers, *comparison.after.brokers}))
    pairs = [state.links[number][:2] for number in tree.links.tolist()]
    reached = {end for pair in pairs for end in pair}
    for a, b, _ in comparison.after.links:  # a new broker hangs on its first link
        if (a in reached) != (b in reached):
            pairs.append((a, b))
            reached |= {a, b}
    points = radial(brokers, pairs, state.brokers[tree.root])
    rows = link_changes(comparison)
    most = max((max(before or 0.0, after or 0.0) for _, before, after in rows), default=1.0) or 1.0
    by_kind: dict[str, list[tuple[Pair, float]]] = {}
    for pair, before, after in rows:
        by_kind.setdefault(kind_of(before, after), []).append((pair, max(before or 0.0, after or 0.0)))
    for kind, (colour, style) in reversed(LOOKS.items()):
        some = by_kind.get(kind, [])
        widths = [0.6 + 5.0 * load / most for _, load in some]
        draw_links(axes, points, [pair for pair, _ in some], colour, widths, style=style, title=kind)
    here = [name for name in brokers if name in comparison.after.brokers]
    gone = [name for name in brokers if name not in comparison.after.brokers]
    draw_dots(axes, points, Dots(here, [3.0] * len(here)), color=INK)
    draw_dots(
        axes,
        points,
        Dots(gone, [3.0] * len(gone)),
        "broker that goes away",
        facecolors="none",
        edgecolors=SERIES[1],
    )
    axes.margins(0.1)
    named = [(cut(name, 16), points[name], 6.0) for name in brokers] if len(brokers) <= MOST_NAMED else []
    axes.autoscale_view()
    axes.apply_aspect()  # names are placed on the picture as it will be
    lines = [(points[a], points[b]) for (a, b), *_ in rows]
    left_out = write_names(axes, named, lines=lines, middle=(0.0, 0.0))
    legend_below(sheet, axes, 3, order=[*LOOKS, "broker that goes away"])
    said = "Links are as wide as what they carry, before or after, whichever is more."
    return said + (" Some names are left out because there is no room." if left_out or not named else "")


def kind_of(before: float | None, after: float | None) -> str:
    """Return in which way a link changes."""
    if before is None:
        return "added"
    if after is None:
        return "removed"
    if abs(after - before) <= 1e-9 * max(before, after):
        return "as before"
    return "carries more" if after > before else "carries less"
