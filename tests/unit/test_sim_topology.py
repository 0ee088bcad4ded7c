"""Topologies have the sizes, roles and distances that experiments count on, and refuse what cannot be one."""

from __future__ import annotations

import pickle
from fractions import Fraction
from itertools import combinations
from math import dist
from pathlib import Path
from random import Random

import pytest
from tests.hashing import said_under_hash_seeds

from covey.errors import ConfigError
from covey.sim import topology as topologies
from covey.sim.topology import TOPOLOGIES, Topology, build

SOME = [
    ("line", {"count": 5}),
    ("star", {}),
    ("rebeca", {"levels": 3}),
    ("core-edge", {}),
    ("domains", {}),
    ("random-tree", {"count": 30, "seed": 1}),
    ("random-graph", {"count": 30, "seed": 1}),
    ("geometric", {"count": 30, "seed": 1}),
    ("transit-stub", {"count": 64, "seed": 1, "extra": 0.1}),
    ("xroute64", {"seed": 1}),
]


def mean_distance(topology: Topology, root: str, brokers: tuple[str, ...]) -> Fraction:
    hops = topology.distances(root)
    return Fraction(sum(hops[broker] for broker in brokers), len(brokers))


# --- the value ---


def test_neighbours_and_distances_keep_the_order_of_construction() -> None:
    graph = topologies.from_links([("c", "a"), ("b", "c"), ("a", "d"), ("d", "e")])
    assert graph.brokers == ("c", "a", "b", "d", "e")
    assert graph.neighbours == {"c": ("a", "b"), "a": ("c", "d"), "b": ("c",), "d": ("a", "e"), "e": ("d",)}
    assert list(graph.distances("c").items()) == [("c", 0), ("a", 1), ("b", 1), ("d", 2), ("e", 3)]
    assert graph.is_tree
    assert graph.path("b", "e") == ("b", "c", "a", "d", "e")
    assert graph.path("e", "b") == ("e", "d", "a", "c", "b")
    assert graph.path("a", "a") == ("a",)


def test_cycles_and_gaps_are_seen() -> None:
    ring = topologies.from_links([("a", "b"), ("b", "c"), ("c", "a")])
    assert (ring.is_connected, ring.has_cycle, ring.is_tree) == (True, True, False)
    apart = Topology("apart", (("a", "b"),), ("a", "b", "c"))
    assert (apart.is_connected, apart.has_cycle, apart.is_tree) == (False, False, False)
    with pytest.raises(ConfigError, match="not connected"):
        apart.spanning_tree()
    with pytest.raises(ConfigError, match="not a tree"):
        ring.path("a", "c")


def test_a_spanning_tree_has_shortest_paths_from_its_root() -> None:
    graph = topologies.random_graph(40, seed=5, degree=5.0)
    for root in (None, "b17"):
        tree = graph.spanning_tree(root)
        assert tree.is_tree
        assert set(tree.links) <= set(graph.links)
        assert tree.distances(root or "b1") == graph.distances(root or "b1")


def test_a_topology_is_a_value() -> None:
    one, other = topologies.rebeca(2), topologies.rebeca(2)
    assert one == other
    assert hash(one) == hash(other)
    assert one.neighbours
    assert pickle.loads(pickle.dumps(one)) == other


@pytest.mark.parametrize(
    ("links", "brokers", "roles", "said"),
    [
        ([("a", "z")], "ab", {}, "unknown broker 'z'"),
        ([("a", "a")], "ab", {}, "'a' is linked to itself"),
        ([("a", "b"), ("b", "a")], "ab", {}, "between 'b' and 'a' is there twice"),
        ([], "aa", {}, "broker 'a' twice"),
        ([], "", {}, "no broker"),
        ([], "a", {"core": ("q",)}, "role core has unknown broker 'q'"),
    ],
)
def test_what_cannot_be_a_topology_is_refused(
    links: list[tuple[str, str]], brokers: str, roles: dict[str, tuple[str, ...]], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        Topology("t", tuple(links), tuple(brokers), roles)
    assert "\n" not in str(caught.value)


def test_an_unknown_role_or_broker_is_named() -> None:
    star = topologies.star(4)
    with pytest.raises(ConfigError, match="no role 'core'; it has: hub, edge"):
        star.role("core")
    with pytest.raises(ConfigError, match="no broker 'x'"):
        star.distances("x")


# --- shapes ---


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 5])
def test_rebeca_has_three_routers_below_each_and_local_brokers_at_all(levels: int) -> None:
    tree = topologies.rebeca(levels)
    routers, local, leaves = set(tree.role("router")), set(tree.role("local")), set(tree.role("leaf"))
    assert tree.is_tree
    assert len(routers) == (3**levels - 1) // 2
    assert len(local) == (3 ** (levels - 1) - 1) // 2 + 2 * 3 ** (levels - 1)
    for broker in tree.brokers:
        hosts = sum(other in local for other in tree.neighbours[broker])
        if broker in local:
            assert len(tree.neighbours[broker]) == 1
        else:
            assert hosts == (2 if broker in leaves else 1)


