"""A feed sends what is not confirmed, from the first, whenever its consumer comes; and nothing that is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from covey.broker.durable.log import Entry, Keep, Owner
from covey.broker.durable.queues import Feed
from covey.broker.durable.sqlite import Store

OWNER = Owner(1, "subscription", "ann", "reader", "mine")


@pytest.mark.parametrize("up_to", [False, True])
def test_what_is_confirmed_does_not_come_again_though_the_disk_has_it_still(
    tmp_path: Path, up_to: bool
) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "a")
        store.start()
        store.submit(OWNER)
        for number in (1, 2, 3):
            entries = (Entry(OWNER.id),)
            store.submit(Keep(store.next_position(), 7, number, b"event", 0.0, entries, seen=False))
        while store.pending:
            await asyncio.sleep(0.001)
        feed = Feed(store, OWNER.id, 100, 1 << 20)
        sent: list[int] = []

        def transmit(position: int, frame: bytes) -> None:
            sent.append(position)

        feed.attach(transmit, 0.0)
        assert sent == [1, 2, 3]
        # In one turn of the loop: the store has not deleted anything when the consumer comes again.
        if up_to:
            feed.confirm_up_to(2, 0.0)
        else:
            feed.confirm([1, 2], 0.0)
        feed.attach(transmit, 0.0)
        assert store.positions(OWNER.id, 0, 3, 10) == [1, 2, 3]
        assert sent == [1, 2, 3, 3]
        while store.pending:
            await asyncio.sleep(0.001)
        feed.attach(transmit, 0.0)
        assert sent == [1, 2, 3, 3, 3]
        await store.close()

    asyncio.run(main())
