"""The network and the largest trees of a plan, drawn; captions and legends say only what is there to see."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from covey.advisor.layout import radial
from covey.planning.plan import Plan
from covey.reports.drawing import Dots, Format, Picture, Points, draw_dots, draw_links, legend_below, picture
from covey.reports.labels import SIZE, write_names
from covey.reports.theme import HOST, IDLE, INK, PAPER, SERIES, USE
from covey.reports.words import counted, cut

MOST_PANELS: Final = 6
MOST_NAMED: Final = 60  # brokers up to which all are named
MOST_SVG_LINKS: Final = 1_500  # more take less room as points than as lines
SIDE: Final = 8.4  # inches
PANEL: Final = 3.1  # inches
TITLE: Final = 0.42  # inches above a panel
LEGEND_COLUMNS: Final = 3
LEGEND_INCHES: Final = 0.21  # a line of it
MARGIN: Final = (0.6, 0.3)  # inches around the dots, for names: at the sides, above and below


def network(plan: Plan, hosted: Mapping[str, int]) -> Picture:
    """Return the main tree in the overlay: links by how many trees use them, brokers by what they host."""
    tree = plan.trees[main_tree(plan)]
    _, height = _scale(radial(plan.brokers, tree.links, tree.root))
    return picture(
        f"Tree {main_tree(plan)} of the plan in the overlay",
        (SIDE, height + LEGEND_INCHES * _legend_lines(plan)),
        lambda sheet: draw_network(sheet, plan, hosted),
        _kind(plan),
        constrained=False,
    )


def trees(plan: Plan) -> Picture:
    """Return the largest trees side by side, each around its own root."""
    columns, rows = _grid(len(plan.trees))
    return picture(
        "Trees of the plan",
        (PANEL * columns, (PANEL + TITLE) * rows),
        lambda sheet: draw_trees(sheet, plan),
        _kind(plan),
        constrained=False,
    )


def main_tree(plan: Plan) -> int:
    """Return the tree of the most filters, the first of equals."""
    return largest(plan)[0]


def largest(plan: Plan) -> list[int]:
    """Return the trees, those of the most filters first."""
    sizes = group_sizes(plan)
    return sorted(range(len(sizes)), key=lambda tree: (-sizes[tree], tree))


def group_sizes(plan: Plan) -> list[int]:
    """Return how many (broker, filter) belong to each tree."""
    sizes = [0] * len(plan.trees)
    for tree in plan.groups.values():
        sizes[tree] += 1
    return sizes


# -- the network ---------------------------------------------------------------------------------------------


def draw_network(sheet: Any, plan: Plan, hosted: Mapping[str, int]) -> str:
    """Draw the main tree in the overlay onto a sheet; return the caption."""
    tree = plan.trees[main_tree(plan)]
    points = radial(plan.brokers, tree.links, tree.root)
    axes = _axes(sheet, points)
    on_tree = set(tree.links)
    others = [(a, b) for a, b, _ in plan.links if (a, b) not in on_tree]
    # Thousands of links would cover everything: together they are never darker than a hundred.
    pale = min(0.5, 60 / max(1, len(others)))
    draw_links(axes, points, others, IDLE, 0.6, alpha=pale, title="not on this tree")
    steps = 1
    if len(plan.trees) == 1:
        draw_links(axes, points, tree.links, SERIES[0], _width(plan), title="link of the tree")
    else:
        steps = _by_use(axes, points, plan, tree.links)
    dots = _brokers(axes, points, plan, hosted)
    roots = _roots(axes, points, plan, dots)
    radii = dict(
        zip(
            chain.from_iterable(group.brokers for group in dots),
            chain.from_iterable(g.radii for g in dots),
            strict=True,
        )
    )
    radii |= dict(zip(roots.brokers, roots.radii, strict=True))
    rest = [broker for broker in plan.brokers if broker not in set(roots.brokers)]
    # Brokers with many links have the least room around them, so their names come first.
    degree = Counter(chain.from_iterable(tree.links))
    rest.sort(key=lambda broker: (-degree[broker], broker))
    named = [*roots.brokers, *(rest if len(plan.brokers) <= MOST_NAMED else ())]
    left_out = write_names(
        axes,
        [(cut(broker, 16), points[broker], radii[broker]) for broker in named],
        [(points[broker], radii[broker]) for broker in plan.brokers if broker not in set(named)],
        [(points[a], points[b]) for a, b in tree.links],
        points[tree.root],
    )
    _legend(sheet, axes)
    return network_caption(plan, dots[0], steps, bool(others), len(named), left_out)


def network_caption(plan: Plan, hosts: Dots, steps: int, others: bool, named: int, left_out: int) -> str:
    """Return the caption of the network.

    It says what was drawn: dots of hosts, links in so many steps, whether there are others, how many names were to be
    written, and for how many of them there was no room.
    """
    main = main_tree(plan)
    count = len(plan.trees)
    which = "The tree" if count == 1 else f"Tree {main}, the one of {count:,} trees with the most filters"
    root = plan.trees[main].root
    said = [
        f"{which}, drawn around its root, {root}, which has a ring.",
        "The distance of a broker from the root is the number of links between them.",
    ]
    if len(set(hosts.radii)) > 1:
        said.append("The larger a dot, the more subscriptions the broker hosts.")
    if steps > 1:
        said.append(f"The colour and the width of a link say how many of the {count:,} trees use it.")
    if others:
        said.append("Thin grey links belong to the overlay but not to this tree.")
    if named < len(plan.brokers):
        said.append("Only the root is named." if named == 1 else "Only roots are named.")
    if left_out:
        said.append(
            f"{counted(left_out, 'name')} {'is' if left_out == 1 else 'are'} left out because there is no room."
        )
    return " ".join(said)


def _axes(sheet: Any, points: Points) -> Any:
    """Return axes at the top in which the points have room for names around them, equal in both directions."""
    width, whole = sheet.get_size_inches()
    scale, height = _scale(points)
    axes = sheet.add_axes((0, 1 - height / whole, 1, height / whole))
    axes.set_axis_off()
    (low_x, high_x), (low_y, high_y) = _extents(points)
    x, y = (low_x + high_x) / 2, (low_y + high_y) / 2
    axes.set_xlim(x - width / scale / 2, x + width / scale / 2)
    axes.set_ylim(y - height / scale / 2, y + height / scale / 2)
    return axes


def _scale(points: Points) -> tuple[float, float]:
    """Return how many inches a unit has, and how high the picture is, names and all."""
    (low_x, high_x), (low_y, high_y) = _extents(points)
    across, up = max(high_x - low_x, 1e-9), max(high_y - low_y, 1e-9)
    scale = min((SIDE - 2 * MARGIN[0]) / across, (SIDE - 2 * MARGIN[1]) / up)
    return scale, up * scale + 2 * MARGIN[1]


def _extents(points: Points) -> tuple[tuple[float, float], tuple[float, float]]:
    xs, ys = zip(*points.values(), strict=True)
    return (min(xs), max(xs)), (min(ys), max(ys))


def _brokers(axes: Any, points: Points, plan: Plan, hosted: Mapping[str, int]) -> tuple[Dots, Dots]:
    """Draw the brokers; return those that host subscriptions, and those that do not."""
    most = max([*hosted.values(), 1])
    room = min(190.0, 40_000 / max(1, len(plan.brokers)))
    groups = []
    for hosting, colour, title in (
        (True, HOST, "hosts subscriptions"),
        (False, IDLE, "hosts no subscription"),
    ):
        brokers = [broker for broker in plan.brokers if bool(hosted.get(broker)) is hosting]
        areas = [max(room / 6, 2.0, room * hosted.get(broker, 0) / most) for broker in brokers]
        groups.append(Dots(brokers, [math.sqrt(area) / 2 for area in areas]))
        edge = (INK, 0.7) if len(plan.brokers) < 500 else (PAPER, 0.15)
        draw_dots(axes, points, groups[-1], title, color=colour, edgecolors=edge[0], linewidths=edge[1])
    return groups[0], groups[1]


def _roots(axes: Any, points: Points, plan: Plan, dots: tuple[Dots, Dots]) -> Dots:
    """Draw a ring around the dot of each root, or of this tree's alone if there are many; return the rings."""
    every = sorted({tree.root for tree in plan.trees})
    this = plan.trees[main_tree(plan)].root
    roots = [this, *(root for root in every if root != this)] if len(every) <= MOST_PANELS else [this]
    title = "root of this tree" if len(roots) == 1 else "root of a tree"
    return _rings(axes, points, roots, dots, title)


