"""The topologies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps

from covey import plugins
from covey.errors import ConfigError
from covey.plugins import Catalogue
from covey.sim.topology.catalogue import build_named
from covey.sim.topology.files import from_links, read_edges
from covey.sim.topology.geometric import geometric
from covey.sim.topology.graph import Topology
from covey.sim.topology.random_graphs import random_graph, random_tree, transit_stub, xroute64
from covey.sim.topology.shapes import core_edge, domains, line, rebeca, star

_OURS: Mapping[str, Callable[..., Topology]] = {
    "line": line,
    "star": star,
    "rebeca": rebeca,
    "core-edge": core_edge,
    "domains": domains,
    "random-tree": random_tree,
    "random-graph": random_graph,
    "geometric": geometric,
    "transit-stub": transit_stub,
    "xroute64": xroute64,
    "links": from_links,
    "edges": read_edges,
}


def _take(name: str, loaded: object) -> Callable[..., Topology]:
    def build(*given: object, **parameters: object) -> Topology:
        made = made_by(*given, **parameters)
        if not isinstance(made, Topology):
            raise ConfigError(f"what it made is a {type(made).__name__}, not a Topology")
        return made

    made_by = plugins.builder(name, loaded)
    return wraps(made_by)(build)


TOPOLOGIES: Mapping[str, Callable[..., Topology]] = Catalogue("topology", plugins.TOPOLOGIES, _OURS, _take)


def build(kind: str, **parameters: object) -> Topology:
    """Return the topology of that name; ConfigError that lists what there is for an unknown name or parameter."""
    return build_named("topology", TOPOLOGIES, kind, (), parameters)
