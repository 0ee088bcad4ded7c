"""Merging by example: what becomes one filter, what stays apart, and what neighbours are told, message by message."""

from __future__ import annotations

import pytest

import covey
from covey.core.attributes.constraint import compare
from covey.core.attributes.filter import FALSE, TRUE, AttributeFilter
from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.errors import ProtocolError
from covey.routing.messages import LinkUp, Message, Subscribe, Unsubscribe
from covey.routing.outputs import Output, Send
from covey.routing.router import Router
from covey.sim import Network
from covey.strategies.coverset import FEW
from covey.strategies.merging.boxes import Box
from covey.strategies.merging.cascade import Group, Layer
from covey.strategies.merging.keywords import half, parts_of
from covey.strategies.merging.maximal import MaximalFilters, item_of, label_of
from covey.strategies.merging.perfect import Needs, merged

LINE = [("a", "b"), ("b", "c")]


def filters(*texts: str, language: str = "attributes") -> list[Filter]:
    return [covey.parse(text, language=language) for text in texts]


# -- the reduction -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["symbol = 'a'", "symbol = 'b'"], ["symbol in ('a', 'b')"]),
        (["x between 1 and 5", "x between 3 and 9"], ["x between 1 and 9"]),
        (["x < 5", "x >= 5"], ["x < 5 or x >= 5"]),
        (
            ["s = 'a' and x between 1 and 5", "s = 'a' and x between 3 and 8", "s = 'b' and x between 1 and 5"],
            ["s = 'a' and x between 1 and 8", "s = 'b' and x between 1 and 5"],
        ),
        (["s = 'a' and x < 5", "s = 'b' and x < 5"], ["s in ('a', 'b') and x < 5"]),
        (["s = 'a' and x < 5", "s = 'b' and x > 9"], ["s = 'a' and x < 5", "s = 'b' and x > 9"]),
        (["s = 'a'", "s = 'a' and x < 5"], ["s = 'a'"]),
        (["s = 'a' and y is null", "s = 'a' and y is not null"], ["s = 'a'"]),
        (["s = 'a' and x = 1 or s = 'b' and x = 2", "s = 'a'"], ["s = 'a'", "s = 'a' and x = 1 or s = 'b' and x = 2"]),
        (["s = 'a' or x = 2", "s = 'a'"], ["s = 'a' or x = 2"]),
        (["s like 'a%b'", "s like 'c%d'"], ["s like 'a%b'", "s like 'c%d'"]),
        (["s like 'a%b'", "s = 'axb'"], ["s like 'a%b'"]),
    ],
)  # fmt: skip
def test_attribute_filters(given: list[str], expected: list[str]) -> None:
    assert set(merged(filters(*given))) == set(filters(*expected))


def test_joins_are_repeated_until_nothing_can_be_joined() -> None:
    # Along x nothing joins at first; along s the first two do, and then along x with the third.
    given = ["s = 'a' and x = 1", "s = 'b' and x = 1", "s in ('a', 'b') and x = 2"]
    assert merged(filters(*given)) == filters("s in ('a', 'b') and x in (1, 2)")


def test_a_box_freed_of_a_name_is_joined_with_boxes_that_never_had_it() -> None:
    given = ["x = 1 and y is null", "x = 1 and y is not null", "x = 2"]
    assert merged(filters(*given)) == filters("x in (1, 2)")


def test_everything_and_nothing() -> None:
    assert merged([TRUE, *filters("x = 1")]) == [TRUE]
    assert merged([FALSE, *filters("x = 1")]) == filters("x = 1")
    assert merged([FALSE]) == [FALSE]
    assert merged(filters("x is null", "x is not null")) == [TRUE]
    assert merged([]) == []


def test_tree_patterns_are_reduced_by_covering_only() -> None:
    assert set(merged(filters("/a/b", "//b", "/a/c", language="xpath"))) == set(
        filters("//b", "/a/c", language="xpath")
    )


def test_keywords_become_one_filter() -> None:
    given = filters("elm", "ash and birch", "ash", "cedar and ash", language="keywords")
    assert merged(given) == filters("ash or elm", language="keywords")


def test_families_stay_apart() -> None:
    given = [
        *filters("x = 1", "x = 2"),
        *filters("/a", language="xpath"),
        *filters("elm", language="keywords"),
    ]
    assert len(merged(given)) == 3


# -- limits --------------------------------------------------------------------------------------------------


