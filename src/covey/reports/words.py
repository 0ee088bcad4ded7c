"""Numbers and counts as people read them, on pages, in pictures and in terminals."""

from __future__ import annotations

from typing import Final

LARGE: Final = 10_000  # from here on, no digits behind the point


def counted(count: int, thing: str) -> str:
    """Return how many of a thing there are, in words: 1 entry, 2,000 entries."""
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{count:,} {thing if count == 1 else plural}"


def number_text(value: float) -> str:
    """Return a number with four significant digits, whole numbers and large ones whole."""
    whole = float(value).is_integer()
    return f"{value:,.0f}" if whole or abs(value) >= LARGE else f"{value:,.4g}"


def cut(name: str, most: int = 28) -> str:
    """Return a name that is short enough for a picture, on one line."""
    line = " ".join(name.split())
    return line if len(line) <= most else line[: most - 1] + "…"
