"""The tables of a run, as rows of text: what each work costs beside others, how that grows, and what disturbed it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from covey.bench.comparison import Circumstances, Comparison, largest
from covey.bench.growth import growths

Lines = list[tuple[str, ...]]

RATIOS: Final = ("part", "what is measured", "size", "ours", "beside", "theirs", "ratio", "equal")
GROWTH: Final = ("part", "what grows", "with", "ours", "beside")

DISTURBANCES: Final = ("steal, ms", "server waited, ms", "clients waited, ms")

_EQUAL: Final = {True: "yes", False: "NO", None: "–"}


def ratio_lines(comparisons: Sequence[Comparison]) -> Lines:
    """Return a line for each work and baseline, at the largest size, and for all that could not be done."""
    lines: Lines = []
    for one in largest(comparisons):
        if one.ours is not None and one.theirs is None:
            continue
        if one.ours is None:
            lines.append((one.part, one.work, "–", "–", one.note, "–", "–", "–"))
            continue
        assert one.theirs is not None
        ours, theirs = cost_text(one.ours, one.unit), cost_text(one.theirs)
        size = f"{one.size:,} {one.axis}"
        ratio = ratio_text(one.ratio)
        lines.append((one.part, one.work, size, ours, one.baseline, theirs, ratio, _EQUAL[one.equal]))
    return lines


def growth_lines(comparisons: Sequence[Comparison]) -> Lines:
    """Return a line for each work that was done at enough sizes."""
    return [
        (
            one.part,
            one.work,
            f"{one.axis}: {', '.join(f'{size:,}' for size in one.sizes)}",
            _exponent(one.ours),
            ", ".join(f"{name} {_exponent(value)}" for name, value in one.theirs.items()) or "–",
        )
        for one in growths(comparisons)
    ]


def live_table(comparisons: Sequence[Comparison]) -> tuple[tuple[str, ...], Lines]:
    """Return the heads and lines of a table of live servers, with what the machine did while they were measured.

    There is a line for each case and system, ours before others', and a column for each figure.
    """
    found: dict[tuple[str, str], tuple[Circumstances, dict[str, str]]] = {}
    figures: dict[str, None] = {}
    for one in comparisons:
        for system, cost, under in (
            ("ours", one.ours, one.ours_under),
            (one.baseline, one.theirs, one.theirs_under),
        ):
            if under is not None and cost is not None:
                figures[under.figure] = None
                found.setdefault((under.case, system), (under, {}))[1][under.figure] = cost_text(
                    cost, one.unit
                )
    cases = list(dict.fromkeys(case for case, _ in found))
    lines = [
        (
            case,
            system,
            under.client,
            *(costs.get(figure, "–") for figure in figures),
            *(f"{ms:,.0f}" for ms in (under.steal_ms, under.server_wait_ms, under.client_wait_ms)),
        )
        for (case, system), (under, costs) in sorted(found.items(), key=lambda one: cases.index(one[0][0]))
    ]
    return ("case", "system", "client", *figures, *DISTURBANCES), lines


def markdown(heads: Sequence[str], lines: Lines) -> str:
    """Return a table in Markdown."""

    def cells() -> Iterator[Sequence[str]]:
        yield heads
        yield ["---"] * len(heads)
        yield from lines

    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in cells())


def cost_text(value: float, unit: str = "") -> str:
    """Return a cost with three digits that say something."""
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{digits} {unit}".strip()


def ratio_text(value: float | None) -> str:
    """Return a ratio: 1,234, 12, 1.23, 0.045."""
    if value is None:
        return "–"
    return f"× {value:,.0f}" if value >= 10 else f"× {value:.2g}"


def _exponent(value: float | None) -> str:
    if value is None:
        return "–"
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text
