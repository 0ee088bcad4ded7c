"""Topologies of a fixed shape: lines, stars, and the trees on which published experiments were run.

    line        b1 - b2 - b3 …
    star        a hub and the brokers around it; 17 in the mobile scenario of Chen et al.
    rebeca      Mühl, Fiege, Gärtner and Buchmann, "Evaluating Advanced Routing Algorithms for Content-Based
                Publish/Subscribe Systems" (2002): a tree of routers, local brokers at each
    core-edge   Chen, Hu, Muthusamy and Jacobsen, "Congestion Avoidance with Incremental Filter Aggregation in
                Content-Based Routing Networks": 49 brokers around a chain of five core brokers
    domains     the same authors' workflow scenario: business partners, each with a hierarchy of ten brokers

Core-edge is a reconstruction: the publication draws it and does not describe it below the core.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from covey.errors import ConfigError
from covey.sim.topology.catalogue import check_range
from covey.sim.topology.graph import Link, Topology

MAX_BROKERS = 100_000
MAX_LEVELS = 9

CORE = "ABCDE"
CORE_INNER = (2, 2, 2, 2, 3)
EDGES_PER_INNER = "abc"


def line(count: int) -> Topology:
    """Return brokers b1 … in a row; its ends have the role `edge`."""
    check_range("count", count, 1, MAX_BROKERS)
    brokers = tuple(f"b{i}" for i in range(1, count + 1))
    ends = dict.fromkeys((brokers[0], brokers[-1]))
    return Topology("line", tuple(pairwise(brokers)), brokers, {"edge": tuple(ends)})


def star(count: int = 17) -> Topology:
    """Return a `hub` with count - 1 brokers around it, which are the `edge`."""
    check_range("count", count, 1, MAX_BROKERS)
    edge = tuple(f"s{i}" for i in range(1, count))
    links = tuple(("hub", broker) for broker in edge)
    return Topology("star", links, ("hub", *edge), {"hub": ("hub",), "edge": edge})


def rebeca(levels: int = 4) -> Topology:
    """Return so many levels of routers: 3 routers below each, 1 local broker; at leaves 2 local brokers only.

    Four levels are 40 routers and 67 local brokers. Roles: `router`, `local`, `root`, `leaf` (routers), the source as
    `publishers` (the root router), `subscribers` (the local brokers), and the three subtrees of the root with all their
    brokers as `subnet-1` to `subnet-3`.
    """
    check_range("levels", levels, 1, MAX_LEVELS)
    routers: list[str] = ["r1"]
    local: list[str] = []
    links: list[Link] = []
    subnet: dict[str, list[str]] = {}
    level: list[tuple[str, str]] = [("r1", "")]
    for depth in range(1, levels + 1):
        below: list[tuple[str, str]] = []
        for router, group in level:
            children = [f"r{len(routers) + i}" for i in range(1, 4)] if depth < levels else []
            hosts = [f"l{len(local) + i}" for i in range(1, 2 if children else 3)]
            routers += children
            local += hosts
            links += [(router, other) for other in (*children, *hosts)]
            for position, child in enumerate(children, start=1):
                below.append((child, group or f"subnet-{position}"))
            if group:
                subnet.setdefault(group, []).extend((router, *hosts))
        level = below
    roles = {
        "router": tuple(routers),
        "local": tuple(local),
        "root": ("r1",),
        "leaf": tuple(routers[-(3 ** (levels - 1)) :]),
        "publishers": ("r1",),
        "subscribers": tuple(local),
        **{group: tuple(brokers) for group, brokers in subnet.items()},
    }
    return Topology("rebeca", tuple(links), (*routers, *local), roles)


def core_edge() -> Topology:
    """Return the 49 brokers of the controlled scenario.

    The `core` is a chain A … E; A to D have two `inner` brokers each, E three; every inner broker has three of the
    `edge`. The `publishers` are the edge brokers of E's third inner broker, the other 30 are the `subscribers`.
    """
    links: list[Link] = list(pairwise(CORE))
    inner = [f"{core}{i}" for core, count in zip(CORE, CORE_INNER, strict=True) for i in range(1, count + 1)]
    edge = [f"{broker}{letter}" for broker in inner for letter in EDGES_PER_INNER]
    links += [(broker[0], broker) for broker in inner]
    links += [(broker[:2], broker) for broker in edge]
    publishers = len(EDGES_PER_INNER)
    roles = {
        "core": tuple(CORE),
        "inner": tuple(inner),
        "edge": tuple(edge),
        "publishers": tuple(edge[-publishers:]),
        "subscribers": tuple(edge[:-publishers]),
    }
    return Topology("core-edge", tuple(links), (*CORE, *inner, *edge), roles)


def domains(count: int = 4, size: int = 10, joined: Literal["chain", "star"] = "chain") -> Topology:
    """Return so many domains, each a hierarchy of three levels, joined at their heads to one tree.

    About a third of the brokers below a head are on the middle level, the others are spread evenly below them: ten are
    one head, three inner brokers and six leaves, which host the engines. Roles: `core` (heads), `inner`, `edge`,
    `engines` (the leaves), and all brokers of each domain as `domain-1` ….
    """
    check_range("count", count, 1, MAX_BROKERS)
    check_range("size", size, 3, MAX_BROKERS)
    if count * size > MAX_BROKERS:
        raise ConfigError(f"{count} domains of {size} brokers are more than {MAX_BROKERS}")
    heads = [f"d{i}" for i in range(1, count + 1)]
    above = heads if joined == "chain" else [heads[0]] * count
    links: list[Link] = list(zip(above, heads[1:], strict=False))
    brokers, inner, leaves = [], [], []
    roles: dict[str, tuple[str, ...]] = {}
    middle_size = max(1, round((size - 1) / 3))
    for number, head in enumerate(heads, start=1):
        middle = [f"{head}m{i}" for i in range(1, middle_size + 1)]
        ends = [f"{head}e{i}" for i in range(1, size - middle_size)]
        links += [(head, broker) for broker in middle]
        links += [(middle[i % middle_size], broker) for i, broker in enumerate(ends)]
        brokers += [head, *middle, *ends]
        inner += middle
        leaves += ends
        roles[f"domain-{number}"] = (head, *middle, *ends)
    named = {"core": heads, "inner": inner, "edge": leaves, "engines": leaves}
    roles = {role: tuple(members) for role, members in named.items()} | roles
    return Topology("domains", tuple(links), tuple(brokers), roles)
