"""The pictures of the report, as SVG or PNG, in one manner, and the network drawn; numbers are in `charts`.

matplotlib is loaded when one is drawn.

The same plan and advice give the same bytes. Names come from files of strangers: none is read as a formula, and long
ones are cut.
"""

from __future__ import annotations

import io
import math
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from covey.advisor.layout import Points, radial
from covey.planning.plan import Plan

COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
INK = "#1e293b"
MOST_PANELS = 6
MOST_NAMED = 60  # brokers up to which all are named
MOST_SVG_LINKS = 1_500  # more take less room as points than as lines
STYLE: Any = {  # its keys are a long list of literals in the hints of matplotlib
    "axes.edgecolor": "#94a3b8",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "sans-serif",
    "font.size": 9,
    "grid.alpha": 0.35,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "covey",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


def image(alt: str, size: tuple[float, float], draw: Callable[[Any], None], kind: str = "svg") -> str:
    """Return an HTML image with the picture inside; `alt` is HTML already."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    content = io.BytesIO()
    with mpl.rc_context(STYLE):
        sheet = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(sheet)
        draw(sheet)
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        sheet.savefig(content, format=kind, dpi=170, metadata=metadata)
    data = b64encode(content.getvalue()).decode()
    mime = "image/svg+xml" if kind == "svg" else "image/png"
    return f'<img alt="{alt}" src="data:{mime};base64,{data}">'


def cut(name: str, most: int = 28) -> str:
    """Return a name that is short enough for a picture, on one line."""
    line = " ".join(name.split())
    return line if len(line) <= most else line[: most - 1] + "…"


# -- the network ---------------------------------------------------------------------------------------------


def network(plan: Plan, hosted: Mapping[str, int], alt: str) -> str:
    """Return the main tree in the overlay: its links by how many trees use them, brokers by how many they host."""
    main = main_tree(plan)
    tree = plan.trees[main]
    points = radial(plan.brokers, tree.links, tree.root)
    used = Counter(link for other in plan.trees for link in other.links)

    def draw(sheet: Any) -> None:
        axes = sheet.subplots()
        on_tree = set(tree.links)
        others = [(a, b) for a, b, _ in plan.links if (a, b) not in on_tree]
        # Thousands of links would cover everything: together they are never darker than a hundred.
        _lines(axes, points, others, "#94a3b8", 0.4, min(0.45, 60 / max(1, len(others))))
        if len(plan.trees) == 1:
            _lines(axes, points, tree.links, COLOURS[0], _width(plan), 0.85)
        else:
            _by_use(sheet, axes, points, {link: used[link] for link in tree.links}, plan)
        _brokers(axes, points, plan, hosted, main)
        _clean(axes)

    return image(alt, (8.4, 7.6), draw, _kind(plan))


def trees(plan: Plan, sizes: Sequence[int], alt: str) -> str:
    """Return the largest trees side by side, each around its own root, with the brokers that its filters are at."""
    shown = sorted(range(len(plan.trees)), key=lambda tree: (-sizes[tree], tree))[:MOST_PANELS]
    columns = min(3, len(shown))
    rows = math.ceil(len(shown) / columns)
    hosts: dict[int, Counter[str]] = {tree: Counter() for tree in shown}
    for (broker, _), group in plan.groups.items():
        if group in hosts:
            hosts[group][broker] += 1

    def draw(sheet: Any) -> None:
        panels = sheet.subplots(rows, columns, squeeze=False).ravel()
        for place, axes in enumerate(panels):
            if place < len(shown):
                _panel(axes, plan, shown[place], COLOURS[place % len(COLOURS)], hosts[shown[place]])
            _clean(axes)

    return image(alt, (3.1 * columns, 3.2 * rows), draw, _kind(plan))


def _panel(axes: Any, plan: Plan, tree: int, colour: str, hosts: Counter[str]) -> None:
    root = plan.trees[tree].root
    points = radial(plan.brokers, plan.trees[tree].links, root)
    _lines(axes, points, plan.trees[tree].links, colour, 0.8 * _width(plan), 0.8)
    most = max([*hosts.values(), 1])
    axes.scatter(
        [points[broker][0] for broker in sorted(hosts)],
        [points[broker][1] for broker in sorted(hosts)],
        s=[2.0 + min(30.0, 9_000 / len(plan.brokers)) * hosts[broker] / most for broker in sorted(hosts)],
        color=INK,
        alpha=0.8,
        linewidths=0,
        zorder=3,
    )
    axes.plot([0], [0], marker="*", markersize=10, color=INK, markeredgecolor="white", zorder=4)
    axes.set_title(f"tree {tree}, root {cut(root, 16)}, {sum(hosts.values()):,} filters", fontsize=8.5)


def main_tree(plan: Plan) -> int:
    """Return the tree of the most filters, the first of equals."""
    sizes = group_sizes(plan)
    return max(range(len(sizes)), key=lambda tree: (sizes[tree], -tree))


def group_sizes(plan: Plan) -> list[int]:
    """Return how many (broker, filter) belong to each tree."""
    sizes = [0] * len(plan.trees)
    for tree in plan.groups.values():
        sizes[tree] += 1
    return sizes


def _width(plan: Plan) -> float:
    """Return how wide links are drawn: narrower in larger networks."""
    return max(0.45, min(1.4, 14 / math.sqrt(len(plan.brokers))))


def _kind(plan: Plan) -> str:
    return "svg" if len(plan.links) <= MOST_SVG_LINKS else "png"


def _lines(
    axes: Any, points: Points, links: Iterable[tuple[str, str]], colour: Any, width: float, alpha: float
) -> None:
    from matplotlib.collections import LineCollection

    lines = [(points[a], points[b]) for a, b in links]
    axes.add_collection(LineCollection(lines, colors=colour, linewidths=width, alpha=alpha, zorder=1))


def _by_use(sheet: Any, axes: Any, points: Points, used: Mapping[tuple[str, str], int], plan: Plan) -> None:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    count = len(plan.trees)
    links = sorted(used, key=lambda link: (used[link], link))
    shades = LinearSegmentedColormap.from_list("use", colormaps["viridis_r"](np.linspace(0.15, 1.0, 64)))
    scale = Normalize(1, count)
    axes.add_collection(
        LineCollection(
            [(points[a], points[b]) for a, b in links],
            colors=[shades(scale(used[link])) for link in links],
            linewidths=_width(plan) * 1.2,
            zorder=2,
        )
    )
    bar = sheet.colorbar(ScalarMappable(scale, shades), ax=axes, shrink=0.45, pad=0.01)
    bar.set_label(f"trees that use the link, of {count}")
    bar.outline.set_visible(False)


def _brokers(axes: Any, points: Points, plan: Plan, hosted: Mapping[str, int], main: int) -> None:
    most = max([*hosted.values(), 1])
    room = min(190.0, 40_000 / max(1, len(plan.brokers)))
    hosts = [broker for broker in plan.brokers if hosted.get(broker)]
    others = [broker for broker in plan.brokers if not hosted.get(broker)]
    for group, colour in ((others, "#94a3b8"), (hosts, "#f59e0b")):
        axes.scatter(
            [points[broker][0] for broker in group],
            [points[broker][1] for broker in group],
            s=[max(2.0, room * hosted.get(broker, 0) / most) for broker in group],
            color=colour,
            edgecolors="white",
            linewidths=0.4 if len(plan.brokers) < 500 else 0.15,
            zorder=3,
            label="hosts subscriptions" if group is hosts else "hosts none",
        )
    every = sorted({tree.root for tree in plan.trees})
    roots = every if len(every) <= MOST_PANELS else [plan.trees[main].root]
    axes.scatter(
        [points[root][0] for root in roots],
        [points[root][1] for root in roots],
        s=110.0,
        marker="*",
        color=INK,
        edgecolors="white",
        linewidths=0.5,
        zorder=4,
        label="root of a tree",
    )
    named = plan.brokers if len(plan.brokers) <= MOST_NAMED else [plan.trees[main].root]
    for broker in named:
        x, y = points[broker]
        axes.annotate(
            cut(broker, 16), (x, y), xytext=(3, 3), textcoords="offset points", fontsize=6.5, zorder=5
        )
    axes.legend(loc="lower left", fontsize=7.5, markerscale=0.8)


def _clean(axes: Any) -> None:
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.autoscale()
    axes.margins(0.02)
