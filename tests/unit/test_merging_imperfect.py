"""Imperfect merging: mergers within a budget, what it promises of mistakes, and how it follows the events."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import covey
from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.errors import ConfigError
from covey.sim import Network
from covey.strategies.merging.evidence import Evidence
from covey.strategies.merging.groups import Groups, loosely_merged
from covey.strategies.merging.imperfect import LooseNeeds
from covey.strategies.merging.maximal import Changes, item_of

LINK = [("a", "b")]
SYMBOLS = 20


def parsed(*texts: str, language: str = "attributes") -> list[Filter]:
    return [covey.parse(text, language=language) for text in texts]


def market(random: Random, strategy: str = "merging-imperfect", **options: Any) -> Network:
    """Return a network whose consumers at b want ranges of prices, each of another symbol."""
    net = Network(LINK, strategy, advertisements=False, options=options)
    for symbol, low in enumerate(
        random.sample(range(20, 60), SYMBOLS)
    ):  # all different: no two merge exactly
        net.subscribe("b", f"symbol = 's{symbol:02}' and price between {low} and {low + 25}")
    net.settle()
    return net


def stream(net: Network, random: Random, count: int, mean: float) -> list[bool]:
    """Publish quotes at a; return of each that came to b whether it was a mistake."""
    judged = []
    for _ in range(count):
        event = {"symbol": f"s{random.randrange(SYMBOLS):02}", "price": random.gauss(mean, 15)}
        before = net.counters["forwarded_events"], net.counters["false_positives"]
        net.publish("a", event)
        net.settle()
        if net.counters["forwarded_events"] > before[0]:
            judged.append(net.counters["false_positives"] > before[1])
    return judged


def worst(judged: list[bool], window: int) -> int:
    return max(sum(judged[k : k + window]) for k in range(len(judged) - window + 1))


# -- the budget ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [0.0, 0.05, 0.1, 0.3])
def test_on_a_stationary_stream_mistakes_stay_within_the_budget(budget: float) -> None:
    random = Random(7)
    net = market(random, budget=budget, sample=100, every=20)
    judged = stream(net, random, 3000, mean=50)
    counters = net.router_counters()
    assert counters["metered_false_positives"] == sum(judged)
    # In every window the share, and one more for each merger that was there.
    assert worst(judged, 100) <= 100 * budget + SYMBOLS // 2 * bool(budget)
    assert sum(judged) <= 1.1 * budget * len(judged)
    assert bool(counters["made_mergers"]) == bool(budget)
    for subscription, event in net.deliveries:
        assert subscription.filter.matches(event)


def test_tables_are_smaller_the_more_mistakes_are_allowed() -> None:
    sizes = []
    for budget in (0.0, 0.2, 1.0):
        random = Random(3)
        net = market(random, budget=budget, sample=100, every=20)
        stream(net, random, 1500, mean=50)
        sizes.append(len(net.tables["a"]))
    assert sizes[0] == SYMBOLS > sizes[1] > sizes[2]


def test_mergers_that_were_free_are_split_when_the_stream_changes() -> None:
    net = Network(LINK, "merging-imperfect", advertisements=False, options={"sample": 50, "every": 10})
    net.subscribe("b", "symbol = 'x' and price between 10 and 40")
    net.subscribe("b", "symbol = 'y' and price between 20 and 50")
    net.settle()
    for k in range(60):
        net.publish("a", {"symbol": "xy"[k % 2], "price": 25 + k % 10})
    net.settle()
    assert net.tables["a"] == [("b", covey.parse("symbol in ('x', 'y') and price between 10 and 50"))]
    assert net.counters["false_positives"] == 0
    for _ in range(20):  # from now on prices of x lie where nobody wants them
        net.publish("a", {"symbol": "x", "price": 45})
        net.settle()
    assert len(net.tables["a"]) == 2
    assert net.router_counters()["split_mergers"] == 1
    assert net.router_counters()["metered_false_positives"] == 6  # a tenth of the window, and one more
    for k in range(200):  # what was learnt is not forgotten soon
        net.publish("a", {"symbol": "xy"[k % 2], "price": 25})
        net.settle()
    assert len(net.tables["a"]) == 2


def test_what_was_learnt_is_forgotten_in_the_end() -> None:
    net = Network(
        LINK, "merging-imperfect", advertisements=False, options={"sample": 20, "every": 5, "patience": 2}
    )
    net.subscribe("b", "symbol = 'x' and price between 10 and 40")
    net.subscribe("b", "symbol = 'y' and price between 20 and 50")
    net.settle()

    def publish(price: float, count: int) -> int:
        for k in range(count):
            net.publish("a", {"symbol": "xy"[k % 2], "price": price})
            net.settle()
        return len(net.tables["a"])

    assert publish(30, 20) == 1
    assert publish(45, 20) == 2
    assert publish(30, 25) == 2
    assert publish(30, 40) == 1


def test_without_events_nothing_is_merged_loosely() -> None:
    net = market(Random(1))
    assert len(net.tables["a"]) == SYMBOLS


# -- subscriptions come and go -------------------------------------------------------------------------------


def test_what_a_merger_covers_joins_it_without_a_message() -> None:
    net = Network(LINK, "merging-imperfect", advertisements=False, options={"sample": 50, "every": 10})
    first = net.subscribe("b", "symbol = 'x' and price between 10 and 40")
    net.subscribe("b", "symbol = 'y' and price between 20 and 50")
    net.settle()
    for _ in range(10):
        net.publish("a", {"symbol": "x", "price": 30})
    net.settle()
    assert len(net.tables["a"]) == 1
    net.clear_counters()
    net.subscribe("b", "symbol = 'x' and price between 45 and 50")
    net.settle()
    assert net.counters["control_messages"] == 0
    net.publish("a", {"symbol": "x", "price": 47})
    net.settle()
    assert net.counters["delivered_events"] == 1
    net.unsubscribe(first)
    net.settle()
    # The merger is drawn closer around what is left of it.
    assert net.tables["a"] == [("b", covey.parse("symbol in ('x', 'y') and price between 20 and 50"))]
    for subscription in list(net.subscriptions.values()):
        net.unsubscribe(subscription)
    net.settle()
    assert net.tables["a"] == []


def test_what_replaces_a_member_takes_its_place_unless_events_speak_against_it() -> None:
    needs = LooseNeeds(Evidence(10, 2))
    x, y, wider = parsed(
        "s = 'x' and p between 1 and 4", "s = 'y' and p between 2 and 5", "s = 'x' and p between 3 and 9"
    )
    needs.change([], [x, y])
    assert needs.join(2)[1] == 1
    changes = needs.change([], [wider])
    assert [item.filter for item in changes.entered] == parsed("s in ('x', 'y') and p between 1 and 9")
    needs.change([wider], [])
    needs.evidence.add({"s": "y", "p": 8}, unwanted=True)
    assert {item.filter for item in needs.change([], [wider]).entered} == set(
        parsed("s = 'x' and p between 1 and 9", "s = 'y' and p between 2 and 5")
    )


# -- other families ------------------------------------------------------------------------------------------


def test_tree_patterns_are_aggregated_lossily_and_apart_again() -> None:
    net = Network(
        LINK, "merging-imperfect", advertisements=False, options={"sample": 50, "every": 10, "budget": 0.2}
    )
    for text in ("/news/item/title", "/news/item/body", "/news/item/author"):
        net.subscribe("b", covey.parse(text, language="xpath"))
    net.settle()
    assert len(net.tables["a"]) == 3
    for k in range(40):
        net.publish("a", f"<news><item><{('title', 'body', 'author')[k % 3]}/></item></news>")
    net.settle()
    [(_, merger)] = net.tables["a"]
    assert merger.covers(covey.parse("/news/item/title", language="xpath"))
    assert not merger.matches("<sport/>")
    for _ in range(30):
        net.publish("a", "<news><item><advert/></item></news>")
        net.settle()
    assert {str(filter) for _, filter in net.tables["a"]} == {
        "/news/item/title",
        "/news/item/body",
        "/news/item/author",
    }
    assert len(net.deliveries) == 40
    assert net.router_counters()["metered_false_positives"] <= 0.2 * 50 + 1


def test_keyword_parts_give_up_words() -> None:
    given = [KeywordFilter.any_of([["stock", f"w{k}", f"v{k % 7}"]]) for k in range(120)]
    needs = LooseNeeds(Evidence(100, 2))
    needs.change([], given)
    parts = len(needs.items())
    assert parts > 1
    while needs.join(50)[1]:
        pass
    assert len(needs.items()) < parts
    assert all(any(item.filter.covers(f) for item in needs.items()) for f in given)
    assert not any(item.filter.matches(frozenset({"other"})) for item in needs.items())


# -- groups --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["s = 'a' and x < 5", "s = 'b' and x > 7"], "s in ('a', 'b') and (x < 5 or x > 7)"),
        (["s = 'a' and x < 5", "s = 'b'"], "s in ('a', 'b')"),
        (["s = 'a'", "x = 1"], None),  # nothing in common: it would let in everything
        (["s = 'a' and x = 1", "s = 'b' and y = 1"], None),  # it would limit less than either
        (["s = 'a' or s = 'b' and x = 1", "s = 'c'"], "s in ('a', 'b', 'c')"),
    ],
)
def test_what_is_merged_loosely(given: list[str], expected: str | None) -> None:
    found = loosely_merged(parsed(*given))
    assert found == (None if expected is None else covey.parse(expected))
    assert loosely_merged(parsed(*reversed(given))) == found


def test_families_are_never_merged_with_each_other() -> None:
    assert loosely_merged([*parsed("x = 1"), *parsed("/a", language="xpath")]) is None
    assert loosely_merged(parsed("/a/b", "/c", language="xpath")) is None


def test_of_many_pairs_all_get_their_turn() -> None:
    groups = Groups()
    items = [item_of(f) for f in parsed(*[f"s = 's{k}' and x between {k} and {k + 5}" for k in range(300)])]
    groups.follow(Changes(items, []), [])
    rounds = 0
    while groups.join([], 40, start=rounds * 97)[1]:
        rounds += 1
    assert len(groups.items()) == 1
    assert rounds >= 7  # at most forty pairs at a time


# -- settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 1.5}, "the budget of merging-imperfect is a share from 0 to 1, not 1.5"),
        ({"budget": "much"}, "not 'much'"),
        ({"budget": float("nan")}, "not nan"),
        (
            {"sample": 0},
            "the setting sample of merging-imperfect is a whole number from 1 to 1,000,000, not 0",
        ),
        ({"every": 2.5}, "the setting every"),
        ({"patience": True}, "the setting patience"),
        (
            {"speed": 1},
            "merging-imperfect has no setting 'speed' (hint: one of budget, sample, every, patience)",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as failure:
        Network(LINK, "imperfect", options=options)
    assert words in str(failure.value)


def test_exact_and_imperfect_brokers_may_be_neighbours() -> None:
    net = Network([("a", "b"), ("b", "c")], {"a": "merging", "b": "imperfect", "c": "merging"})
    net.advertise("a", "x >= 0")
    net.subscribe("c", "x > 3")
    net.settle()
    net.publish("a", {"x": 4})
    net.settle()
    assert len(net.deliveries) == 1
