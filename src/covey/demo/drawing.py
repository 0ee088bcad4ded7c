"""The network as SVG: brokers where their cities are, links as wide as their traffic, and small pictures of trees."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from html import escape
from typing import Final

from covey.demo.findings import Pair
from covey.demo.scene import CITIES, LINKS

WIDTH, HEIGHT = 460, 200
SMALL_WIDTH, SMALL_HEIGHT = 150, 74
WIDEST: Final = 11.0
COLOURS: Final = 4  # of trees
# Links that would run through other cities bend away from them.
AROUND: Final[Mapping[Pair, float]] = {("seattle", "tokyo"): -46.0, ("losangeles", "sydney"): 40.0}


def network(title: str, traffic: Mapping[Pair, float], most: float) -> str:
    """Return the network, an SVG group of WIDTH × HEIGHT; `traffic` is messages for each event, `most` the widest."""
    parts = [f'<text class="title" x="8" y="16">{escape(title)}</text>']
    for pair in LINKS:
        used = traffic.get(pair, 0.0)
        kind = "link" if used else "link idle"
        width = f' stroke-width="{max(0.8, WIDEST * used / most):.1f}"' if used else ""
        tip = f"<title>{pair[0]} – {pair[1]}: {used:.2f} messages for each event</title>"
        parts.append(f'<path class="{kind}"{width} d="{_way(pair, 1.0)}">{tip}</path>')
    for city in CITIES:
        x, y = _place(city, 1.0)
        parts.append(f'<circle class="broker" cx="{x}" cy="{y}" r="5"/>')
        parts.append(f'<text class="city" x="{x}" y="{y - 9}" text-anchor="middle">{city}</text>')
    return "".join(parts)


def tree(title: str, links: Collection[Pair], root: str, place: int) -> str:
    """Return one tree, an SVG group of SMALL_WIDTH × SMALL_HEIGHT."""
    scale = SMALL_WIDTH / WIDTH
    parts = [f'<text class="small" x="4" y="10">{escape(title)}</text><g transform="translate(0 8)">']
    for pair in LINKS:
        kind = f"tree colour{place % COLOURS}" if pair in links else "link idle"
        parts.append(f'<path class="{kind}" d="{_way(pair, scale)}"/>')
    for city in CITIES:
        x, y = _place(city, scale)
        size = 3.4 if city == root else 1.8
        parts.append(f'<circle class="broker" cx="{x}" cy="{y}" r="{size}"/>')
    return "".join(parts) + "</g>"


def _place(city: str, scale: float) -> tuple[float, float]:
    x, y = CITIES[city]
    return round((22 + x * 39) * scale, 1), round((185 - y * 38) * scale, 1)


def _way(pair: Pair, scale: float) -> str:
    (ax, ay), (bx, by) = (_place(city, scale) for city in pair)
    bend = AROUND.get(pair)
    if bend is None:
        return f"M{ax} {ay}L{bx} {by}"
    return f"M{ax} {ay}Q{(ax + bx) / 2:.1f} {(ay + by) / 2 + 2 * bend * scale:.1f} {bx} {by}"
