"""Topologies of simulated overlays: values, constructors, and a registry of them by name."""

from covey.sim.topology.files import from_links, read_edges
from covey.sim.topology.geometric import geometric
from covey.sim.topology.graph import Topology
from covey.sim.topology.random_graphs import random_graph, random_tree, transit_stub, xroute64
from covey.sim.topology.registry import TOPOLOGIES, build
from covey.sim.topology.shapes import core_edge, domains, line, rebeca, star

__all__ = [
    "TOPOLOGIES",
    "Topology",
    "build",
    "core_edge",
    "domains",
    "from_links",
    "geometric",
    "line",
    "random_graph",
    "random_tree",
    "read_edges",
    "rebeca",
    "star",
    "transit_stub",
    "xroute64",
]
