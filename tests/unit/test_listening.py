"""How a crowd takes its turns: in its order, so much in each, whatever the pieces weigh."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from covey.broker.listening import Pace


def turns_of(most: int, weights: list[int], gone: frozenset[int] = frozenset()) -> list[list[int]]:
    """Return which of so many that come at once go on in each turn of the event loop; some give up before."""
    found: dict[int, list[int]] = defaultdict(list)
    turns = 0

    async def main() -> None:
        nonlocal turns
        pace = Pace(most)

        async def one(number: int) -> None:
            await pace.turn(weights[number])
            found[turns].append(number)

        crowd = [asyncio.ensure_future(one(number)) for number in range(len(weights))]
        while not all(each.done() for each in crowd):
            await asyncio.sleep(0)
            turns += 1
            for number in gone:
                crowd[number].cancel()

    asyncio.run(main())
    return [found[turn] for turn in sorted(found)]


def test_so_many_go_on_in_a_turn() -> None:
    assert turns_of(2, [1] * 5) == [[0, 1], [2, 3], [4]]


def test_so_much_goes_on_in_a_turn_and_nobody_overtakes() -> None:
    assert turns_of(10, [4, 4, 4, 1, 25, 1, 9, 2]) == [[0, 1], [2, 3], [4], [5, 6], [7]]


def test_whoever_gives_up_takes_no_turn() -> None:
    assert turns_of(10, [10, 10, 10, 5], frozenset({1, 2})) == [[0], [3]]
