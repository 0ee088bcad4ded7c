"""The workloads that examples are made of, by name, each a script of the simulator with sizes for a table.

A script's own parameters say how its population looks; here they are chosen so that the population has the number of
subscriptions that was asked for. What a script draws does not depend on the number of events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, NamedTuple

from covey.datasets.processes import processes
from covey.errors import ConfigError
from covey.sim.topology import TOPOLOGIES, Topology
from covey.sim.topology.catalogue import build_named, parameters_of
from covey.sim.topology.files import read_edges
from covey.sim.workload.attributes import ranges, siena, siena_3
from covey.sim.workload.keywords import keywords
from covey.sim.workload.quotes import quote_intervals, quotes
from covey.sim.workload.script import Builder, Script, consumer_brokers
from covey.sim.workload.xpath import xpath

DEFAULT_TOPOLOGY = "transit-stub"
DEFAULT_BROKERS = 100
EACH = 10  # subscriptions of one consumer of quotes, and hosts of a keyword
# A topology without cycles leaves little to plan: unless told, there are as many more links as in experiments.
TOPOLOGY_SETTINGS: Mapping[str, Mapping[str, Any]] = {"transit-stub": {"extra": 0.5}}

Sized = Callable[[Topology, int, int, Mapping[str, Any]], Mapping[str, Any]]


class Workload(NamedTuple):
    """A workload: what it is, its builder, and the builder's parameters for a number of subscriptions and producers."""

    about: str
    builder: Builder
    sized: Sized


def _population(
    topology: Topology, subscriptions: int, publishers: int, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    return {"subscriptions": subscriptions, "publishers": publishers}


def _market(
    topology: Topology, subscriptions: int, publishers: int, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    hosts = len(consumer_brokers(topology))
    each = int(_number(settings, "subscriptions", max(1, min(EACH, subscriptions // hosts))))
    return {"subscriptions": each, "consumers": ceil(subscriptions / (max(1, each) * hosts))}


def _keywords(
    topology: Topology, subscriptions: int, publishers: int, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    nearest = max(1, round(_number(settings, "nearest", 0.02) * len(topology.brokers)))
    hosts = min(int(_number(settings, "hosts", EACH)), nearest)
    return {"keywords": ceil(subscriptions / max(1, hosts)), "publishers": publishers}


def _processes(
    topology: Topology, subscriptions: int, publishers: int, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    return {"subscriptions": subscriptions}


def _patterns(
    topology: Topology, subscriptions: int, publishers: int, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    # Large populations have no room for patterns that all differ, and events travel as text.
    return {
        "subscriptions": subscriptions,
        "publishers": publishers,
        "unique": subscriptions <= 1_000,
        "parsed": False,
    }


WORKLOADS: Mapping[str, Workload] = {
    "quotes": Workload("symbols of a stock exchange, events from one source (REBECA)", quotes, _market),
    "intervals": Workload("a symbol and an interval of prices (W2)", quote_intervals, _market),
    "siena": Workload("1 to 10 constraints on names by Zipf's law (W1)", siena, _population),
    "siena-3": Workload("the same with 3 to 10 constraints (W1s)", siena_3, _population),
    "ranges": Workload("a range of one attribute (W3); see locality", ranges, _population),
    "keywords": Workload(
        "keywords asked for in neighbourhoods, documents near a centre", keywords, _keywords
    ),
    "xpath": Workload("tree patterns over newspaper articles, XML documents", xpath, _patterns),
    "processes": Workload("activities that wait for each other's status", processes, _processes),
}
ALIASES = {"w1": "siena", "w1s": "siena-3", "w2": "intervals", "quote-intervals": "intervals", "w3": "ranges"}


def workload_named(name: str) -> tuple[str, Workload]:
    """Return a workload with its proper name; ConfigError, with the names there are, for another one."""
    proper = ALIASES.get(name.lower(), name)
    if proper not in WORKLOADS:
        raise ConfigError(f"there is no workload {name!r:.40} (hint: one of {', '.join(WORKLOADS)})")
    return proper, WORKLOADS[proper]


def build_topology(kind: str, brokers: int | None, seed: int, settings: Mapping[str, Any]) -> Topology:
    """Return the topology of that kind, or of an edge-list file, with so many brokers if that can be chosen."""
    if kind not in TOPOLOGIES and ("/" in kind or "." in kind):
        if brokers is not None or settings:
            raise ConfigError(f"the topology {kind!r:.80} is a file: it has the brokers that it has")
        return read_edges(kind)
    given: dict[str, Any] = {**TOPOLOGY_SETTINGS.get(kind, {}), **settings}
    known = parameters_of(TOPOLOGIES[kind]) if kind in TOPOLOGIES else {}
    if "seed" in known:
        given.setdefault("seed", seed)
    if "count" in known:
        given.setdefault("count", DEFAULT_BROKERS if brokers is None else brokers)
    elif brokers is not None and known:
        raise ConfigError(
            f"the number of brokers of the topology {kind} is not free (it has {_listed(known)})"
        )
    topology = build_named("topology", TOPOLOGIES, kind, (), given)
    if not topology.is_connected:
        raise ConfigError(f"the topology {kind} is not connected")
    return topology


def build_script(
    name: str,
    topology: Topology,
    *,
    subscriptions: int,
    events: int,
    publishers: int,
    seed: int,
    settings: Mapping[str, Any],
) -> Script:
    """Return the script of a workload with at least so many subscriptions and exactly so many events."""
    proper, workload = workload_named(name)
    builders = {proper: workload.builder}
    sizes = dict(workload.sized(topology, subscriptions, publishers, settings))
    return build_named(
        "workload", builders, proper, (topology, seed), {**sizes, "events": events, **settings}
    )


def _number(settings: Mapping[str, Any], name: str, default: float) -> float:
    """Return a number that is set; the default if something else is, of which the builder will complain."""
    value = settings.get(name, default)
    return value if isinstance(value, int | float) and 0 <= value <= 1e9 else default


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(names) or "no parameters"
