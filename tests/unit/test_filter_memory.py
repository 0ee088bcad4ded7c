"""What a broker charges a client for the memory of filters is at least what they take, whatever their kind."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import pytest

from covey.bench.filter_memory import KINDS, forget, linked_router
from covey.bench.heavy_filters import patterns, ranges, sets, words
from covey.core.attributes.filter import AttributeFilter
from covey.core.families import decode
from covey.routing.messages import Subscribe

COUNT = 24
NOBODYS = 1_000_003  # other tests of this process keep filters of small numbers
HEAVY = {
    "patterns": 1,
    "sets": 1,
    "without": 2,
    "small sets": 2,
    "many ranges": 2,
    "words": 2,
    "ranges": 6,
    "200 numbers": 8,
    "200 texts": 6,
    "or": 8,
}


MEASURED = """
import json, sys
from covey.bench.filter_memory import KINDS, memory_of
from covey.core.costs import cost_of
from covey.matching.index import warm_up
warm_up()
found = {}
for kind, count in json.load(sys.stdin).items():
    encoded = [KINDS[kind](number).encode() for number in range(1, count + 1)]
    found[kind] = [memory_of(encoded), sum(cost_of(data).bytes for data in encoded)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def measured() -> dict[str, tuple[int, int]]:
    """What is taken and what is charged, by kind; from a process of its own, where no other thread takes memory."""
    counts = {kind: HEAVY.get(kind, COUNT) for kind in KINDS}
    done = subprocess.run(
        [sys.executable, "-c", MEASURED], input=json.dumps(counts), capture_output=True, text=True, check=True
    )
    return {kind: tuple(both) for kind, both in json.loads(done.stdout).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_charge_is_at_least_what_is_taken(kind: str, measured: dict[str, tuple[int, int]]) -> None:
    taken, charged = measured[kind]
    assert taken <= charged


@pytest.mark.parametrize("kind", [ranges, sets, words, patterns])
def test_a_router_keeps_nothing_that_was_made_of_a_filter(kind: object) -> None:
    router = linked_router()
    assert callable(kind)
    encoded = [kind(number).encode() for number in range(NOBODYS, NOBODYS + 3)]
    for number, data in enumerate(encoded):
        router.handle(Subscribe(f"c/{number}", decode(data)), "c")
    router.local.attributes()
    forget()
    kept = [
        one
        for one in gc.get_objects()
        if issubclass(type(one), AttributeFilter) and _has_conjunctions(one) and one.wire in encoded
    ]
    assert not kept


def _has_conjunctions(filter: AttributeFilter) -> bool:
    try:
        vars(AttributeFilter)["conjunctions"].__get__(filter)
    except AttributeError:
        return False
    return True