def test_a_thousand_symbols_are_one_filter_that_can_be_sent() -> None:
    [one] = merged(AttributeFilter.of("symbol", compare("=", f"S{k:03}")) for k in range(1000))
    assert covey.decode(one.encode()) == one
    assert one.matches({"symbol": "S999"})
    assert not one.matches({"symbol": "S1000"})


def test_more_values_than_a_filter_may_have_are_split_into_as_few_as_possible() -> None:
    given: list[Filter] = [AttributeFilter.of("n", compare("=", k)) for k in range(0, 4100, 2)]
    found = merged(given)
    assert len(found) == 3  # 2,050 single values, at most 1,024 in one
    assert merged(reversed(given)) == found == merged(found)
    assert all(any(whole.covers(part) for whole in found) for part in given)
    assert all(covey.decode(whole.encode()) == whole for whole in found)


def test_values_too_long_for_one_wire_form_are_split() -> None:
    given: list[Filter] = [AttributeFilter.of("s", compare("=", f"{k:03}" + "x" * 1000)) for k in range(100)]
    found = merged(given)
    assert len(found) == 2
    assert all(len(whole.encode()) <= 65_536 for whole in found)
    assert merged(found) == found


def test_keywords_that_do_not_fit_are_halved_by_digest() -> None:
    given = [KeywordFilter.any_of([[f"word{k}"]]) for k in range(300)]
    found = merged(given)
    assert len(given) // 64 < len(found) <= 12
    assert merged(found) == found == merged(reversed(given))
    assert all(covey.decode(part.encode()) == part for part in found)
    needs = Needs()
    needs.change([], given)
    changes = needs.change([], filters("another", language="keywords"))
    assert (len(changes.entered), len(changes.left)) == (1, 1)
    assert merged(needs.filters) == sorted((item.filter for item in needs.items()), key=lambda f: f.encode())


def test_keywords_that_no_digest_tells_apart_stay_as_they_are() -> None:
    given = [KeywordFilter.any_of([["a"], *[[f"b{k}", f"c{j}"] for j in range(60)]]) for k in range(3)]
    assert len({half(f, 0) for f in given}) == 1
    assert parts_of(given) == given
    assert parts_of([]) == []


# -- step by step --------------------------------------------------------------------------------------------


