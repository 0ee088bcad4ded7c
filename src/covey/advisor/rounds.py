"""A coordinator's rounds as one page: what an event crossed, what was predicted, and what was done about it.

It needs no other file and no network. Texts that come from brokers are escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from covey.advisor.page import STYLE, figure, number, table
from covey.advisor.pictures import COLOURS, INK, image

MOST_ROWS = 200
Rounds = Sequence[Mapping[str, Any]]
LINES = (
    ("measured", "measured", "o-"),
    ("installed", "predicted for what was in use", "--"),
    ("planned", "predicted for the new plan", ":"),
    ("floor", "a Steiner tree for each event", "-."),
)
CHANGES = {"install": COLOURS[2], "take back": COLOURS[1]}


def rounds_page(rounds: Rounds) -> str:
    """Return the page; `rounds` are lines of rounds.jsonl."""
    done = sum(one["action"] == "install" for one in rounds)
    back = sum(one["action"] == "take back" for one in rounds)
    lead = f"{len(rounds):,} rounds: {done:,} plans were installed, {back:,} of them were taken back."
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>A network that plans itself</title><style>{STYLE}</style></head><body><main>",
        "<h1>A network that plans itself</h1>",
        f'<section class="lead"><p>{lead}</p></section>',
        f"<section><h2>Links that an event crosses</h2>{_picture(rounds)}</section>",
        f"<section><h2>Rounds, the last first</h2>{_table(rounds)}</section>",
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


def _picture(rounds: Rounds) -> str:
    caption = "A green line is the installation of a plan, a red one that a plan was taken back."
    drawn = image("Links that an event crosses, by rounds", (8.4, 3.6), lambda sheet: _draw(sheet, rounds))
    return figure(drawn, caption)


def _draw(sheet: Any, rounds: Rounds) -> None:
    axes = sheet.subplots()
    for place, (key, title, style) in enumerate(LINES):
        spots = [(one["number"], one[key]) for one in rounds if one.get(key) is not None]
        if spots:
            xs, ys = zip(*spots, strict=True)
            axes.plot(
                xs, ys, style, markersize=3.5, color=INK if key == "floor" else COLOURS[place], label=title
            )
    for one in rounds:
        if one["action"] in CHANGES:
            axes.axvline(one["number"], color=CHANGES[one["action"]], linewidth=1.2, alpha=0.7)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("round")
    axes.set_ylabel("links an event")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7.5)


def _table(rounds: Rounds) -> str:
    heads = (
        "round",
        "at",
        "done",
        "events",
        "left out",
        "subscriptions",
        "links an event",
        "predicted",
        "measured",
        "why",
    )
    rows = []
    for one in reversed(rounds[-MOST_ROWS:]):
        at = datetime.fromtimestamp(one["at_s"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        savings = [_share(one.get(key)) for key in ("predicted_saving", "measured_saving")]
        numbers = [number(one.get("events")), number(_left_out(one))]
        numbers += [number(one.get(key)) for key in ("subscriptions", "measured")]
        done = [number(one["number"]), escape(at), escape(str(one["action"]))]
        rows.append([*done, *numbers, *savings, escape(str(one["reason"]))])
    return table(
        heads, rows, ["chosen" if one["action"] in CHANGES else "" for one in reversed(rounds[-MOST_ROWS:])]
    )


def _left_out(one: Mapping[str, Any]) -> int:
    """Return how many rows of samples a round has left out, for any reason."""
    every = (one.get(key, {}) for key in ("dropped", "quarantined"))
    return sum(sum(reasons.values()) for tables in every for reasons in tables.values())


def _share(value: float | None) -> str:
    return f'<td class="number">{"" if value is None else f"{value:.1%}"}</td>'
