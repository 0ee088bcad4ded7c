"""What test_checked_memory.py runs in a process of its own: an index on checked memory beside the scan, under churn."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import covey
from covey.core.packing import pack_many
from covey.matching import jit
from covey.matching.attributes import moving
from covey.matching.attributes.packed import PackedEvents
from covey.matching.index import Index
from covey.matching.scan import ScanIndex

SIDES = (
    "{n} = {v}",
    "{n} > {v}",
    "{n} <= {v}",
    "{n} between {v} and {w}",
    "{n} = 's{v}'",
    "{n} in ({v}, 's{w}')",
)
RARE = ("{n} <> {v}", "{n} like '%{v}_%'", "{n} is null", "{n} not between {v} and {w}", "{n} is not null")


def text_of(random: Random) -> str:
    sides = []
    for _ in range(random.randrange(1, 4)):
        form = random.choice(SIDES if random.random() < 0.8 else RARE)
        v = random.randrange(20)
        sides.append(form.format(n=random.choice("abcd"), v=v, w=v + random.randrange(9)))
    return " and ".join(sides) if random.random() < 0.9 else " or ".join(sides)


def event_of(random: Random) -> dict[str, Any]:
    return {
        n: random.choice((random.randrange(20), f"s{random.randrange(20)}", 0.5))
        for n in "abcd"
        if random.random() < 0.8
    }


def ask(index: Index, scan: ScanIndex, random: Random) -> None:
    events = [event_of(random) for _ in range(4)]
    packed = pack_many(events)
    ends = np.cumsum([len(data) for data in packed])
    some = PackedEvents(np.frombuffer(b"".join(packed), np.uint8), np.concatenate([[0], ends[:-1]]), ends)
    index.match_packed(some)
    assert [set(keys.tolist()) for keys in index.match_batch(events)] == scan.match_batch(events)
    for event in events:
        assert set(index.match(event)) == scan.match(event)
        assert index.links(event) == scan.links(event)
    filter = covey.parse(text_of(random))
    assert scan.covering(filter) <= set(index.covering(filter))
    assert scan.covered(filter) <= set(index.covered(filter))
    assert index.covers(filter) == bool(index.covering(filter))
    assert index.overlaps(filter) == bool(index.overlapping(filter))


def run(seed: int, filters: int) -> None:
    random = Random(seed)
    index, scan = Index(), ScanIndex()
    index.attributes()
    for step in range(4):
        for key in range(filters):
            filter = covey.parse(text_of(random))
            link = f"link {key % 3}"
            index.add((step, key), filter, link)
            scan.add((step, key), filter, link)
        ask(index, scan, random)
        index.attributes().store.consider(filters)  # some move to grids
        ask(index, scan, random)
        for key in range(0, filters, 2):
            index.remove((step, key))
            scan.remove((step, key))
        ask(index, scan, random)
    assert index.attributes().store.rows > filters


def run_grids(filters: int) -> None:
    """Ranges that move to grids, which are made for fewer rows than usual and whatever queries have met."""
    random = Random(2)
    vars(moving).update(LEAST_ROWS=filters // 2, is_poor=lambda memory, record: True)
    index, scan = Index(), ScanIndex()
    for key in range(filters):
        sides = (f"{n} between {random.randrange(6)} and {random.randrange(10, 20)}" for n in "abc")
        filter = covey.parse(" and ".join(sides))
        index.add(key, filter, "link")
        scan.add(key, filter, "link")
    store = index.attributes().store
    store.consider(len(store.homes))
    store.consider(len(store.homes))
    assert store.in_grids() > filters // 2
    ask(index, scan, random)
    index.remove_batch(range(0, filters, 2))
    for key in range(0, filters, 2):
        scan.remove(key)
    ask(index, scan, random)


def run_documents() -> None:
    """Keywords and patterns of documents."""
    index, scan = Index(), ScanIndex()
    filters = [covey.parse(f"w{n % 5} and (v{n % 7} or u{n % 3})", language="keywords") for n in range(40)]
    filters += [covey.parse(f"/a/b{n % 4}[c{n % 3}]//d{n % 5}", language="xpath") for n in range(40)]
    for key, filter in enumerate(filters):
        index.add(key, filter)
        scan.add(key, filter)
    for content in (
        frozenset(("w1", "v1", "u2")),
        frozenset(("w2",)),
        "<a><b1><c1/><e><d1/><d2/></e></b1><b2><d3/></b2></a>",
    ):
        assert set(index.match(content)) == scan.match(content)
    for filter in filters[::9]:
        assert set(index.covering(filter)) >= scan.covering(filter)
        assert set(index.covered(filter)) >= scan.covered(filter)
    index.remove_batch(range(0, 80, 3))


def is_caught() -> bool:
    """Return whether it is noticed that an answer is longer than its room."""
    index = Index()
    index.add_batch(range(40), [covey.parse("a > 1")] * 40)
    index.match({"a": 2})
    store = index.attributes().store
    store.out = np.zeros(8, np.int32)
    store._note_addresses()
    try:
        index.match({"a": 2})
    except IndexError:
        return True
    return False


if __name__ == "__main__":
    assert jit.CHECKED, "nothing is checked otherwise"
    assert is_caught(), "a write outside an array is noticed"
    run(seed=1, filters=60)
    run_grids(filters=60)
    run_documents()
    print("checked")
