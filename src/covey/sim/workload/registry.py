"""The workloads by name."""

from __future__ import annotations

from collections.abc import Mapping

from covey.sim.topology.catalogue import build_named
from covey.sim.topology.graph import Topology
from covey.sim.workload.attributes import ranges, siena, siena_3
from covey.sim.workload.commuters import commuters
from covey.sim.workload.covering_burst import covering_burst
from covey.sim.workload.keywords import keywords
from covey.sim.workload.quotes import quote_intervals, quotes
from covey.sim.workload.script import Builder, Script
from covey.sim.workload.workflow import workflow
from covey.sim.workload.xpath import xpath

WORKLOADS: Mapping[str, Builder] = {
    "quotes": quotes,
    "quote-intervals": quote_intervals,
    "siena": siena,
    "siena-3": siena_3,
    "ranges": ranges,
    "covering-burst": covering_burst,
    "workflow": workflow,
    "commuters": commuters,
    "keywords": keywords,
    "xpath": xpath,
}


def build(kind: str, topology: Topology, seed: int, **parameters: object) -> Script:
    """Return the script of that workload; ConfigError that lists what there is for an unknown name or parameter."""
    return build_named("workload", WORKLOADS, kind, (topology, seed), parameters)
