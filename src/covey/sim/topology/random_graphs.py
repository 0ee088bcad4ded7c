"""Random topologies, each a function of its arguments and a seed.

    random-tree    every labelled tree equally likely
    random-graph   such a tree with random links added until brokers have so many neighbours on average
    transit-stub   after GT-ITM: Zegura, Calvert and Bhattacharjee, "How to Model an Internetwork" (INFOCOM 1996)
    xroute64       64 routers by that model, 24 consumers' brokers at the edge and one producer's: the network of
                   Chand and Felber, "A Scalable Protocol for Content-Based Routing in Overlay Networks"

Transit-stub has T = max(1, round(n / 500)) transit domains of 5 brokers, any two of a domain linked with probability
0.6; the domains are joined by a random tree and, for each other pair of them, by a link with probability
min(1, 2 / T). Each transit broker has 4 stubs, of equal size, that fill up to n; any two brokers of a stub are linked
with probability 3.2 / (size - 1); one link joins the stub to its transit broker. GT-ITM draws a domain again when it is
not connected; here that is done up to 12 brokers, larger ones get a random link between their parts.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import combinations, pairwise
from random import Random

from covey.errors import ConfigError
from covey.sim.topology.catalogue import check_range
from covey.sim.topology.graph import Link, Topology, one_way
from covey.sim.topology.shapes import MAX_BROKERS

BROKERS_PER_TRANSIT = 500
TRANSIT_SIZE = 5
TRANSIT_PROBABILITY = 0.6
STUBS = 4
STUB_DEGREE = 3.2
REDRAWN_SIZE = 12
MAX_REDRAWS = 100

XROUTE_ROUTERS = 64
XROUTE_CONSUMERS = 24


def random_tree(count: int, seed: int) -> Topology:
    """Return a tree of brokers b1 …, drawn evenly from all; leaves have the role `edge`."""
    brokers, random = _start(count, seed)
    return _with_edge("random-tree", _tree_links(brokers, random), brokers)


def random_graph(count: int, seed: int, degree: float = 4.0) -> Topology:
    """Return a connected graph whose brokers have `degree` neighbours on average.

    ConfigError when so few links cannot connect it or there are not so many pairs.
    """
    brokers, random = _start(count, seed)
    links = _tree_links(brokers, random)
    wanted = round(count * degree / 2) if degree == degree else -1
    most = count * (count - 1) // 2
    if not len(links) <= wanted <= most:
        low, high = 2 * len(links) / count, 2 * most / count
        raise ConfigError(f"degree must be from {low:g} to {high:g} for {count} brokers, not {degree}")
    links += _more_links(brokers, links, wanted - len(links), random)
    return _with_edge("random-graph", links, brokers)


def transit_stub(
    count: int,
    seed: int,
    extra: float = 0.0,
    tree: bool = False,
    transit_size: int = TRANSIT_SIZE,
    stubs: int = STUBS,
) -> Topology:
    """Return a transit-stub graph of `count` brokers; see the module's text for the model.

    `extra` adds that many links for each broker between random stub brokers: 0.1 and 0.5 are used in experiments
    with dissemination trees, which need cycles. `tree` reduces the graph to a tree of shortest paths from the first
    transit broker. Roles: `core` (transit brokers), `edge` (stub brokers), `gateway` (the stub end of each joint),
    and `transit-1` … with the transit brokers of each domain.
    """
    check_range("transit_size", transit_size, 1, MAX_BROKERS)
    check_range("stubs", stubs, 1, MAX_BROKERS)
    check_range("extra", extra, 0, 10)
    brokers, random = _start(count, seed)
    transits = _transit_domains(count, transit_size)
    core = tuple(broker for domain in transits for broker in domain)
    links = [link for domain in transits for link in _domain(domain, TRANSIT_PROBABILITY, random)]
    links += _joints(transits, random)
    edge: list[str] = []
    gateways: list[str] = []
    for home, stub in _stubs(core, count, stubs):
        links += _domain(stub, STUB_DEGREE / max(1, len(stub) - 1), random)
        gateways.append(random.choice(stub))
        links.append((home, gateways[-1]))
        edge += stub
    links += _more_links(edge, links, round(extra * count), random)
    roles = {
        "core": core,
        "edge": tuple(edge),
        "gateway": tuple(gateways),
        **{f"transit-{i}": tuple(domain) for i, domain in enumerate(transits, start=1)},
    }
    topology = Topology("transit-stub", tuple(links), (*core, *edge), roles)
    assert len(topology.brokers) == len(brokers)
    return topology.spanning_tree() if tree else topology


def xroute64(
    seed: int, routers: int = XROUTE_ROUTERS, consumers: int = XROUTE_CONSUMERS, tree: bool = True
) -> Topology:
    """Return a transit-stub graph of routers with consumers' brokers c1 … and the producer's broker p attached.

    Each of them hangs on a stub router of its own. Unless `tree` is false, the graph is reduced to the tree of
    shortest paths from p, along which events travel. Roles: `router`, `local` (c1 … and p), `publishers`,
    `subscribers`, and those of the transit-stub graph.
    """
    check_range("routers", routers, 1, MAX_BROKERS)
    check_range("consumers", consumers, 1, MAX_BROKERS)
    graph = transit_stub(routers, seed)
    edge = graph.roles["edge"]
    if len(edge) < consumers + 1:
        raise ConfigError(f"{routers} routers have {len(edge)} at the edge; {consumers + 1} are needed")
    local = (*(f"c{i}" for i in range(1, consumers + 1)), "p")
    # Another generator than the graph's, which a different number of consumers must not change.
    homes = Random(f"xroute64 {seed}").sample(edge, len(local))
    roles = dict(graph.roles) | {
        "router": graph.brokers,
        "local": local,
        "publishers": local[-1:],
        "subscribers": local[:-1],
    }
    links = (*graph.links, *zip(homes, local, strict=True))
    topology = Topology("xroute64", links, (*graph.brokers, *local), roles)
    return topology.spanning_tree("p") if tree else topology


def _start(count: int, seed: int) -> tuple[list[str], Random]:
    check_range("count", count, 1, MAX_BROKERS)
    check_range("seed", seed, 0)
    return [f"b{i}" for i in range(1, count + 1)], Random(seed)


def _with_edge(name: str, links: list[Link], brokers: list[str]) -> Topology:
    """Return the topology with the brokers that have one neighbour at most as its edge."""
    degree = dict.fromkeys(brokers, 0)
    for a, b in links:
        degree[a] += 1
        degree[b] += 1
    edge = tuple(broker for broker in brokers if degree[broker] <= 1)
    return Topology(name, tuple(links), tuple(brokers), {"edge": edge} if edge else {})


def _tree_links(brokers: list[str], random: Random) -> list[Link]:
    """Return the links of a random tree, decoded from a random Prüfer sequence."""
    count = len(brokers)
    if count < 3:
        return list(pairwise(brokers))
    sequence = [random.randrange(count) for _ in range(count - 2)]
    degree = [1] * count
    for place in sequence:
        degree[place] += 1
    leaves = [place for place in range(count) if degree[place] == 1]
    heapify(leaves)
    links: list[Link] = []
    for place in sequence:
        links.append((brokers[place], brokers[heappop(leaves)]))
        degree[place] -= 1
        if degree[place] == 1:
            heappush(leaves, place)
    links.append((brokers[heappop(leaves)], brokers[heappop(leaves)]))
    return links


def _more_links(brokers: list[str], links: list[Link], count: int, random: Random) -> list[Link]:
    """Return `count` new links between these brokers, drawn evenly from the pairs without one."""
    members = set(brokers)
    present = {one_way(a, b) for a, b in links if a in members and b in members}
    free = len(brokers) * (len(brokers) - 1) // 2 - len(present)
    if count > free:
        raise ConfigError(f"{count} more links are wanted and only {free} pairs have none")
    if 2 * count > free:
        # Too few pairs are left to hit them by chance.
        pairs = [pair for pair in combinations(brokers, 2) if one_way(*pair) not in present]
        return random.sample(pairs, count)
    added: list[Link] = []
    while len(added) < count:
        a, b = random.sample(brokers, 2)
        if one_way(a, b) not in present:
            present.add(one_way(a, b))
            added.append((a, b))
    return added


def _transit_domains(count: int, size: int) -> list[list[str]]:
    """Return the brokers of each transit domain: at most half of all, so that there are stubs."""
    domains = max(1, round(count / BROKERS_PER_TRANSIT))
    size = min(size, max(1, count // (2 * domains)))
    return [[f"t{domain}.{i}" for i in range(1, size + 1)] for domain in range(1, domains + 1)]


def _stubs(core: tuple[str, ...], count: int, stubs: int) -> list[tuple[str, list[str]]]:
    """Return the stubs with the transit broker of each, their sizes equal up to one."""
    wanted = min(len(core) * stubs, count - len(core))
    result: list[tuple[str, list[str]]] = []
    made = 0
    for number in range(wanted):
        until = (count - len(core)) * (number + 1) // wanted
        names = [f"s{number + 1}.{i}" for i in range(1, until - made + 1)]
        result.append((core[number % len(core)], names))
        made = until
    return result


def _domain(brokers: list[str], probability: float, random: Random) -> list[Link]:
    """Return the links of a connected domain."""
    for attempt in range(MAX_REDRAWS):
        links = [pair for pair in combinations(brokers, 2) if random.random() < probability]
        parts = _parts(brokers, links)
        if len(parts) == 1:
            return links
        if len(brokers) > REDRAWN_SIZE or attempt + 1 == MAX_REDRAWS:
            joined = parts[0]
            for part in parts[1:]:
                links.append((random.choice(joined), random.choice(part)))
                joined = joined + part
            return links
    raise AssertionError("the last attempt always returns")


def _parts(brokers: list[str], links: list[Link]) -> list[list[str]]:
    """Return the connected parts of a domain."""
    graph = Topology("domain", tuple(links), tuple(brokers))
    parts: list[list[str]] = []
    seen: set[str] = set()
    for broker in brokers:
        if broker not in seen:
            parts.append(list(graph.distances(broker)))
            seen.update(parts[-1])
    return parts


def _joints(domains: list[list[str]], random: Random) -> list[Link]:
    """Return the links between transit domains: a random tree of them, and some of the other pairs."""
    places = [str(i) for i in range(len(domains))]
    tree = _tree_links(places, random)
    joined = {one_way(a, b) for a, b in tree}
    others = [pair for pair in combinations(places, 2) if one_way(*pair) not in joined]
    probability = min(1.0, 2 / len(domains))
    tree += [pair for pair in others if random.random() < probability]
    return [(random.choice(domains[int(a)]), random.choice(domains[int(b)])) for a, b in tree]