def test_rebeca_with_four_levels_is_the_published_one() -> None:
    """Mühl et al., section 2: 40 routers, 67 local brokers; section 3: consumers are 3.73 links from the root."""
    tree = topologies.rebeca()
    assert (len(tree.role("router")), len(tree.role("local")), len(tree.brokers)) == (40, 67, 107)
    assert mean_distance(tree, "r1", tree.role("local")) == Fraction(250, 67)
    leaf_host = tree.role("local")[-1]
    assert round(float(mean_distance(tree, leaf_host, tree.role("local"))), 2) == 6.78
    subnets = [tree.role(f"subnet-{i}") for i in (1, 2, 3)]
    assert [len(subnet) for subnet in subnets] == [35, 35, 35]
    for i, subnet in enumerate(subnets):
        top = tree.neighbours["r1"][i]
        assert all(broker == top or top in tree.path("r1", broker) for broker in subnet)


def test_core_edge_has_publishers_near_e() -> None:
    tree = topologies.core_edge()
    assert tree.is_tree
    assert len(tree.brokers) == 49
    assert [len(tree.role(role)) for role in ("core", "inner", "edge")] == [5, 11, 33]
    assert [len(tree.role(role)) for role in ("publishers", "subscribers")] == [3, 30]
    below = [sum(broker[0] == core for broker in tree.role("subscribers")) for core in "ABCDE"]
    assert below == [6] * 5
    assert tree.path("A1a", "E3c") == ("A1a", "A1", "A", "B", "C", "D", "E", "E3", "E3c")


@pytest.mark.parametrize("joined", ["chain", "star"])
def test_domains_have_three_levels_and_six_engines(joined: str) -> None:
    tree = build("domains", joined=joined)
    assert tree.is_tree
    assert (len(tree.brokers), len(tree.role("engines"))) == (40, 24)
    for number, head in enumerate(tree.role("core"), start=1):
        domain = tree.role(f"domain-{number}")
        hops = tree.distances(head)
        assert [sum(hops[b] == level for b in domain) for level in range(3)] == [1, 3, 6]
    assert max(tree.distances("d1").values()) == (5 if joined == "chain" else 3)


def test_small_and_odd_sizes_are_trees() -> None:
    for size in range(3, 12):
        assert topologies.domains(2, size).is_tree
    for count in (1, 2, 3):
        assert topologies.line(count).is_tree
        assert topologies.star(count).is_tree
    assert len(topologies.star().role("edge")) == 16


# --- random ones ---


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100])
def test_random_trees_are_trees(count: int) -> None:
    trees = [topologies.random_tree(count, seed) for seed in range(5)]
    assert all(tree.is_tree and len(tree.brokers) == count for tree in trees)


def test_all_labelled_trees_are_equally_likely() -> None:
    counts: dict[frozenset[frozenset[str]], int] = {}
    for seed in range(1600):
        tree = topologies.random_tree(4, seed)
        shape = frozenset(frozenset(link) for link in tree.links)
        counts[shape] = counts.get(shape, 0) + 1
    assert len(counts) == 16
    assert all(60 < count < 150 for count in counts.values())


