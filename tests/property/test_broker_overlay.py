"""The overlay's tree: from equal states everybody computes the same, it spans what is up, and states spread.

The oracle is slow and obvious: the best of all subsets of links that are a spanning forest.
"""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.broker.neighbours import Overlay, Pair, has_cycle, links_up, pair, spanning_tree
from covey.errors import ProtocolError
from covey.protocol.control import BrokerLinks

NAMES = "abcdef"
PAIRS = [pair(a, b) for a, b in combinations(NAMES, 2)]

links = st.dictionaries(st.sampled_from(PAIRS), st.integers(0, 3), max_size=9)


def parts(edges: list[Pair] | frozenset[Pair]) -> dict[str, frozenset[str]]:
    """Return who is together with whom, by walking."""
    found = {}
    for name in NAMES:
        seen, todo = {name}, [name]
        while todo:
            here = todo.pop()
            for a, b in edges:
                for one, other in ((a, b), (b, a)):
                    if one == here and other not in seen:
                        seen.add(other)
                        todo.append(other)
        found[name] = frozenset(seen)
    return found


@given(links)
def test_the_tree_is_the_best_spanning_forest(up: dict[Pair, int]) -> None:
    tree = spanning_tree(up)
    whole = parts(list(up))
    assert parts(tree) == whole
    size = len(NAMES) - len(set(whole.values()))
    assert len(tree) == size
    best = min(
        sorted((up[link], link) for link in some)
        for some in combinations(up, size)
        if parts(list(some)) == whole
    )
    assert sorted((up[link], link) for link in tree) == best


@given(links, st.sets(st.sampled_from(PAIRS)))
def test_a_link_is_up_when_both_ends_say_so(up: dict[Pair, int], half: set[Pair]) -> None:
    states = []
    for name in NAMES:
        own = {}
        for a, b in up:
            if name in (a, b):
                first = name == a
                own[b if first else a] = (up[a, b], first or (a, b) not in half)
        states.append(BrokerLinks(name, 1, own))
    assert links_up(states) == {link: priority for link, priority in up.items() if link not in half}
    assert has_cycle(states) == (len(up) > len(NAMES) - len(set(parts(list(up)).values())))


@given(links, st.sampled_from(PAIRS))
def test_a_link_that_fails_moves_no_other(up: dict[Pair, int], broken: Pair) -> None:
    """What was on the tree and is still up stays: at most one link joins."""
    before = spanning_tree(up)
    after = spanning_tree({link: priority for link, priority in up.items() if link != broken})
    assert before - {broken} <= after
    assert len(after - before) <= 1
    if broken not in before:
        assert after == before


@given(st.integers(0, 1 << 32), links)
def test_states_spread_to_all_who_are_connected(seed: int, up: dict[Pair, int]) -> None:
    """States flood in any order over links that come and go; at rest all that are connected know the same tree."""
    random = Random(seed)
    brokers = {name: Overlay(name, random.randint(1, 9)) for name in NAMES}
    wires: dict[tuple[str, str], list[BrokerLinks]] = {}
    is_up: dict[Pair, bool] = dict.fromkeys(up, False)

    def tell(name: str, state: BrokerLinks, source: str = "") -> None:
        for link, there in is_up.items():
            if there and name in link:
                other = link[0] if link[1] == name else link[1]
                if other != source:
                    wires[name, other].append(state)

    def restate(name: str) -> None:
        own = {
            (link[0] if link[1] == name else link[1]): (up[link], there)
            for link, there in is_up.items()
            if name in link
        }
        tell(name, brokers[name].state(own))

    def change(link: Pair) -> None:
        is_up[link] = not is_up[link]
        for a, b in (link, link[::-1]):
            wires[a, b] = list(brokers[a].states) if is_up[link] else []
        for name in link:
            restate(name)

    def arrive() -> bool:
        busy = [ends for ends, waiting in wires.items() if waiting]
        if not busy:
            return False
        sender, receiver = random.choice(busy)
        told = brokers[receiver].learn(wires[sender, receiver].pop(0))
        if told is not None:
            tell(receiver, told, "" if told.broker == receiver else sender)
        return True

    for _ in range(12):
        if up and random.random() < 0.7:
            change(random.choice(list(up)))
        for _ in range(random.randint(0, 8)):
            arrive()
    while arrive():
        pass
    there = {link: up[link] for link, yes in is_up.items() if yes}
    true, together = spanning_tree(there), parts(list(there))
    for name, broker in brokers.items():
        near = {link for link in broker.tree if link[0] in together[name]}
        assert near == {link for link in true if link[0] in together[name]}
        for other in NAMES:
            if other != name:
                assert broker.reaches(other) == (other in together[name])


def test_a_broker_that_hears_of_its_former_self_speaks_louder() -> None:
    overlay = Overlay("a", 5)
    mine = overlay.state({"b": (1, True)})
    answer = overlay.learn(BrokerLinks("a", 1_000, {"c": (1, True)}))
    assert answer == BrokerLinks("a", 1_001, {"b": (1, True)})
    assert overlay.learn(mine) is None


def test_the_overlay_is_bounded() -> None:
    overlay = Overlay("a", 1, max_brokers=2)
    assert overlay.learn(BrokerLinks("b", 1, {})) is not None
    with pytest.raises(ProtocolError, match="no room for 'c'"):
        overlay.learn(BrokerLinks("c", 1, {}))
    with pytest.raises(ProtocolError, match="cannot have"):
        overlay.learn(BrokerLinks("b", 2, {str(n): (1, True) for n in range(10_001)}))