def test_only_the_groups_that_a_change_touches_are_united_again(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = Needs()
    needs.change(
        [], filters(*[f"s = 's{k}' and x between {j} and {j + 3 + k}" for k in range(60) for j in (1, 2)])
    )
    sizes: list[int] = []
    update = Layer._update

    def counted(layer: Layer, rest: Box, group: Group) -> object:
        sizes.append(len(group.members))
        return update(layer, rest, group)

    monkeypatch.setattr(Layer, "_update", counted)
    changes = needs.change([], filters("s = 's7' and x between 0 and 40"))
    assert (len(changes.entered), len(changes.left)) == (1, 1)
    assert 0 < len(sizes) <= 14
    assert max(sizes) <= 3


def test_the_maximal_ones_of_few_and_of_many_are_the_same() -> None:
    given = [covey.parse(f"x between {k} and {2 * k}") for k in range(3 * FEW)] + filters(
        "x > 1 and y = 1", "x > 1"
    )
    state = MaximalFilters()
    for filter in given:
        state.change([], [item_of(filter)])
    kept = {item.filter for item in state.items()}
    assert kept == {f for f in given if not any(other != f and other.covers(f) for other in given)}
    for filter in given[2:]:
        state.change([item_of(filter)], [])
    assert {item.filter for item in state.items()} == {
        covey.parse("x between 0 and 0"),
        covey.parse("x between 1 and 2"),
    }
    assert state.match({"x": 2})
    assert not state.match({"x": 3})


# -- messages ------------------------------------------------------------------------------------------------


def transcript(net: Network) -> list[tuple[str, str, Message]]:
    seen: list[tuple[str, str, Message]] = []
    net.observer = lambda sender, receiver, message: seen.append((sender, receiver, message))
    return seen


def test_the_new_merger_is_told_before_the_old_one_is_withdrawn() -> None:
    net = Network([("a", "b")], "merging", advertisements=False)
    net.subscribe("b", "s = 'x'")
    net.settle()
    seen = transcript(net)
    second = net.subscribe("b", "s = 'y'")
    net.settle()
    one, both = filters("s = 'x'", "s in ('x', 'y')")
    assert seen == [("b", "a", Subscribe(label_of(both), both)), ("b", "a", Unsubscribe(label_of(one)))]
    seen.clear()
    net.unsubscribe(second)
    net.settle()
    assert seen == [("b", "a", Subscribe(label_of(one), one)), ("b", "a", Unsubscribe(label_of(both)))]


def test_what_changes_no_merger_causes_no_message() -> None:
    net = Network(LINE, "merging", advertisements=False)
    net.subscribe("c", "s = 'x' and p between 10 and 30")
    net.subscribe("c", "s = 'x' and p between 20 and 50")
    net.settle()
    net.clear_counters()
    equal = net.subscribe("b", "s = 'x' and p between 20 and 50", client="equal")
    inside = net.subscribe("c", "s = 'x' and p between 15 and 45")
    net.settle()
    # Only c has not heard of what is at b, and it is told once.
    assert net.counters["control_messages"] == 1
    net.unsubscribe(inside)
    net.settle()
    assert net.counters["control_messages"] == 1
    net.unsubscribe(equal)
    net.settle()
    assert net.counters["control_messages"] == 2
    assert net.tables["a"] == [("b", covey.parse("s = 'x' and p between 10 and 50"))]


def test_a_label_is_bound_to_one_filter_also_over_a_restart() -> None:
    net = Network(LINE, "merging", advertisements=False)
    bound: dict[str, Filter] = {}
    for _, _, message in (seen := transcript(net)):
        assert isinstance(message, Message)
    handles = [net.subscribe("c", f"s = 's{k}'") for k in range(4)]
    net.settle()
    before = net.nodes["c"].router.trees[0].strategy.told("b")
    net.crash("c")
    net.settle()
    net.restart("c")
    net.settle()
    assert net.nodes["c"].router.trees[0].strategy.told("b") == before
    for handle in handles:
        net.unsubscribe(handle)
        net.settle()
    for _, _, message in seen:
        if isinstance(message, Subscribe):
            assert bound.setdefault(message.key, message.filter) == message.filter
    assert not any(net.tables.values())


def test_with_advertisements_only_what_is_wanted_is_merged() -> None:
    net = Network([("a", "b")], "merging")
    low = net.advertise("a", "price < 50")
    net.subscribe("b", "symbol = 'x' and price between 10 and 20")
    net.subscribe("b", "symbol = 'x' and price between 60 and 70")
    net.settle()
    assert net.tables["a"] == [("b", covey.parse("symbol = 'x' and price between 10 and 20"))]
    high = net.advertise("a", "price > 40")
    net.settle()
    both = covey.parse("symbol = 'x' and (price between 10 and 20 or price between 60 and 70)")
    assert net.tables["a"] == [("b", both)]
    net.unadvertise(low)
    net.settle()
    assert net.tables["a"] == [("b", covey.parse("symbol = 'x' and price between 60 and 70"))]
    net.unadvertise(high)
    net.settle()
    assert net.tables["a"] == []


def test_a_link_that_comes_back_brings_only_what_has_changed() -> None:
    net = Network(LINE, "merging", advertisements=False)
    # Of ranges that agree in nothing, each is a merger of its own.
    handles = [net.subscribe("c", f"s = 's{k}' and p between {k} and {2 * k}") for k in range(60)]
    net.settle()
    assert len(net.tables["a"]) == 60
    net.link_down("b", "c")
    net.settle()
    assert not net.tables["a"]
    net.unsubscribe(handles[0])
    net.link_up("b", "c")
    net.settle()
    assert len(net.tables["a"]) == len(net.tables["b"]) == 59
    assert net.router_counters()["synchronised_facts"] < 20


def sent(outputs: list[Output]) -> list[Message]:
    """Return the messages of outputs that are all sendings."""
    messages = []
    for output in outputs:
        assert isinstance(output, Send)
        messages.append(output.message)
    return messages


def test_a_neighbour_may_not_bind_a_label_anew() -> None:
    router = Router("a", "merging", advertisements=False)
    other = Router("b", "merging", advertisements=False)
    # The two greet each other; what one puts out is given to the other until both are at rest.
    pending = [(router, "b", message) for message in sent(other.handle(LinkUp(), "a"))]
    pending += [(other, "a", message) for message in sent(router.handle(LinkUp(), "b"))]
    while pending:
        receiver, source, message = pending.pop(0)
        back = other if receiver is router else router
        name = "b" if receiver is other else "a"
        pending += [(back, name, answer) for answer in sent(receiver.handle(message, source))]
    one, two = filters("x = 1", "x = 2")
    router.handle(Subscribe("label", one), "b")
    with pytest.raises(ProtocolError, match="another filter"):
        router.handle(Subscribe("label", two), "b")