def test_random_graphs_have_the_wanted_degree() -> None:
    for degree in (2.0, 4.0, 9.0):
        graph = topologies.random_graph(50, 3, degree)
        assert graph.is_connected
        assert 2 * len(graph.links) / 50 == degree
    assert len(topologies.random_graph(10, 1, degree=9.0).links) == 45
    with pytest.raises(ConfigError, match=r"degree must be from 1\.8 to 9 for 10 brokers"):
        topologies.random_graph(10, 1, degree=1.0)


@pytest.mark.parametrize(
    ("count", "degree"), [(1, 0.0), (2, 1.0), (12, 0.0), (300, 2.0), (500, 6.0), (2000, 12.0)]
)
def test_geometric_graphs_are_connected_and_have_about_the_wanted_degree(count: int, degree: float) -> None:
    graph = topologies.geometric(count, 3, degree)
    assert graph.is_connected
    assert len(graph.brokers) == count
    assert 2 * len(graph.links) >= count * degree - 1
    if degree >= 6:
        assert 2 * len(graph.links) <= 1.02 * count * degree
    assert graph == topologies.geometric(count, 3, degree)
    assert count < 10 or graph.links != topologies.geometric(count, 4, degree).links


def test_geometric_graphs_link_the_shortest_pairs_and_join_parts_by_their_shortest() -> None:
    """Against all pairs of all places, drawn as the generator draws them."""
    for seed in range(20):
        random = Random(seed)
        places = [(random.random(), random.random()) for _ in range(25)]
        pairs = sorted((dist(places[a], places[b]), a, b) for a, b in combinations(range(25), 2))
        names = [(f"b{a + 1}", f"b{b + 1}") for _, a, b in pairs]
        graph = topologies.geometric(25, seed, degree=2.4)
        assert graph.links[:30] == tuple(names[:30])
        for added in graph.links[30:]:
            without = Topology("less", tuple(link for link in graph.links if link != added), graph.brokers)
            assert not without.is_connected, "only what joins parts is added"
            side = set(without.distances(added[0]))
            assert added == next(pair for pair in names if (pair[0] in side) != (pair[1] in side))


def test_geometric_graphs_refuse_more_neighbours_than_there_are() -> None:
    with pytest.raises(ConfigError, match="degree must be from 0 to 9 for 10 brokers"):
        topologies.geometric(10, 1, degree=9.5)


@pytest.mark.parametrize("count", [1, 2, 6, 30, 64, 500, 5000])
def test_transit_stub_is_connected_and_as_large_as_asked(count: int) -> None:
    graph = topologies.transit_stub(count, seed=2)
    assert graph.is_connected
    assert len(graph.brokers) == count
    assert set(graph.roles["core"]) | set(graph.roles["edge"]) == set(graph.brokers)


def test_transit_stub_follows_its_model() -> None:
    graph = topologies.transit_stub(2000, seed=4)
    assert len(graph.role("core")) == 4 * 5
    assert len(graph.role("gateway")) == 4 * 5 * 4
    core, gateways = set(graph.role("core")), set(graph.role("gateway"))
    joints = [link for link in graph.links if len(core & set(link)) == 1]
    assert len(joints) == len(gateways)
    assert all(gateways & set(link) for link in joints)
    degree = 2 * len(graph.links) / len(graph.brokers)
    assert 3.0 < degree < 3.8
    assert 15 < max(graph.distances(graph.role("edge")[0]).values()) < 30


def test_extra_links_join_stub_brokers_and_leave_the_rest_alone() -> None:
    plain = topologies.transit_stub(500, seed=4)
    more = topologies.transit_stub(500, seed=4, extra=0.5)
    assert more.links[: len(plain.links)] == plain.links
    added = more.links[len(plain.links) :]
    assert len(added) == 250
    assert {broker for link in added for broker in link} <= set(plain.role("edge"))
    tree = topologies.transit_stub(500, seed=4, extra=0.5, tree=True)
    assert tree.is_tree
    assert tree.name == "transit-stub-tree"


def test_xroute64_hangs_consumers_and_a_producer_on_stub_routers() -> None:
    tree = topologies.xroute64(seed=9)
    assert tree.is_tree
    assert [len(tree.role(r)) for r in ("router", "subscribers", "publishers")] == [64, 24, 1]
    homes = [tree.neighbours[broker][0] for broker in tree.role("local")]
    assert len(set(homes)) == 25
    assert set(homes) <= set(tree.role("edge"))
    graph = topologies.xroute64(seed=9, tree=False)
    assert graph.has_cycle
    assert graph.distances("p") == tree.distances("p")