def _by_use(axes: Any, points: Points, plan: Plan, links: Iterable[tuple[str, str]]) -> int:
    """Draw links in steps of how many trees use them; return how many steps there are."""
    used = Counter(link for tree in plan.trees for link in tree.links)
    steps: dict[tuple[int, int, int], list[tuple[str, str]]] = {}
    for link in links:
        steps.setdefault(use_step(used[link], len(plan.trees)), []).append(link)
    for (step, low, high), some in sorted(steps.items()):
        title = f"on {low}{f' to {high}' if high > low else ''} tree{'s' if high > 1 else ''}"
        strength = step / (min(len(USE), len(plan.trees)) - 1)
        shade = USE[round(strength * (len(USE) - 1))]
        draw_links(axes, points, some, shade, _width(plan) * (0.8 + strength), title=title)
    return len(steps)


def use_step(used: int, trees: int) -> tuple[int, int, int]:
    """Return in which step a link is that so many of the trees use, and the least and the most of that step."""
    steps = min(len(USE), trees)
    step = (used - 1) * steps // trees
    return step, -(-step * trees // steps) + 1, -(-(step + 1) * trees // steps)


def _legend(sheet: Any, axes: Any) -> None:
    """Draw the legend below the axes."""
    drawn = legend_below(sheet, axes, LEGEND_COLUMNS, markerscale=0.75)
    for handle in drawn.legend_handles:
        handle.set_alpha(1.0)  # a pale line alone would not be seen


def _legend_lines(plan: Plan) -> int:
    links = 1 if len(plan.trees) == 1 else min(len(USE), len(plan.trees))
    return math.ceil((links + 4) / LEGEND_COLUMNS)


# -- the trees -----------------------------------------------------------------------------------------------


def draw_trees(sheet: Any, plan: Plan) -> str:
    """Draw the largest trees onto a sheet, a panel each; return the caption."""
    columns, rows = _grid(len(plan.trees))
    shown = largest(plan)[:MOST_PANELS]
    hosts: dict[int, Counter[str]] = {tree: Counter() for tree in shown}
    for (broker, _), group in plan.groups.items():
        if group in hosts:
            hosts[group][broker] += 1
    cell = 1 / columns, 1 / rows
    for place, tree in enumerate(shown):
        row, column = divmod(place, columns)
        height = cell[1] * PANEL / (PANEL + TITLE)
        axes = sheet.add_axes((column * cell[0], 1 - (row + 1) * cell[1], cell[0], height))
        axes.set_axis_off()
        _panel(axes, plan, tree, SERIES[place % len(SERIES)], hosts[tree])
    return trees_caption(plan, hosts)


def trees_caption(plan: Plan, hosts: Mapping[int, Mapping[str, int]]) -> str:
    """Return the caption of the trees; `hosts` are those shown, with how many filters of each broker they have."""
    most = "" if len(hosts) == len(plan.trees) else " with the most filters"
    said = [f"The {len(hosts)} trees{most}, each drawn around its root, which has a ring."]
    dots = [(plan.trees[tree].root, brokers) for tree, brokers in hosts.items() if brokers]
    whose = (
        "whose filters belong to the tree" if plan.one_copy is None else "of the region that the tree serves"
    )
    if dots:
        said.append(f"Dots are the brokers {whose}.")
    if any(len(set(brokers.values())) > 1 for _, brokers in dots):
        said.append("A larger dot has more of the filters.")
    if dots and all(set(brokers) == {root} for root, brokers in dots):
        said.append("For these trees that is the root alone.")
    if plan.one_copy is not None:
        said.append("Every tree reaches all subscriptions: an event travels on one tree only.")
    return " ".join(said)


def _panel(axes: Any, plan: Plan, tree: int, colour: str, hosts: Mapping[str, int]) -> None:
    root = plan.trees[tree].root
    points = radial(plan.brokers, plan.trees[tree].links, root)
    draw_links(axes, points, plan.trees[tree].links, colour, 0.8 * _width(plan))
    most = max([*hosts.values(), 1])
    largest_area = min(60.0, 9_000 / len(plan.brokers))
    brokers = sorted(hosts)
    dots = Dots(brokers, [math.sqrt(2.0 + largest_area * hosts[broker] / most) / 2 for broker in brokers])
    draw_dots(axes, points, dots, color=INK, linewidths=0)
    _rings(axes, points, [root], (dots, Dots([], [])), "")
    axes.set(aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))  # no broker is farther than 1 from the root
    axes.set_title(
        f"Tree {tree}: {counted(sum(hosts.values()), 'filter')}\nroot {cut(root, 24)}", fontsize=SIZE
    )


def _grid(count: int) -> tuple[int, int]:
    shown = min(count, MOST_PANELS)
    columns = min(3, shown)
    return columns, math.ceil(shown / columns)


# -- marks ---------------------------------------------------------------------------------------------------


def _rings(axes: Any, points: Points, roots: Sequence[str], dots: tuple[Dots, Dots], title: str) -> Dots:
    """Draw a ring around the dot of each root, which stays visible; return the rings."""
    radii = {
        broker: radius for group in dots for broker, radius in zip(group.brokers, group.radii, strict=True)
    }
    rings = Dots(roots, [radii.get(root, 0.5) + 3.0 for root in roots])
    draw_dots(axes, points, rings, title, facecolors="none", edgecolors=INK, linewidths=1.6, zorder=4)
    return rings


def _width(plan: Plan) -> float:
    """Return how wide links are drawn: narrower in larger networks."""
    return max(0.45, min(1.4, 14 / math.sqrt(len(plan.brokers))))


def _kind(plan: Plan) -> Format:
    return "svg" if len(plan.links) <= MOST_SVG_LINKS else "png"
