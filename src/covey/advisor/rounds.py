"""A coordinator's rounds as one page: what an event crossed, what was predicted, and what was done about it.

It needs no other file and no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from covey.reports.drawing import Picture, legend_below, picture
from covey.reports.page import Cell, Content, Kind, Table, page
from covey.reports.theme import INK, SERIES
from covey.reports.words import counted

MOST_ROWS = 200
Rounds = Sequence[Mapping[str, Any]]
LINES = (
    ("measured", "measured", "-", SERIES[0]),
    ("installed", "predicted for what was in use", "--", SERIES[4]),
    ("planned", "predicted for the new plan", ":", SERIES[3]),
    ("floor", "a Steiner tree for each event", "-.", INK),
)
CHANGES: Mapping[str, tuple[str, Any, str]] = {  # colour, line and name of what changes the plan
    "install": (SERIES[2], "-", "plan installed"),
    "take back": (SERIES[1], (0, (6, 2)), "plan taken back"),
}


def rounds_page(rounds: Rounds) -> str:
    """Return the page; `rounds` are lines of rounds.jsonl."""
    return page(
        "rounds.html",
        "A network that plans itself",
        first=lead(rounds),
        picture=_picture(rounds),
        table=_table(rounds),
        most_rows=MOST_ROWS if len(rounds) > MOST_ROWS else 0,
    )


def lead(rounds: Rounds) -> str:
    """Return what the coordinator has done, in a sentence."""
    done, back = (sum(one["action"] == action for one in rounds) for action in ("install", "take back"))
    installed = f"{counted(done, 'plan')} {'was' if done == 1 else 'were'} installed"
    taken = f"{back:,} {'was' if back == 1 else 'were'} taken back"
    did = f"{counted(len(rounds), 'round')}: {installed}" + (f", and {taken}." if back else ".")
    measured = [one["measured"] for one in rounds if one.get("measured")]
    if len(measured) < 2:
        return did
    change = 1 - measured[-1] / measured[0]
    traffic = f"{abs(change):.0%} {'less' if change >= 0 else 'more'} traffic"
    return f"An event crosses {measured[-1]:.2f} links now and crossed {measured[0]:.2f} at first: {traffic}. {did}"


def _picture(rounds: Rounds) -> Picture | None:
    if not any(one.get(key) is not None for one in rounds for key, *_ in LINES):
        return None
    return picture(
        "Links that an event crosses, by rounds", (8.4, 4.0), lambda sheet: draw_rounds(sheet, rounds)
    )


def draw_rounds(sheet: Any, rounds: Rounds) -> str:
    """Draw what an event crossed in each round onto a sheet; return the caption."""
    from matplotlib.ticker import MaxNLocator

    axes = sheet.subplots()
    for key, title, style, colour in LINES:
        spots = [(one["number"], one[key]) for one in rounds if one.get(key) is not None]
        if spots:
            xs, ys = zip(*spots, strict=True)
            # A line of one point would not be seen.
            dots = "o" if key == "measured" or len(spots) == 1 else ""
            axes.plot(xs, ys, linestyle=style, marker=dots, markersize=3.5, color=colour, label=title)
    marked = set()
    for one in rounds:
        if one["action"] in CHANGES:
            shade, dashes, title = CHANGES[one["action"]]
            new = one["action"] not in marked
            axes.axvline(
                one["number"], color=shade, linestyle=dashes, linewidth=1.4, label=title if new else None
            )
            marked.add(one["action"])
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round")
    axes.set_ylabel("links that an event crosses")
    legend_below(sheet, axes, 3)
    upright = " Upright lines mark the rounds that changed the plan." if marked else ""
    return f"The average number of links that an event crosses, measured and predicted.{upright}"


def _table(rounds: Rounds) -> Table:
    heads = (
        "round",
        "at (UTC)",
        "done",
        "events",
        "left out",
        "subscriptions",
        "links an event",
        "saving, predicted",
        "saving, measured",
        "why",
    )
    rows: list[list[Content]] = []
    kinds: list[Kind] = []
    for one in reversed(rounds[-MOST_ROWS:]):
        at = datetime.fromtimestamp(one["at_s"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        rows.append(
            [
                one["number"],
                at,
                str(one["action"]),
                one.get("events"),
                _left_out(one),
                *(one.get(key) for key in ("subscriptions", "measured")),
                *(_share(one.get(key)) for key in ("predicted_saving", "measured_saving")),
                str(one["reason"]),
            ]
        )
        kinds.append("chosen" if one["action"] in CHANGES else "")
    return Table(heads, rows, kinds, copy=True)


def _left_out(one: Mapping[str, Any]) -> int:
    """Return how many rows of samples a round has left out, for any reason."""
    every = (one.get(key, {}) for key in ("dropped", "quarantined"))
    return sum(sum(reasons.values()) for tables in every for reasons in tables.values())


def _share(value: float | None) -> Cell:
    return Cell("" if value is None else f"{value:.1%}", is_number=True)