# --- given ones ---


def test_an_edge_list_is_read(tmp_path: Path) -> None:
    file = tmp_path / "net.txt"
    file.write_text("# two links\n\n0 1\n1\t2   # and a remark\n", encoding="utf-8")
    graph = build("edges", path=str(file))
    assert (graph.name, graph.links, graph.brokers) == ("net", (("0", "1"), ("1", "2")), ("0", "1", "2"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a b\na b c\n", "net.txt:2: a line must have two broker names, not 3"),
        ("a\n", "net.txt:1: a line must have two broker names, not 1"),
        ("a b\n#\nb a\n", "net.txt:3: the link between 'b' and 'a' is there twice"),
        ("a a\n", "net.txt:1: the broker 'a' is linked to itself"),
        (f"a {'b' * 300}\n", "net.txt:1: a broker name is longer"),
        ("# nothing\n", "there is no link"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "net.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        topologies.read_edges(file)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"a \xff\n")
    for path in (tmp_path / "none", tmp_path, broken):
        with pytest.raises(ConfigError, match=path.name):
            topologies.read_edges(path)
    monkeypatch.setattr("covey.sim.topology.files.MAX_FILE_BYTES", 3)
    broken.write_text("a b\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="more than 3 bytes"):
        topologies.read_edges(broken)


@pytest.mark.parametrize("link", ["ab", ("a",), ("a", "b", "c"), ("a", ""), ("a", 1)])
def test_links_must_be_pairs_of_names(link: object) -> None:
    with pytest.raises(ConfigError, match="link 2 must be a pair"):
        build("links", links=[("a", "b"), link])


# --- the registry ---


@pytest.mark.parametrize(("kind", "parameters"), SOME)
def test_build_makes_what_the_constructor_makes(kind: str, parameters: dict[str, object]) -> None:
    made = build(kind, **parameters)
    assert made == TOPOLOGIES[kind](**parameters)
    assert made.is_connected


@pytest.mark.parametrize(
    ("kind", "parameters", "said"),
    [
        ("ring", {}, "there is no topology 'ring'; there are: line, star, rebeca"),
        ("line", {"size": 3}, "topology line has no parameter 'size'; it has: count"),
        ("core-edge", {"size": 3}, "topology core-edge has no parameter 'size'; it has: none"),
        ("transit-stub", {"count": 9}, "topology transit-stub needs the parameter 'seed'"),
        ("line", {"count": "five"}, "topology line: count must be an integer, not 'five'"),
        ("line", {"count": True}, "count must be an integer, not True"),
        ("line", {"count": 0}, "topology line: count must be from 1 to 100000, not 0"),
        ("random-tree", {"count": 5, "seed": -1}, "seed must be at least 0"),
        ("transit-stub", {"count": 9, "seed": 1, "extra": float("nan")}, "extra must be from 0 to 10"),
        ("transit-stub", {"count": 9, "seed": 1, "extra": 9}, "only"),
        ("domains", {"joined": "ring"}, "joined must be one of 'chain', 'star', not 'ring'"),
        ("domains", {"count": 1000, "size": 1000}, "more than 100000"),
        ("rebeca", {"levels": 40}, "levels must be from 1 to 9"),
        ("xroute64", {"seed": 1, "consumers": 64}, "are needed"),
    ],
)
def test_bad_parameters_give_one_clear_line(kind: str, parameters: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(kind, **parameters)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_topologies_depend_on_their_seed_and_not_on_hashing() -> None:
    program = (
        "from covey.sim.topology import *\n"
        "for t in (transit_stub(300, 7, extra=.5, tree=True), xroute64(7), random_graph(50, 7), random_tree(50, 7),\n"
        "          geometric(50, 7)):\n"
        "    print(t.links, t.roles, t.neighbours)\n"
    )
    said = said_under_hash_seeds(program)
    assert said[0] == said[1]
    assert said[0].count("\n") == 5
    assert topologies.random_tree(50, 7) != topologies.random_tree(50, 8)
