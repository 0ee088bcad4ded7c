"""The report's pictures of numbers: alternatives compared, cost over the number of groups, and what was replayed.

As in every picture, captions and legends say only what was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from covey.advisor.advice import Advice
from covey.planning.objective import Offer
from covey.reports.drawing import Picture, legend_below, picture
from covey.reports.labels import write_names
from covey.reports.theme import INK, PAPER, SERIES
from covey.reports.words import cut

FAR: Final = 5.0  # times the cheapest: what costs more would press all others together
WIDE: Final = 20.0  # times the smallest table: larger ones need a logarithmic axis
PARTS: Final = {
    "cost_training": "Training events are those that the plans were fitted to.",
    "cost_held_out": "Events held out chose between the plans.",
    "cost_fresh": "Fresh events did neither, so they say what to expect.",
}


def alternatives(
    rows: Mapping[str, Mapping[str, float]], columns: Sequence[tuple[str, str]], chosen: str
) -> Picture:
    """Return what the alternatives cost, as bars, one for each of the columns (key, title) that they have."""
    names = list(rows)
    present = [(key, title) for key, title in columns if any(key in numbers for numbers in rows.values())]

    def draw(sheet: Any) -> str:
        axes = sheet.subplots()
        height = 0.84 / max(1, len(present))
        for place, (key, title) in enumerate(present):
            own = [(row, rows[name][key]) for row, name in enumerate(names) if key in rows[name]]
            spots = [row - 0.42 + height * (place + 0.5) for row, _ in own]
            bars = axes.barh(
                spots, [value for _, value in own], height * 0.88, color=SERIES[place], label=title
            )
            axes.bar_label(bars, fmt="{:,.4g}", padding=3)
        axes.set_yticks(range(len(names)), [cut(name) for name in names])
        for label, name in zip(axes.get_yticklabels(), names, strict=True):
            label.set_fontweight("bold" if name == chosen else "normal")
        axes.invert_yaxis()
        axes.margins(x=0.12, y=0.01)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("cost of an event on average")
        legend_below(sheet, axes, max(1, len(present)))
        bold = f" The bold name, {chosen}, is the plan that was chosen." if chosen in names else ""
        said = " ".join(PARTS[key] for key, _ in present if key in PARTS)
        return f"The average cost of an event: the links it crosses, each at its cost. {said}{bold}"

    # A bar has room for its number.
    inches = 1.1 + len(names) * (0.16 + 0.17 * max(1, len(present)))
    return picture("The alternatives compared", (7.6, inches), draw)


def curve(points: Sequence[Mapping[str, float]]) -> Picture:
    """Return cost against the number of groups: `points` have groups, sample, held_out."""

    def draw(sheet: Any) -> str:
        axes = sheet.subplots()
        said = [
            "The average cost of an event by how many groups or regions there are, each with its own tree."
        ]
        for place, (key, title, meaning) in enumerate(
            (
                ("sample", "training events", "Trees were fitted to training events."),
                ("held_out", "events held out", "Nothing was fitted to events held out."),
            )
        ):
            xs = [point["groups"] for point in points if point.get(key) is not None]
            ys = [point[key] for point in points if point.get(key) is not None]
            if xs:
                look = {"marker": "os"[place], "color": SERIES[place]}
                axes.plot(xs, ys, markersize=4, label=title, **look)
                best = min(range(len(ys)), key=lambda spot: (ys[spot], xs[spot]))
                axes.plot(xs[best], ys[best], markersize=10, fillstyle="none", linestyle="none", **look)
                said.append(meaning)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel("groups or regions")
        axes.set_ylabel("cost of an event on average")
        legend_below(sheet, axes, 2)
        return " ".join([*said, "The larger outline on each line marks its least cost."])

    return picture("Cost of an event by number of groups", (7.0, 3.9), draw)


def front(offers: Sequence[Offer], along: Sequence[Offer], chosen: Offer | None) -> Picture:
    """Return traffic against entries of everything planned, with a line through what nothing else beats in both."""
    return picture(
        "Traffic and table entries of everything planned",
        (7.6, 4.4),
        lambda sheet: draw_front(sheet, offers, along, chosen),
        constrained=False,
    )


def draw_front(sheet: Any, offers: Sequence[Offer], along: Sequence[Offer], chosen: Offer | None) -> str:
    """Draw the front onto a sheet; return the caption."""
    axes = sheet.add_axes((0.09, 0.24, 0.88, 0.73))
    least = min(offer.cost for offer in offers)
    near = [offer for offer in offers if offer.cost <= FAR * least or offer in along]
    beaten = [offer for offer in near if offer not in along]
    look = {"linestyle": "none", "markersize": 5}
    axes.plot(
        [o.entries for o in beaten],
        [o.cost for o in beaten],
        marker="o",
        color=SERIES[1],
        label="beaten by the front",
        **look,
    )
    axes.plot(
        [o.entries for o in along],
        [o.cost for o in along],
        marker="o",
        markersize=6,
        color=SERIES[0],
        drawstyle="steps-post",
        label="the front",
    )
    if chosen is not None:
        axes.plot(
            chosen.entries,
            chosen.cost,
            marker="o",
            markersize=13,
            fillstyle="none",
            color=INK,
            linestyle="none",
            label="chosen",
        )
    sizes = [offer.entries for offer in near]
    wide = min(sizes) > 0 and max(sizes) > WIDE * min(sizes)
    if wide:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.08, y=0.12)
    axes.set_xlabel("entries of all routing tables")
    axes.set_ylabel("traffic of an event on average")
    spots: dict[tuple[float, float], list[str]] = {}
    for offer in [*([chosen] if chosen else []), *along]:
        names = spots.setdefault((offer.cost, offer.entries), [])
        if not names:
            names.append(f"{cut(offer.name)}, {offer.trees:,} tree{'s' * (offer.trees != 1)}")
    named = [(_together(names), (x, y), 10.5) for (y, x), names in _apart(spots, wide)]
    others = [((offer.entries, offer.cost), 5.0) for offer in near]
    left_out = write_names(axes, named, others, middle=(axes.get_xlim()[0], 0.0))
    legend_below(sheet, axes, 3)
    far = len(offers) - len(near)
    said = ["Farther left is smaller tables, farther down is less traffic, both on events held out."]
    if far:
        what = "1 plan that costs" if far == 1 else f"{far} plans that cost"
        said.append(f"{what} more than {FAR:g} times the cheapest {'is' if far == 1 else 'are'} left out.")
    if left_out:
        said.append("Some names are left out because there is no room.")
    return " ".join(said)


def tried(advice: Advice) -> Picture:
    """Return traffic against tables for everything that was replayed."""
    return picture(
        "Traffic and routing tables of everything replayed",
        (7.6, 5.0),
        lambda sheet: draw_tried(sheet, advice),
        constrained=False,
    )


def draw_tried(sheet: Any, advice: Advice) -> str:
    """Draw traffic against tables onto a sheet; return the caption."""
    axes = sheet.add_axes((0.09, 0.22, 0.88, 0.75))
    events = max(1, advice.events)
    measured = [(one, one.measured) for one in advice.tried if one.measured is not None]
    least = min((numbers.cost for _, numbers in measured), default=0.0)
    near = [(one, numbers) for one, numbers in measured if numbers.cost <= FAR * least]
    sizes = [numbers.entries + 1 for _, numbers in near] or [1]
    wide = max(sizes) > WIDE * min(sizes)
    spots: dict[tuple[float, float], list[str]] = {}
    # Both often fall together: the filled square is visible inside the circle.
    for told, look in (
        (True, {"marker": "o", "s": 80, "facecolors": PAPER, "edgecolors": SERIES[0], "linewidths": 1.6}),
        (False, {"marker": "s", "s": 22, "color": SERIES[3], "linewidths": 0}),
    ):
        some = [(one, numbers) for one, numbers in near if one.candidate.advertisements is told]
        xs = [numbers.entries + wide for _, numbers in some]
        ys = [numbers.cost / events for _, numbers in some]
        if some:
            axes.scatter(
                xs, ys, label=f"{'with' if told else 'without'} advertisements", zorder=2 + (not told), **look
            )
        for x, y, (one, _) in zip(xs, ys, some, strict=True):
            spots.setdefault((y, x), []).append(one.candidate.name)
    for one, colour, title, size in (
        (advice.now, INK, "runs now", 230),
        (advice.best, SERIES[2], "recommended", 370),
    ):
        if any(one is other for other, _ in near) and one.measured is not None:
            spot = ([one.measured.entries + wide], [one.measured.cost / events])
            axes.scatter(*spot, s=size, facecolors="none", edgecolors=colour, linewidths=1.8, label=title)
    axes.set_ylim(0, max([*(y for y, _ in spots), 0.0]) * 1.25 or 1.0)
    if wide:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_xlim(min(sizes) / 1.6, max(sizes) * 2.5)
    else:
        axes.set_xlim(0, max(sizes) * 1.3)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("entries of all routing tables" + (", plus one" if wide else ""))
    axes.set_ylabel("cost of an event on average")
    named = [(_together(names), (x, y), 10.5) for (y, x), names in _apart(spots, wide)]
    others = [((x, y), 5.0) for y, x in spots]
    left_out = write_names(axes, named, others, middle=(axes.get_xlim()[0], 0.0))
    legend_below(sheet, axes, 4)
    return _tried_caption(
        len(named) < len({one.candidate.name for one, _ in near}), len(measured) - len(near), left_out
    )


def _tried_caption(together: bool, far: int, left_out: int) -> str:
    said = ["Farther left is smaller tables, farther down is less traffic."]
    if together:
        said.append("Ways of routing that lie together have one name.")
    if far:
        what = "1 way of routing that costs" if far == 1 else f"{far} ways of routing that cost"
        are = "is" if far == 1 else "are"
        said.append(f"{what} more than {FAR:g} times the cheapest {are} left out.")
    if left_out:
        said.append("Some names are left out because there is no room.")
    return " ".join(said)


def _together(names: Sequence[str]) -> str:
    return cut(names[0]) if len(names) == 1 else f"{cut(names[0])} and {len(names) - 1} more"


def _apart(
    spots: Mapping[tuple[float, float], list[str]], wide: bool
) -> list[tuple[tuple[float, float], list[str]]]:
    """Return the points to name, with those that lie almost on one left to the first."""
    found: list[tuple[tuple[float, float], list[str]]] = []
    top, right = (max((spot[axis] for spot in spots), default=0.0) for axis in (0, 1))
    for (y, x), names in sorted(spots.items()):
        near = next(
            (
                one
                for one in found
                if abs(one[0][0] - y) < 0.06 * top
                and (abs(math.log(one[0][1] / x)) < 0.35 if wide else abs(one[0][1] - x) < 0.03 * right)
            ),
            None,
        )
        if near is None:
            found.append(((y, x), list(dict.fromkeys(names))))
        else:
            near[1].extend(name for name in dict.fromkeys(names) if name not in near[1])
    return found
