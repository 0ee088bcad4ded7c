"""The workloads by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps

from covey import plugins
from covey.errors import ConfigError
from covey.plugins import Catalogue
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

_OURS: Mapping[str, Builder] = {
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


def _take(name: str, loaded: object) -> Builder:
    def build(*given: object, **parameters: object) -> Script:
        made = made_by(*given, **parameters)
        if not isinstance(made, Script):
            raise ConfigError(f"what it made is a {type(made).__name__}, not a Script")
        return made

    made_by = plugins.builder(name, loaded)
    return wraps(made_by)(build)


WORKLOADS: Mapping[str, Builder] = Catalogue("workload", plugins.WORKLOADS, _OURS, _take)


def build(kind: str, topology: Topology, seed: int, **parameters: object) -> Script:
    """Return the script of that workload; ConfigError that lists what there is for an unknown name or parameter."""
    return build_named("workload", WORKLOADS, kind, (topology, seed), parameters)
