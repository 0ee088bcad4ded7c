"""Rows in grids against the scan: every answer equal while rows come, move between lists and grids, and go."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Callable, Set
from typing import Any

import pytest

import covey
from covey.core.filter import Filter
from covey.matching.attributes.grids import (
    FEWEST_ROWS,
    LINE_ROWS,
    LOOKED_UP,
    TALLEST,
)
from covey.matching.attributes.heap import BLOCK_TOP, GRIDS
from covey.matching.attributes.layout import LINE, Block, Grid
from covey.matching.attributes.store import Store
from covey.matching.index import Index
from covey.matching.scan import ScanIndex
from tests import special_values

LARGE = 2**53
ENDS = (-0.0, 0.0, 5e-324, -5e-324, LARGE - 1, -(LARGE - 1), 1.0, 2, 3.5, 1e300, -1e300)
OTHERS = ("text", "", True, False, None, LARGE, LARGE + 1, -LARGE - 1, 10**400, math.inf, [1])


def store_of(index: Index) -> Store:
    return index.attributes().store


def grids_of(index: Index) -> int:
    return int(store_of(index).meta[GRIDS])


def rows_in_fresh_grids(store: Store) -> int:
    """Count the rows that stand in grids with nothing too much to look up."""
    blocks, records = store.blocks.view("int32"), store._heap.array.view("int32")
    grids = [blocks[2 * LINE * -home + Block.index_of("grid")] for home in store.homes.tolist() if home < 0]
    return sum(records[2 * grid + Grid.index_of("stale")] == 0 for grid in grids)


def number(generator: random.Random) -> float:
    return generator.choice(ENDS) if generator.random() < 0.3 else generator.uniform(0, 4)


def side(generator: random.Random, name: str) -> tuple[Any, ...]:
    kind = generator.random()
    if kind < 0.2:
        return (name, "=", generator.choice((1, 2, -0.0)))
    if kind < 0.4:
        return (name, generator.choice((">", ">=", "<", "<=")), number(generator))
    low, high = sorted((number(generator), number(generator)))
    return (name, "between", (low, high))


def filter_on(generator: random.Random, names: str) -> Filter:
    return covey.conjunction([side(generator, name) for name in names])


def event_on(generator: random.Random, names: str) -> dict[str, Any]:
    return {
        name: generator.choice(OTHERS) if generator.random() < 0.1 else number(generator)
        for name in names
        if generator.random() < 0.97
    }


def settle(index: Index, events: list[Any]) -> None:
    """Ask until no row moves any more."""
    before, same = -1, 0
    for _ in range(400):
        index.match_batch(events)
        same = same + 1 if store_of(index).in_grids() == before else 0
        if same == 5:
            return
        before = store_of(index).in_grids()
    raise AssertionError("rows move for ever")


def ask(index: Index, scan: ScanIndex, events: list[Any], asked: list[Filter]) -> None:
    for event in events:
        found: Set[Any] = index.match(event)
        assert found == scan.match(event), event
        assert index.links(event) == scan.links(event), event
    answers = index.match_batch(events)
    assert [set(answer.tolist()) for answer in answers] == scan.match_batch(events)
    assert all(len(set(answer.tolist())) == len(answer) for answer in answers)
    assert index.links_batch(events) == [scan.links(event) for event in events]
    for filter in asked:
        # Of ends that are neighbouring floats the index knows more than the scan (see `test_index.ask_of_filters`).
        assert scan.covering(filter) <= set(index.covering(filter))
        assert scan.covered(filter) <= set(index.covered(filter))
        assert set(index.overlapping(filter)) <= scan.overlapping(filter)


class Both:
    """One index and one scan with the same filters."""

    def __init__(self, draw: Callable[[], Filter], links: int) -> None:
        self.index, self.scan = Index(), ScanIndex()
        self.draw, self.links = draw, links
        self.alive: list[int] = []
        self.next_key = 0

    def add(self, count: int, generator: random.Random) -> None:
        keys = list(range(self.next_key, self.next_key + count))
        filters = [self.draw() for _ in keys]
        links = [generator.randrange(self.links) for _ in keys]
        self.index.add_batch(keys, filters, links)
        for key, filter, link in zip(keys, filters, links, strict=True):
            self.scan.add(key, filter, link)
        self.alive += keys
        self.next_key += count

    def remove(self, count: int, generator: random.Random) -> None:
        generator.shuffle(self.alive)
        gone, self.alive = self.alive[:count], self.alive[count:]
        self.index.remove_batch(gone)
        for key in gone:
            self.scan.remove(key)


@pytest.mark.parametrize(("names", "links"), [("ab", 3), ("abc", 70), ("abcdefghijkl", 3)])
def test_rows_move_to_grids_and_back_while_filters_come_and_go(names: str, links: int) -> None:
    generator = random.Random(len(names))
    both = Both(lambda: filter_on(generator, names), links)
    events = [event_on(generator, names) for _ in range(100)]
    for share in (0.3, 0.5, 0.9):
        both.add(1500, generator)
        ask(both.index, both.scan, events[:4], [])
        settle(both.index, events)
        assert store_of(both.index).in_grids() > LINE_ROWS
        asked = [filter_on(generator, names[:2]) for _ in range(3)]
        ask(both.index, both.scan, [*events[:8], {}], asked)
        both.add(100, generator)
        ask(both.index, both.scan, events[8:12], [])
        both.remove(int(len(both.alive) * share), generator)
        ask(both.index, both.scan, events[12:20], asked)
    for event in special_values.events():
        assert set(both.index.match(event)) == both.scan.match(event)
    assert grids_of(both.index) > 0
    while both.alive:
        both.remove(40, generator)
        ask(both.index, both.scan, events[:2], [])
        assert store_of(both.index).in_grids() == 0 or len(both.alive) >= FEWEST_ROWS
    assert grids_of(both.index) == 0


def test_rows_of_more_than_one_block() -> None:
    """Blocks are full but for the first; it grows, gives way to another, shrinks, and is taken again."""
    generator = random.Random(7)
    count = LINE_ROWS * TALLEST * 3 // 2
    both = Both(lambda: filter_on(generator, "ab"), 5)
    events = [event_on(generator, "ab") for _ in range(100)]
    both.add(1000, generator)
    settle(both.index, events)
    both.add(count, generator)
    settle(both.index, events)
    assert store_of(both.index).in_grids() > LINE_ROWS * TALLEST
    ask(both.index, both.scan, events[:3], [])
    used = int(store_of(both.index).meta[BLOCK_TOP])
    for _ in range(3):
        both.remove(count // 2, generator)
        ask(both.index, both.scan, events[3:5], [])
        both.add(count // 2, generator)
        settle(both.index, events)
    ask(both.index, both.scan, events[5:8], [])
    assert store_of(both.index).meta[BLOCK_TOP] <= 2 * used, "blocks that were given back are used again"


def test_sets_of_channels_that_few_rows_share_have_a_grid_together() -> None:
    """Some rows are free on channels of their grid, and events that do not name those satisfy them all the same."""
    generator = random.Random(13)
    names = "abcdefgh"

    def draw() -> Filter:
        count = generator.choice((2, 3, 4, 5))
        return filter_on(generator, "a" + "".join(generator.sample(names[1:], count)))

    def events(count: int) -> list[dict[str, Any]]:
        whole = [event_on(generator, names) for _ in range(count)]
        return [{k: v for k, v in event.items() if k == "a" or generator.random() < 0.8} for event in whole]

    both = Both(draw, 5)
    both.add(3500, generator)
    settle(both.index, events(100))
    assert 0 < grids_of(both.index) < 10
    assert store_of(both.index).in_grids() > 2000
    asked = [
        filter_on(generator, "abc"),
        filter_on(generator, "ah"),
        covey.parse("a > 0 and a < 5e-324 and b = 1"),
    ]
    ask(both.index, both.scan, [*events(8), {}, {"b": 1}], asked)
    both.add(300, generator)
    both.remove(1500, generator)
    ask(both.index, both.scan, events(8), asked)
    while both.alive:
        both.remove(400, generator)
        ask(both.index, both.scan, events(2), [])
    assert grids_of(both.index) == 0


def test_a_grid_whose_cuts_no_longer_fit_gives_its_rows_to_a_new_one() -> None:
    generator = random.Random(14)
    middle = 0.0

    def draw() -> Filter:
        ends = [sorted(middle + generator.random() for _ in range(2)) for _ in range(3)]
        return covey.conjunction(
            [(name, "between", tuple(end)) for name, end in zip("abc", ends, strict=True)]
        )

    def events(count: int) -> list[dict[str, Any]]:
        return [{name: middle + generator.random() for name in "abc"} for _ in range(count)]

    both = Both(draw, 3)
    both.add(1500, generator)
    settle(both.index, events(100))
    middle = 1000.0
    both.add(4000, generator)
    both.remove(1000, generator)
    store = store_of(both.index)
    asked = [draw() for _ in range(3)]
    ask(both.index, both.scan, events(4), asked)
    assert store.blocks[LOOKED_UP] > store.in_grids() // 4, "all of them end inside one bucket"
    for _ in range(60):
        both.index.match_batch(events(100))
    ask(both.index, both.scan, events(4), asked)
    assert rows_in_fresh_grids(store) > 4000
    assert grids_of(both.index) <= 2


def test_filters_of_several_conjunctions_are_given_once() -> None:
    generator = random.Random(8)

    def draw() -> Filter:
        one, other = (str(filter_on(generator, "ab")) for _ in range(2))
        return covey.parse(f"({one}) or ({other})")

    both = Both(draw, 3)
    events = [event_on(generator, "ab") for _ in range(100)]
    both.add(1500, generator)
    settle(both.index, events)
    assert store_of(both.index).in_grids() > LINE_ROWS
    ask(both.index, both.scan, events[:10], [])
    both.remove(700, generator)
    ask(both.index, both.scan, events[:10], [])


def test_a_range_without_a_number_is_covered_by_rows_in_grids() -> None:
    """Filters take numbers as dense: there is something between 0 and the least float64, and something covers it."""
    generator = random.Random(9)
    both = Both(lambda: filter_on(generator, "ab"), 3)
    both.add(1500, generator)
    settle(both.index, [event_on(generator, "ab") for _ in range(100)])
    assert store_of(both.index).in_grids() > LINE_ROWS
    asked = covey.parse("a > 0 and a < 5e-324 and b = 1")
    known = both.scan.covering(asked)
    assert known
    assert known <= set(both.index.covering(asked))


def test_an_index_with_grids_goes_to_another_process() -> None:
    generator = random.Random(10)
    both = Both(lambda: filter_on(generator, "abc"), 3)
    events = [event_on(generator, "abc") for _ in range(100)]
    both.add(1500, generator)
    settle(both.index, events)
    assert store_of(both.index).in_grids() > LINE_ROWS
    both.index = pickle.loads(pickle.dumps(both.index))
    ask(both.index, both.scan, events[:5], [])
    both.add(1500, generator)
    both.remove(700, generator)
    settle(both.index, events)
    ask(both.index, both.scan, events[5:10], [])


def test_links_known_only_later_are_those_of_rows_in_grids() -> None:
    """Masks of links are made when the first filter with a link comes."""
    generator = random.Random(11)
    index, scan = Index(), ScanIndex()
    for key in range(1500):
        filter = filter_on(generator, "ab")
        index.add(key, filter)
        scan.add(key, filter)
    events = [event_on(generator, "ab") for _ in range(100)]
    settle(index, events)
    assert store_of(index).in_grids() > LINE_ROWS
    for key in range(1500, 1600):
        filter = filter_on(generator, "ab")
        index.add(key, filter, link=key % 4)
        scan.add(key, filter, link=key % 4)
    ask(index, scan, events[:10], [])


def test_rows_that_a_constraint_selects_well_stay_in_lists() -> None:
    generator = random.Random(12)
    index = Index()
    for key in range(3000):
        items: list[tuple[Any, ...]] = [("id", "=", key), side(generator, "a"), side(generator, "b")]
        index.add(key, covey.conjunction(items))
    for _ in range(50):
        index.match_batch([{"id": n, **event_on(generator, "ab")} for n in range(100)])
    assert grids_of(index) == 0
