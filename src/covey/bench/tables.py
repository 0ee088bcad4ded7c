"""The tables of a run, as rows of text: what each work costs beside others, how that grows, and what disturbed it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from covey.bench.comparison import Circumstances, Comparison, largest
from covey.bench.growth import growths

Lines = list[tuple[str, ...]]

RATIOS: Final = ("part", "what is measured", "size", "ours", "beside", "theirs", "ratio", "equal")
GROWTH: Final = ("part", "what grows", "with", "ours", "beside")
DISTURBANCES: Final = (
    "what is measured",
    "size",
    "system",
    "client",
    "cost",
    "steal ms",
    "server waited ms",
    "clients waited ms",
)

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


def disturbance_lines(comparisons: Sequence[Comparison]) -> Lines:
    """Return a line for each system and figure at every size that has circumstances, ours before others'."""
    groups: dict[tuple[str, str, int], dict[str, tuple[str, ...]]] = {}
    for one in comparisons:
        if one.ours_under is None or one.theirs_under is None or one.ours is None or one.theirs is None:
            continue
        what = (one.work, f"{one.size:,} {one.axis}")
        group = groups.setdefault((one.work, one.axis, one.size), {})
        ours, theirs = cost_text(one.ours, one.unit), cost_text(one.theirs, one.unit)
        group.setdefault("", (*what, "ours", *_under(one.ours_under, ours)))
        group[one.baseline] = (*what, one.baseline, *_under(one.theirs_under, theirs))
    return [line for group in groups.values() for line in group.values()]


def _under(circumstances: Circumstances, cost: str) -> tuple[str, ...]:
    times_ms = (circumstances.steal_ms, circumstances.server_wait_ms, circumstances.client_wait_ms)
    return circumstances.client, cost, *(f"{time_ms:,.0f}" for time_ms in times_ms)


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
