"""A store and a consumer beside plain dictionaries, through publishing, confirming, crashes and coming back.

A crash is a copy of the files at any moment, opened anew: whatever was reported before must be there, in order, apart
from what was confirmed; whatever was not reported may be there or not.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from covey.broker.actions import Action, SendEvent
from covey.broker.durable.log import Entry, Keep, Owner
from covey.broker.durable.queues import Feed
from tests.oracles.logs import Store

OWNERS = (1, 2)
STEP = st.one_of(
    st.tuples(st.just("publish"), st.sets(st.sampled_from(OWNERS), min_size=1), st.integers(1, 8)),
    st.tuples(st.just("settle"), st.just(0), st.just(0)),
    st.tuples(st.just("confirm"), st.sampled_from(OWNERS), st.integers(1, 5)),
    st.tuples(st.just("confirm up to"), st.sampled_from(OWNERS), st.integers(1, 5)),
    st.tuples(st.just("attach"), st.sampled_from(OWNERS), st.just(0)),
    st.tuples(st.sampled_from(["detach", "pause", "crash"]), st.sampled_from(OWNERS), st.just(0)),
)


class Model:
    """What must be true: for each owner, frames that are on disk for certain, and those that may be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lives = 0
        self.certain: dict[int, dict[int, bytes]] = {owner: {} for owner in OWNERS}
        self.possible: dict[int, dict[int, bytes]] = {owner: {} for owner in OWNERS}
        self.done: dict[int, set[int]] = {
            owner: set() for owner in OWNERS
        }  # confirmed, maybe not on disk yet
        self.got: dict[int, list[int]] = {owner: [] for owner in OWNERS}  # since the consumer attached
        self.number = 0
        self.store: Store
        self.feeds: dict[int, Feed] = {}

    async def open(self) -> None:
        self.store = Store(self.folder / str(self.lives) / "store.db", "A")
        assert not self.store.warning
        self.store.start()
        self.feeds = {owner: Feed(self.store.tickets, owner, 4, 1_000) for owner in OWNERS}
        for owner in OWNERS:
            self.store.submit(Owner(owner, "outbox", "", "", str(owner)))
        for owner in OWNERS:
            found = dict(await self.store.read(owner, 0, 100_000))
            certain, possible = self.certain[owner], self.possible[owner]
            assert (
                certain.items() - {(p, f) for p, f in certain.items() if p in self.done[owner]}
                <= found.items()
            )
            assert found.items() <= certain.items() | possible.items()
            self.certain[owner], self.possible[owner] = found, {}
            self.done[owner] &= found.keys()
            size = sum(map(len, found.values()))
            assert self.store.tickets.waiting(owner) == (len(found), size)

    def publish(self, owners: set[int], size: int) -> None:
        self.number += 1
        position = self.store.tickets.next_position()
        assert all(position not in known for known in (*self.certain.values(), *self.possible.values()))
        frame = self.number.to_bytes(4, "big") * size
        # Every second owner gets bytes of its own.
        other = {owner: frame + b"!" for owner in owners if owner % 2}
        entries = tuple(Entry(owner, other.get(owner)) for owner in sorted(owners))
        for owner in owners:
            self.possible[owner][position] = other.get(owner, frame)

        def reported(error: object) -> None:
            assert error is None
            for owner in owners:
                frame = self.possible[owner].pop(position)
                self.certain[owner][position] = frame
                self.store.perform(self.feeds[owner].offer(position, frame, 0.0))

        self.store.submit(Keep(position, 7, self.number, frame, 0.0, entries, seen=True), reported)

    def attach(self, owner: int) -> None:
        self.got[owner] = []

        def transmit(position: int, frame: bytes) -> Action:
            assert self.certain[owner].get(position, self.possible[owner].get(position)) == frame
            self.got[owner].append(position)
            return SendEvent(str(owner), 0, b"")

        self.store.perform(self.feeds[owner].attach(transmit))

    def confirm(self, owner: int, count: int, up_to: bool) -> None:
        got = self.got[owner]
        if not got:
            return
        if up_to:
            last = got[min(count, len(got)) - 1]
            self.done[owner] |= {p for p in self.certain[owner] if p <= last}
            self.store.perform(self.feeds[owner].confirm_up_to(last, 0.0))
        else:
            self.done[owner] |= set(got[:count])
            self.store.perform(self.feeds[owner].confirm(got[:count], 0.0))

    async def settle(self) -> None:
        for _ in range(30):  # what is read makes the feeds read on
            await self.store.settle()
            await self.store.fetch(0, 0, 1)
        for owner in OWNERS:
            for position in self.done[owner]:
                self.certain[owner].pop(position, None)
            self.done[owner].clear()
            assert dict(await self.store.read(owner, 0, 100_000)) == self.certain[owner]
            got = self.got[owner]
            assert got == sorted(set(got)), "in order, each once"
            if self.feeds[owner].is_attached:
                rest = sorted(self.certain[owner])
                expected = [position for position in rest if position in got]
                assert rest[: len(expected)] == expected, "nothing is left out"
                is_full = (
                    self.feeds[owner].under_way >= 4
                    or sum(len(self.certain[owner][p]) for p in expected) >= 1_000
                )
                assert len(expected) == len(rest) or is_full, "it goes on as far as the window allows"

    async def crash(self) -> None:
        self.lives += 1
        shutil.copytree(self.folder / str(self.lives - 1), self.folder / str(self.lives))
        old = self.store
        for owner in OWNERS:
            self.feeds[owner].detach()
            self.got[owner] = []
        before = {owner: (dict(self.certain[owner]), dict(self.possible[owner])) for owner in OWNERS}
        done = {owner: set(self.done[owner]) for owner in OWNERS}
        await old.close()  # what it does now, it does to files that nobody opens again
        for owner in OWNERS:
            self.certain[owner], self.possible[owner] = before[owner]
            self.done[owner] = done[owner]
        await self.open()


@settings(max_examples=60)
@given(st.lists(STEP, max_size=40))
def test_what_is_reported_stays_until_it_is_confirmed(steps: list[tuple[str, object, int]]) -> None:
    async def main(folder: Path) -> None:
        model = Model(folder)
        await model.open()
        for owner in OWNERS:
            model.attach(owner)
        for what, of, number in steps:
            if what == "publish":
                for size in range(number):
                    model.publish(of, size * 50)  # type: ignore[arg-type]
            elif what == "attach":
                model.attach(of)  # type: ignore[arg-type]
            elif what == "detach":
                model.feeds[of].detach()  # type: ignore[index]
                model.got[of] = []  # type: ignore[index]
            elif what == "settle":
                await model.settle()
            elif what == "pause":
                time.sleep(0.005)
            elif what == "crash":
                await model.crash()
            else:
                model.confirm(of, number, what == "confirm up to")  # type: ignore[arg-type]
        await model.settle()
        await model.store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
