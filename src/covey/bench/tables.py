"""The two tables of a run, as rows of text: what each work costs beside others, and how that grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from covey.bench.comparison import Comparison, largest
from covey.bench.growth import growths

Lines = list[tuple[str, ...]]

RATIOS: Final = ("part", "what is measured", "size", "ours", "beside", "theirs", "ratio", "equal")
GROWTH: Final = ("part", "what grows", "with", "ours", "beside")

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
