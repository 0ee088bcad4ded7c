"""The colours of pages and pictures, as CSS variables with a light and a dark value each.

Pages and pictures follow the browser's colour scheme. Paper is always light: dark values apply to screens only. A
picture inside a page is an image of its own, so it has its own copy of the variables (`themed`); browsers give it the
colour scheme of the element that shows it, which is why `css` sets `color-scheme`.

Every text colour has a contrast of at least 4.5 : 1 with each background that it is used on (`TEXTS`), every mark of a
picture at least 3 : 1 with the paper (`MARKS`), in both schemes: WCAG 2.1, level AA.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

# By name: the colour in the light, and in the dark. No two light colours are equal, so that each names its variable.
COLOURS: Final[Mapping[str, tuple[str, str]]] = {
    "paper": ("#ffffff", "#111a2e"),  # of sections and pictures
    "ground": ("#f8fafc", "#0b1120"),  # of the page
    "ink": ("#1e293b", "#e2e8f0"),
    "soft": ("#526075", "#a3b1c6"),  # text that matters less
    "line": ("#e2e8f0", "#334155"),  # rules and grids
    "idle": ("#7c8aa0", "#718096"),  # marks that matter less
    "link": ("#1d4ed8", "#93c5fd"),
    "good": ("#065f46", "#6ee7b7"),
    "bad": ("#b91c1c", "#fca5a5"),
    "warning": ("#d97706", "#f59e0b"),
    "warning-ground": ("#fffbeb", "#2a2110"),
    "chosen-ground": ("#eff6ff", "#172a4a"),
    "now-ground": ("#f1f5f9", "#1b263b"),
    "tag-ground": ("#dbeafe", "#1e3a6e"),
    "host": ("#f59e0b", "#fbbf24"),  # the inside of a dot, whose edge has the contrast
    "series-0": ("#2563eb", "#60a5fa"),
    "series-1": ("#dc2626", "#f87171"),
    "series-2": ("#047857", "#34d399"),
    "series-3": ("#b45309", "#fb923c"),
    "series-4": ("#7c3aed", "#a78bfa"),
    "series-5": ("#0e7490", "#22d3ee"),
    "series-6": ("#be185d", "#f472b6"),
    "series-7": ("#4d7c0f", "#a3e635"),
    "use-0": ("#5a9e0a", "#4d7c10"),  # of how many trees use a link: from few to many
    "use-1": ("#0d9488", "#14988c"),
    "use-2": ("#0369a1", "#38bdf8"),
    "use-3": ("#4338ca", "#c4b5fd"),
    "use-4": ("#3b0764", "#fdf4ff"),
}
LIGHT: Final = {name: light for name, (light, _) in COLOURS.items()}
DARK: Final = {name: dark for name, (_, dark) in COLOURS.items()}
INK, PAPER, SOFT, LINE, IDLE, HOST = (
    LIGHT[name] for name in ("ink", "paper", "soft", "line", "idle", "host")
)
SERIES: Final = tuple(colour for name, colour in LIGHT.items() if name.startswith("series-"))
USE: Final = tuple(colour for name, colour in LIGHT.items() if name.startswith("use-"))
TEXTS: Final[Mapping[str, tuple[str, ...]]] = {  # by colour of a text: what it stands on
    "ink": ("paper", "ground", "warning-ground", "chosen-ground", "now-ground", "tag-ground"),
    "soft": ("paper", "ground", "warning-ground", "chosen-ground", "now-ground"),
    "link": ("paper", "tag-ground"),
    "good": ("paper", "chosen-ground", "now-ground"),
    "bad": ("paper", "chosen-ground", "now-ground"),
    "series-1": ("paper",),
    "series-2": ("paper",),
}
MARKS: Final = (*(name for name in COLOURS if name.startswith(("series-", "use-"))), "idle", "warning")

_NAMES: Final = {colour: name for name, colour in LIGHT.items()}
_DARK_SCREEN: Final = "@media screen and (prefers-color-scheme: dark)"


def css(selector: str, names: Iterable[str] = COLOURS) -> str:
    """Return a style sheet that gives the variables to a selector, light or dark as the browser asks."""
    order = [name for name in COLOURS if name in set(names)]
    light, dark = ("; ".join(f"--{name}: {of[name]}" for name in order) for of in (LIGHT, DARK))
    return (
        f"{selector} {{ color-scheme: light dark; {light} }}\n{_DARK_SCREEN} {{ {selector} {{ {dark} }} }}\n"
        f"@media print {{ {selector} {{ color-scheme: light }} }}\n"
    )


def themed(svg: str) -> str:
    """Return a picture that matplotlib has drawn in colours of LIGHT as one that follows light and dark.

    Only styles of elements are changed: a text may have the name of a colour in it.
    """
    used: set[str] = set()

    def variable(match: re.Match[str]) -> str:
        name = _NAMES.get(match[2])
        if name is None:
            return match[0]
        used.add(name)
        return f"{match[1]}var(--{name})"

    def element(match: re.Match[str]) -> str:
        return re.sub(r"(\b(?:fill|stroke): )(#[0-9a-f]{6})\b", variable, match[0])

    # In a text < and > are escaped, so what is between them is an element.
    inside = re.sub(r"<[^<>]*>", element, svg)
    # A text stays readable where it crosses a line.
    halo = "text { paint-order: stroke; stroke: var(--paper); stroke-width: 2.5px; stroke-linejoin: round }"
    style = f"<style>{css('svg', {*used, 'paper'})}{halo}</style>"
    return re.sub(r"<svg\b[^<>]*>", lambda match: match[0] + style, inside, count=1)
