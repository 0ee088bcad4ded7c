"""The generated part of a page about performance: the tables and the picture of a saved run, between two markers.

All else on the page is left as it is. The same run gives the same text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from covey.bench.comparison import Run
from covey.bench.tables import GROWTH, RATIOS, growth_lines, live_table, markdown, ratio_lines
from covey.errors import ConfigError

BEGIN: Final = "<!-- begin: written by covey bench document -->"
IDLE_LOAD: Final = 1.0  # above it, others share the cores
PICTURE: Final = "images/growth.svg"  # beside the page
END: Final = "<!-- end: written by covey bench document -->"


def block(run: Run, picture: str) -> str:
    """Return what stands between the markers; `picture` is where the page finds the growth curves."""
    sizes = "quick sizes" if run.quick else "default sizes"
    took = ", ".join(f"{part} {seconds:,.0f} s" for part, seconds in run.seconds.items())
    checked = sum(one.equal is not None for one in run.comparisons)
    wrong = len(run.differing)
    answers = f"{wrong} of them differed" if wrong else "all equal"
    circumstances = (
        f"One run of `covey bench all`, {sizes}, {run.made}, {run.machine}; the load of the machine was "
        f"{run.load_before:.1f} before and {run.load_after:.1f} after, the benchmark itself included. "
        f"{checked} comparisons had their answers checked, {answers}. It took: {took}."
    )
    warnings = ["**These are the small sizes of `--quick`.**"] * run.quick + [
        "**Others were at work on the machine: of times, take only the ratios, and those with care.**"
    ] * (run.load_before > IDLE_LOAD)
    heads, lines = live_table(run.comparisons)
    explained = (
        "Live servers, all cases, with what the machine did meanwhile: how long its host ran others (steal), and how "
        "long threads of the server and of the clients could run and had no CPU. Where these are large, a latency is "
        "the machine's and not the server's."
    )
    live = [explained, "", markdown(heads, lines)] if lines else []
    return "\n".join(
        [
            " ".join([circumstances, *warnings]),
            "",
            "Costs at the largest size of the run. A ratio is the other way's cost over ours: above 1 ours is cheaper.",
            "",
            markdown(RATIOS, ratio_lines(run.comparisons)),
            "How costs grow: the exponent *e* of a cost that grows as size^*e*, by least squares over the sizes named.",
            "",
            markdown(GROWTH, growth_lines(run.comparisons)),
            *live,
            f"![Costs by size, ours and others'; both axes logarithmic]({picture})",
        ]
    )


def replaced(page: str, run: Run, picture: str) -> str:
    """Return the page with another block between its markers; ConfigError if it has not one of each, in order."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise ConfigError(
            f"the page has no place for the figures (expected one line {BEGIN!r} and one {END!r})"
        )
    return f"{before}{BEGIN}\n\n{block(run, picture)}\n\n{END}{after}"


def write_block(run: Run, page: Path, picture: str) -> None:
    """Replace the block of a page; ConfigError if it cannot be read or written, or has no markers."""
    try:
        text = page.read_text(encoding="utf-8")
        page.write_text(replaced(text, run, picture), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot rewrite {str(page)!r:.80}: {error.strerror or error}") from None
