"""From what is worth merging to what brokers merge: the rows of `aggregation` with the filters themselves.

A row says that some interests leave a broker as one. What reaches the broker of them depends on the rows further away,
so rows are taken from the leaves on: an input is the filter of a member that nothing has merged so far, or what a block
further away is told as. Equal inputs are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from covey.core.families import decode, parse_content
from covey.core.filter import Filter
from covey.planning.aggregation.installed import PlannedBlock, PlannedMerging
from covey.planning.plan import PlannedTree
from covey.routing.aggregation import MOST_EVENTS
from covey.strategies.aggregation import block_of


def merging_of(
    rows: Sequence[Mapping[str, Any]],
    interests: Sequence[tuple[str, bytes]],
    trees: Sequence[PlannedTree],
    witnesses: Sequence[Mapping[str, Any]],
    *,
    method: str,
    excess: float,
) -> PlannedMerging:
    """Return what brokers merge: the rows that have a neighbour to tell, by tree, the leaves first."""
    judging = [(row["language"], row["content"]) for row in witnesses[:MOST_EVENTS]] if excess else []
    events = [parse_content(content, language) for language, content in judging]
    blocks: list[PlannedBlock] = []
    for number, tree in enumerate(trees):
        mine = [row for row in rows if row["tree"] == number and row["towards"] is not None]
        if not mine:
            continue
        depths = depths_of(tree.links, mine[0]["entry"])
        reached: dict[int, Sequence[Filter]] = {}  # what has come so far of the block of each member
        for row in sorted(mine, key=lambda row: (-depths[row["broker"]], row["broker"], row["block"])):
            found: dict[Filter, None] = {}
            for member in row["members"]:
                if member not in reached:
                    reached[member] = [decode(interests[member][1])]
                found.update(dict.fromkeys(reached[member]))
            block = block_of(list(found), events, excess)
            for member in row["members"]:
                reached[member] = block.told
            inputs, told = (tuple(filter.encode() for filter in some) for some in block)
            blocks.append(PlannedBlock(number, row["broker"], row["towards"], inputs, told))
    return PlannedMerging(method, tuple(blocks), excess, tuple(judging))


def depths_of(links: Sequence[tuple[str, str]], entry: str) -> dict[str, int]:
    """Return how many links each broker of a tree is away from the entry."""
    near: dict[str, list[str]] = {}
    for a, b in links:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    depths, waiting = {entry: 0}, [entry]
    for broker in waiting:
        for other in near.get(broker, ()):
            if other not in depths:
                depths[other] = depths[broker] + 1
                waiting.append(other)
    return depths
