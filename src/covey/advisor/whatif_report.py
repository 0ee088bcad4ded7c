"""What a change would do to a network, as a page: a table, the network drawn, and the links whose load changes most."""

from __future__ import annotations

from html import escape
from typing import Any

from covey.advisor.labels import write_names
from covey.advisor.layout import radial
from covey.advisor.page import number, page, table
from covey.advisor.pictures import cut, figure
from covey.advisor.summary import entries_text
from covey.advisor.theme import IDLE, INK, SERIES
from covey.advisor.whatif import Comparison, State, link_changes

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


def rows_of(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """Return the table of what changes, as texts: before, after, and after with the plan of before."""
    states = [comparison.before, comparison.after, *([comparison.kept] if comparison.kept else [])]
    rows = [("plan", [state.plan.name for state in states])]
    for key, title in ROWS:
        share = key == "over_steiner"
        rows.append(
            (title, [f"{s.numbers[key]:+.1%}" if share else f"{s.numbers[key]:,.4g}" for s in states])
        )
    rows.append(("busiest link", [_link(state) for state in states]))
    rows.append(("busiest broker", [_broker(state) for state in states]))
    return rows


def heads_of(comparison: Comparison) -> list[str]:
    """Return the titles of the columns of `rows_of`."""
    return ["", "before", "after", *(["after, plan of before"] if comparison.kept else [])]


def _link(state: State) -> str:
    (a, b), load = state.busiest_link
    return f"{cut(a)}–{cut(b)}: {load:,.4g}"


def _broker(state: State) -> str:
    broker, load = state.busiest_broker
    return f"{cut(broker)}: {load:,.4g}"


def whatif_page(comparison: Comparison) -> str:
    """Return the page."""
    cells = [
        [escape(title), *(f'<td class="number">{escape(text)}</td>' for text in texts)]
        for title, texts in rows_of(comparison)
    ]
    notes = "".join(f"<li>{escape(note)}</li>" for note in comparison.notes)
    links = [
        [escape(f"{cut(a)}–{cut(b)}"), number(before), number(after)]
        for (a, b), before, after in link_changes(comparison)[:MOST_LINKS]
        if before != after
    ]
    changed = (
        table(["link", "before", "after"], links, [""] * len(links)) if links else "<p>No load changes.</p>"
    )
    whole = table(heads_of(comparison), cells, [""] * len(cells), copy=True)
    fine = "<p class='fine'>The load of a link is how many of the sampled events cross it, by rate.</p>"
    parts = [
        f'<section class="lead"><p>{escape(result(comparison))}</p></section>',
        f"<section><h2>Before and after</h2>{whole}<ul class='fine'>{notes}</ul></section>",
        f"<section><h2>The network</h2>{picture(comparison)}</section>",
        f"<section><h2>Links whose load changes most</h2>{changed}{fine}</section>",
    ]
    return page("What if", parts)


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


def picture(comparison: Comparison) -> str:
    """Return the network before and after in one picture, as HTML."""
    return figure(
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
    looks = {
        "added": {"color": SERIES[2], "linestyle": "-"},
        "removed": {"color": SERIES[1], "linestyle": ":"},
        "carries more": {"color": SERIES[0], "linestyle": "-"},
        "carries less": {"color": SERIES[3], "linestyle": "-"},
        "as before": {"color": IDLE, "linestyle": "-"},
    }
    seen: set[str] = set()
    for (a, b), before, after in reversed(rows):
        kind = kind_of(before, after)
        width = 0.6 + 5.0 * max(before or 0.0, after or 0.0) / most
        xs, ys = zip(points[a], points[b], strict=True)
        axes.plot(xs, ys, linewidth=width, label=None if kind in seen else kind, zorder=1, **looks[kind])
        seen.add(kind)
    for names, look in (
        ([name for name in brokers if name in comparison.after.brokers], {"color": INK}),
        (
            [name for name in brokers if name not in comparison.after.brokers],
            {"color": SERIES[1], "fillstyle": "none"},
        ),
    ):
        if names:
            xs, ys = zip(*(points[name] for name in names), strict=True)
            axes.plot(xs, ys, marker="o", markersize=6, linestyle="none", zorder=2, **look)
    axes.margins(0.1)
    named = [(cut(name, 16), points[name], 6.0) for name in brokers] if len(brokers) <= MOST_NAMED else []
    axes.autoscale_view()
    axes.apply_aspect()  # names are placed on the picture as it will be
    lines = [(points[a], points[b]) for (a, b), *_ in rows]
    left_out = write_names(axes, named, lines=lines, middle=(0.0, 0.0))
    order = [kind for kind in looks if kind in seen]
    handles, labels = axes.get_legend_handles_labels()
    shown = dict(zip(labels, handles, strict=True))
    sheet.legend([shown[kind] for kind in order], order, loc="lower center", ncols=5)
    said = "Links are as wide as what they carry, before or after, whichever is more."
    if any(name not in comparison.after.brokers for name in brokers):
        said += " Rings are brokers that go away."
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
