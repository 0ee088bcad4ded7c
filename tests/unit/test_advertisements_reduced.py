"""Advertisements that are reduced on their way: ten covered ones cost as much as one, and what comes and goes is exact.

That every strategy delivers right with each way to reduce them, whatever fails, is tried in conformance/test_trials.py:
each trial draws one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

import covey
from covey.core.attributes.parser import parse_attributes
from covey.core.filter import Filter
from covey.core.keywords.parser import parse_keywords
from covey.errors import ConfigError
from covey.routing.advertisements import WAYS, Advertisement, Advertisements, Announcement, reduction
from covey.routing.digest import Fact
from covey.routing.messages import Advertise, Unadvertise
from covey.routing.strategy import registered
from covey.sim import BrokerNetwork, Network
from covey.strategies.merging.reduction import merged
from covey.strategies.reductions import distinct, everything, uncovered

Reduce = Callable[[Sequence[Filter]], list[Filter]]
SPECIFIED: dict[str, Reduce] = {
    "none": everything,
    "identity": distinct,
    "covering": uncovered,
    "merging": merged,
}
LINE = [("a", "b"), ("b", "c")]


def counted(way: str, filters: Sequence[str], strategy: str = "covering") -> tuple[int, int, Network]:
    """Return entries and messages of advertisements made by one client at the end of a line of three brokers."""
    net = Network(LINE, strategy, reduce_advertisements=way)
    messages = 0

    def observe(sender: str, receiver: str, message: object) -> None:
        nonlocal messages
        messages += isinstance(message, Advertise | Unadvertise)

    net.observer = observe
    for filter in filters:
        net.advertise("a", filter, client="producer")
        net.settle()
    parts = [(net.nodes[name].router.trees[0], link) for name, link in (("b", "a"), ("c", "b"))]
    return sum(len(part.advertised.of_link(link)) for part, link in parts), messages, net


COVERED = ["x > 0", *(f"x > {number}" for number in range(1, 11))]


@pytest.mark.parametrize("strategy", [name for name in covey.strategies() if not registered(name).trees])
def test_ten_covered_advertisements_are_one_entry_and_one_message_a_link(strategy: str) -> None:
    assert counted("none", COVERED, strategy)[:2] == (22, 22)
    assert counted("identity", COVERED, strategy)[:2] == (22, 22)
    assert counted("covering", COVERED, strategy)[:2] == (2, 2)
    assert counted("merging", COVERED, strategy)[:2] == (2, 2)
    assert counted("identity", ["x > 0"] * 11, strategy)[:2] == (2, 2)


def test_advertisements_that_join_are_told_as_one_when_they_are_merged() -> None:
    joined = [f"s = '{letter}'" for letter in "abcdefghij"]
    assert counted("covering", joined)[0] == 20
    entries, _, net = counted("merging", joined)
    assert entries == 2
    [known] = net.nodes["c"].router.trees[0].advertised.of_link("b").values()
    assert known.filter == parse_attributes("s IN ('a','b','c','d','e','f','g','h','i','j')")


@pytest.mark.parametrize("way", WAYS)
def test_subscriptions_follow_what_a_covering_advertisement_uncovers(way: str) -> None:
    net = Network(LINE, "covering", reduce_advertisements=way)
    narrow = net.advertise("a", "x > 5", client="one")
    broad = net.advertise("a", "x > 0", client="two")
    wanted = [net.subscribe("c", "x = 7"), net.subscribe("c", "x = 2")]
    net.settle()
    assert {str(filter) for _, filter in net.tables["a"]} == {"x = 2", "x = 7"}
    net.unadvertise(broad)
    net.settle()
    assert {str(filter) for _, filter in net.tables["a"]} == {"x = 7"}
    net.publish("a", {"x": 7}, client="one")
    net.settle()
    assert [handle for handle, _ in net.deliveries] == wanted[:1]
    net.unadvertise(narrow)
    net.settle()
    assert not any(net.tables.values())
    assert all(not net.nodes[name].router.trees[0].advertised.of_link("b") for name in "ac")


# -- against the specification ---------------------------------------------------------------------------------


def drawn(random: Random) -> Filter:
    if random.random() < 0.15:
        return parse_keywords(" and ".join(f"w{random.randrange(3)}" for _ in range(random.randint(1, 2))))
    if random.random() < 0.3:
        return parse_attributes(f"s = '{random.choice('abc')}' AND x > {random.randrange(3)}")
    low = random.randrange(6)
    return parse_attributes(f"x BETWEEN {low} AND {low + random.randrange(4)}")


def carried_out(known: dict[str, Fact], news: Announcement) -> None:
    for fact in news.entered:
        assert fact.key not in known
        known[fact.key] = fact
    for key in news.left:
        del known[key]


@pytest.mark.parametrize("by_publisher", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_told_is_the_reduction_after_every_change(way: str, by_publisher: bool) -> None:
    for seed in range(12):
        random = Random(f"{way} {seed}")
        ads = Advertisements()
        teller = reduction(way)(ads, "u", by_publisher)
        held: dict[tuple[str, str], Advertisement] = {}
        known: dict[str, Fact] = {}
        for step in range(120):
            if held and random.random() < (0.35 if step < 70 else 0.65):
                link, key = random.choice(list(held))
                gone = ads.remove(link, key)
                assert gone == held.pop((link, key))
                carried_out(known, teller.left(key, gone))
            else:
                old = random.choice(list(held)) if held and random.random() < 0.2 else None
                link = random.choice("vw")  # the same one may be known from two links
                key = old[1] if old else f"a{step}"
                ad = held[old] if old else Advertisement(drawn(random), random.choice("pq"))
                if ads.add(link, key, *ad):
                    held[link, key] = ad
                    carried_out(known, teller.came(key, ad))
            groups: dict[str, dict[str, Filter]] = {}
            for (_, key), ad in held.items():
                groups.setdefault(ad.publisher if by_publisher else "", {})[key] = ad.filter
            due = [f for group in groups.values() for f in SPECIFIED[way](list(group.values()))]
            assert sorted(map(str, due)) == sorted(str(fact.filter) for fact in known.values()), (seed, step)
            assert {fact.key: fact for fact in teller.facts()} == known
            if by_publisher:
                assert {fact.owner for fact in known.values()} == set(groups)


def test_a_teller_holds_nothing_when_all_have_left() -> None:
    for way in WAYS:
        ads = Advertisements()
        teller = reduction(way)(ads, "u", False)
        ad = Advertisement(parse_attributes("x = 1"), "p")
        ads.add("v", "a", *ad)
        teller.came("a", ad)
        ads.remove("v", "a")
        assert teller.left("a", ad).left
        assert list(teller.facts()) == []


def test_a_way_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"not reduced by .perfectly. .hint: one of none, identity"):
        Network(LINE, reduce_advertisements="perfectly")


# -- publishers, and live brokers ------------------------------------------------------------------------------


def test_incremental_aggregation_knows_every_publisher() -> None:
    """Its distances are by publisher, so what one publisher announces does not hide what another one does."""
    net = Network(LINE, "incremental", reduce_advertisements="covering")
    for client in ("one", "two"):
        for filter in ("x > 0", "x > 3"):
            net.advertise("a", filter, client=client)
    net.settle()
    part = net.nodes["c"].router.trees[0]
    assert len(part.publishers("b", parse_attributes("x = 4"))) == 2
    assert len(part.advertised.of_link("b")) == 2


@pytest.mark.parametrize("way", WAYS)
def test_live_brokers_reduce_them_too_and_after_a_link_was_away(way: str) -> None:
    net = BrokerNetwork(LINE, "covering", reduce_advertisements=way)
    for filter in COVERED:
        net.advertise("a", filter, client="producer")
    net.subscribe("c", "x = 20")
    net.settle()
    count = 1 if way in ("covering", "merging") else len(COVERED)

    def known() -> list[int]:
        parts = [net.machines[name].core.epochs.routers[0].trees[0] for name in "bc"]
        return [len(part.advertised.of_link(link)) for part, link in zip(parts, "ab", strict=True)]

    assert known() == [count, count]
    net.link_down("a", "b")
    net.settle()
    net.advertise("a", "x >= 0", client="producer")  # it covers all that b knew
    net.link_up("a", "b")
    net.settle()
    more = len(COVERED) + 1 if count > 1 else 1
    assert known() == [more, more]
    net.publish("a", {"x": 20}, client="producer")
    net.settle()
    assert len(net.deliveries) == 1
