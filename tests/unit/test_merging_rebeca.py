"""Merging as in REBECA: what stands in a table for a neighbour's entries, beside a scan of the entries themselves."""

from __future__ import annotations

from random import Random

import pytest
from tests.special_values import NUMBERS

import covey
from covey.core.filter import Filter
from covey.routing.messages import Key
from covey.sim import Network
from covey.strategies.merging.rebeca import Destination, Step

EVENTS = [{"s": s, "p": p} for s in "abcd" for p in range(-1, 12)] + [{"s": "a"}, {"p": 3}, {}]


class Twin:
    """A destination, its entries, and the table that its steps make."""

    def __init__(self) -> None:
        self.destination = Destination()
        self.entries: dict[Key, Filter] = {}
        self.table: dict[Key, Filter] = {}

    def add(self, key: Key, text: str) -> list[Step]:
        self.entries[key] = covey.parse(text)
        return self._taken(self.destination.add(key, self.entries[key]))

    def remove(self, *keys: Key) -> list[Step]:
        for key in keys:
            del self.entries[key]
        return self._taken(self.destination.remove(keys))

    def _taken(self, steps: list[Step]) -> list[Step]:
        for step in steps:
            for item in step.entered:
                assert item.key not in self.table
                self.table[item.key] = item.filter
            self.check()  # what replaces a filter is there before the filter goes
            for item in step.left:
                assert self.table.pop(item.key) == item.filter
            self.check()
        return steps

    def check(self) -> None:
        for filter in self.entries.values():
            assert any(one.covers(filter) for one in self.table.values())

    def check_at_rest(self) -> None:
        assert self.table == dict(self.destination.items())
        for event in EVENTS:
            wanted = any(filter.matches(event) for filter in self.entries.values())
            assert wanted == any(filter.matches(event) for filter in self.table.values()), event
        stands = list(self.table.values())
        assert not any(a.covers(b) for a in stands for b in stands if a is not b)


def drawn(random: Random) -> str:
    s, low = random.choice("abc"), random.randint(0, 6)
    high = low + random.randint(0, 4)
    return random.choice(
        [
            f"s = '{s}' and p between {low} and {high}",
            f"s = '{s}' and p between {low} and {high}",
            f"s = '{s}'",
            f"p >= {low}",
            f"s = '{s}' or p = {low}",
            f"s like '{s}%'",
        ]
    )


@pytest.mark.parametrize("seed", range(30))
def test_stand_ins_match_what_the_entries_match_and_nothing_is_left(seed: int) -> None:
    random, twin = Random(seed), Twin()
    for number in range(40):
        if twin.entries and random.random() < 0.45:
            twin.remove(
                *random.sample(sorted(twin.entries), min(len(twin.entries), random.choice([1, 1, 3])))
            )
        else:
            twin.add(f"k{number}", drawn(random))
        twin.check_at_rest()
    twin.remove(*twin.entries)
    assert twin.table == {}
    assert twin.destination.items() == []


def test_a_merger_is_dissolved_when_a_part_goes_and_made_again() -> None:
    twin = Twin()
    for key, low in (("k1", 0), ("k2", 2), ("k3", 4)):
        twin.add(key, f"s = 'a' and p between {low} and {low + 3}")
    assert [str(filter) for filter in twin.table.values()] == ["p BETWEEN 0 AND 7 AND s = 'a'"]
    dissolved, merged = twin.remove("k1")
    assert sorted(item.key for item in dissolved.entered) == ["k2", "k3"]
    assert sorted(item.key for item in merged.left) == ["k2", "k3"]
    assert [str(item.filter) for item in merged.entered] == ["p BETWEEN 2 AND 7 AND s = 'a'"]


def test_what_a_merger_covers_is_hidden_and_comes_back_with_its_dissolution() -> None:
    twin = Twin()
    twin.add("k1", "p between 0 and 5")
    twin.add("k2", "p between 4 and 9")
    assert twin.add("k3", "p between 1 and 8") == []
    assert twin.remove("k3") == []
    twin.add("k3", "p between 1 and 8")
    twin.remove("k1", "k2")
    assert [str(filter) for filter in twin.table.values()] == ["p BETWEEN 1 AND 8"]


def test_a_subscription_that_covers_a_part_dissolves_the_merger() -> None:
    twin = Twin()
    twin.add("k1", "s = 'a' and p between 0 and 3")
    twin.add("k2", "s = 'a' and p between 2 and 9")
    dissolved, _ = twin.add("k3", "s = 'a' and p between -1 and 5")
    assert "k3" in [item.key for item in dissolved.entered]
    twin.check_at_rest()


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_special_numbers_are_merged_exactly(number: float) -> None:
    twin = Twin()
    try:
        twin.add("k1", f"p = {number!r}")
    except covey.CoveyError:
        return
    twin.add("k2", "p = 12345")
    for event in ({"p": number}, {"p": 12345}, {"p": 12344}):
        wanted = any(filter.matches(event) for filter in twin.entries.values())
        assert wanted == any(filter.matches(event) for filter in twin.table.values())


def test_tables_are_those_of_merging_and_cancelling_costs_more() -> None:
    """Quote intervals of one symbol all contain 50: whatever the order, one entry a symbol and neighbour is left."""
    messages = {}
    for strategy in ("merging", "merging-rebeca"):
        random = Random(5)
        links = [("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2"), ("b", "b1")]
        net = Network(links, strategy=strategy, advertisements=False)
        held = [
            net.subscribe(
                random.choice(["a1", "a2", "b1"]),
                f"symbol = '{random.choice('xyz')}' and price between {random.uniform(0, 50)} and"
                f" {random.uniform(50, 100)}",
            )
            for _ in range(60)
        ]
        net.settle()
        sizes = {broker: len(table) for broker, table in net.tables.items()}
        assert sizes == {"r": 6, "a": 9, "b": 6, "a1": 3, "a2": 3, "b1": 3}
        net.clear_counters()
        for subscription in held:
            net.unsubscribe(subscription)
            net.settle()
        messages[strategy] = net.counters["control_messages"]
        assert not any(net.tables.values())
    assert messages["merging-rebeca"] > 2 * messages["merging"]
