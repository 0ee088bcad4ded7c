"""Nothing large is done, or let go of, in one piece: what waits to be sent, what was told, what is new in memory."""

from __future__ import annotations

import asyncio
import gc
import weakref

from covey import parse
from covey.broker.process import TURNS, Garbage
from covey.core.attributes.filter import AttributeFilter
from covey.matching.attributes import index as attributes_module
from covey.matching.index import MOST_WAITING, Index
from covey.protocol.frames import Kind, frame
from covey.protocol.outbox import MOST_CHUNKS, READ_AHEAD, Bounds, Outbox
from covey.routing.work import LET_GO, RUN, WHOLE, as_they_are, emptied, taken
from covey.strategies.told import Item, Told


def some(number: int) -> AttributeFilter:
    made = parse(f"s = 'S{number}' and x > {number}")
    assert isinstance(made, AttributeFilter)
    return made


def test_many_small_frames_are_taken_a_bounded_number_at_a_time_in_their_order() -> None:
    outbox = Outbox(Bounds())
    frames = [frame(Kind.REPLY, b"%d" % number) for number in range(3 * MOST_CHUNKS + 5)]
    for one in frames:
        outbox.put_control(one)
    taken = []
    while outbox:
        chunks = outbox.take(READ_AHEAD)
        assert 0 < len(chunks) <= MOST_CHUNKS
        taken += chunks
    assert taken == frames
    assert outbox.size == 0


def test_what_was_told_is_let_go_of_a_little_at_a_time() -> None:
    told = Told()
    for number in range(3 * RUN):
        told.add(f"k{number}", some(number))
    assert told.cover(some(5))
    assert list(told.labels_overlapping(some(7))) == ["k7"]  # there is an index
    units = list(told.dissolving())
    assert len(units) > 3
    assert max(units) <= RUN // LET_GO
    assert len(told) == 0
    assert told.items() == []


def test_a_dictionary_is_looked_at_as_it_was() -> None:
    entries = {"a": 1, "b": 2}
    found = as_they_are(entries)
    del entries["a"]
    entries["b"] = 3
    entries["c"] = 4
    assert list(found) == [("a", 1), ("b", 2)]
    assert list(emptied({})) == []


def test_a_list_is_taken_in_its_order_and_let_go_of() -> None:
    for size in (1, 3, 7, 10, 11, WHOLE):
        numbers = list(range(10))
        batches = list(taken(numbers, size))
        assert [one for batch in batches for one in batch] == list(range(10))
        assert all(0 < len(batch) <= size for batch in batches)
        assert numbers == []


def test_items_are_those_of_the_moment_in_which_they_were_asked_for() -> None:
    told = Told()
    for number in range(3):
        told.add(f"k{number}", some(number))
    items = told.iter_items()
    told.remove("k0")
    told.add("k9", some(9))
    assert list(items) == [Item(f"k{number}", some(number)) for number in range(3)]


def test_new_texts_are_followed_while_filters_come_and_not_with_the_next_event() -> None:
    index = Index()
    index.add_batch(range(100), [some(number) for number in range(100)])
    assert list(index.match({"s": "S7", "x": 9})) == [7]
    for number in range(100, 1_000):
        index.add(number, some(number))
        journal = index._attributes.channels.journal if index._attributes is not None else None
        assert journal is not None
        # A filter here has one new text; its channels are told of, too.
        assert len(journal) <= attributes_module.MOST_BEHIND + 4 * MOST_WAITING
    assert list(index.match({"s": "S7", "x": 9})) == [7]
    assert list(index.match({"s": "S990", "x": 1_000})) == [990]
    assert list(index.match({"s": "nobody's", "x": 9})) == []


class Circle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def test_new_objects_are_looked_through_after_some_turns_of_work() -> None:
    async def main() -> None:
        garbage = Garbage()
        try:
            gone = weakref.ref(Circle())
            kept = [[number] for number in range(500)]  # fewer than the collector begins at
            for _ in range(TURNS):
                garbage.turned()
            assert gone() is None
            assert all(one not in gc.get_objects(0) for one in kept[:1])
        finally:
            garbage.close()

    asyncio.run(main())
