"""The report's pictures of numbers: alternatives compared, cost over the number of groups, and what was replayed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from covey.advisor.advice import Advice
from covey.advisor.pictures import COLOURS, INK, cut, image

FAR = 5.0  # times the cheapest: what costs more would press all others together


def alternatives(
    rows: Mapping[str, Mapping[str, float]], columns: Sequence[tuple[str, str]], chosen: str, alt: str
) -> str:
    """Return what the alternatives cost, as bars, one for each of the columns (key, title) that they have."""
    names = list(rows)
    present = [(key, title) for key, title in columns if any(key in numbers for numbers in rows.values())]

    def draw(sheet: Any) -> None:
        axes = sheet.subplots()
        height = 0.8 / max(1, len(present))
        for place, (key, title) in enumerate(present):
            values = [rows[name].get(key, 0.0) for name in names]
            spots = [row - 0.4 + height * (place + 0.5) for row in range(len(names))]
            bars = axes.barh(spots, values, height * 0.9, color=COLOURS[place], alpha=0.85, label=title)
            axes.bar_label(bars, fmt="{:,.4g}", padding=3, fontsize=7.5)
        axes.set_yticks(range(len(names)), [cut(name) for name in names])
        for label, name in zip(axes.get_yticklabels(), names, strict=True):
            label.set_fontweight("bold" if name == chosen else "normal")
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.grid(axis="y", alpha=0)
        axes.set_xlabel("cost of an event on average")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=max(1, len(present)))

    return image(alt, (7.6, 1.2 + 0.55 * len(names)), draw)


def curve(points: Sequence[Mapping[str, float]], alt: str) -> str:
    """Return cost against the number of groups: `points` have groups, sample, held_out."""

    def draw(sheet: Any) -> None:
        axes = sheet.subplots()
        for place, (key, title) in enumerate((("sample", "sample"), ("held_out", "held out"))):
            xs = [point["groups"] for point in points if point.get(key) is not None]
            ys = [point[key] for point in points if point.get(key) is not None]
            if xs:
                axes.plot(xs, ys, marker="o", markersize=3.5, color=COLOURS[place], label=title)
                best = min(range(len(ys)), key=lambda spot: (ys[spot], xs[spot]))
                axes.plot(
                    xs[best], ys[best], marker="o", markersize=9, fillstyle="none", color=COLOURS[place]
                )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel("groups or regions, each with a tree")
        axes.set_ylabel("cost of an event on average")
        axes.legend()

    return image(alt, (6.4, 3.4), draw)


def tried(advice: Advice, alt: str) -> str:
    """Return traffic against tables for everything that was replayed."""

    def draw(sheet: Any) -> None:
        axes = sheet.subplots()
        events = max(1, advice.events)
        spots: dict[tuple[float, int], list[str]] = {}
        least = min((one.measured.cost for one in advice.tried if one.measured is not None), default=0.0)
        for told, marker in ((True, "o"), (False, "s")):
            some = [one for one in advice.tried if one.candidate.advertisements is told]
            measured = [
                (one.candidate.name, one.measured)
                for one in some
                if one.measured is not None and one.measured.cost <= FAR * least
            ]
            xs = [numbers.entries + 1 for _, numbers in measured]
            ys = [numbers.cost / events for _, numbers in measured]
            title = f"{'with' if told else 'without'} advertisements"
            axes.scatter(
                xs, ys, marker=marker, s=34, alpha=0.75, color=COLOURS[0 if told else 3], label=title
            )
            for name, numbers in measured:
                spots.setdefault((numbers.cost / events, numbers.entries + 1), []).append(name)
        for (y, x), names in _apart(spots):
            said = names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"
            axes.annotate(cut(said), (x, y), xytext=(4, 4), textcoords="offset points", fontsize=6.5)
        for one, colour, title in ((advice.now, INK, "runs now"), (advice.best, COLOURS[2], "recommended")):
            if one.measured is not None and one.measured.cost <= FAR * least:
                axes.scatter(
                    [one.measured.entries + 1],
                    [one.measured.cost / events],
                    s=190,
                    facecolors="none",
                    edgecolors=colour,
                    linewidths=1.8,
                    label=title,
                )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("entries of all routing tables, plus one")
        axes.set_ylabel("cost of an event on average")
        axes.margins(0.1)
        axes.legend(fontsize=7.5)

    return image(alt, (7.6, 4.4), draw)


def _apart(spots: Mapping[tuple[float, int], list[str]]) -> list[tuple[tuple[float, int], list[str]]]:
    """Return the points to name, with those that lie almost on one left to the first."""
    found: list[tuple[tuple[float, int], list[str]]] = []
    top = max((y for y, _ in spots), default=0.0)
    for (y, x), names in sorted(spots.items()):
        near = next(
            (one for one in found if abs(one[0][0] - y) < 0.06 * top and abs(math.log(one[0][1] / x)) < 0.35),
            None,
        )
        if near is None:
            found.append(((y, x), list(dict.fromkeys(names))))
        else:
            near[1].extend(name for name in dict.fromkeys(names) if name not in near[1])
    return found
