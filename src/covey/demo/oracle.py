"""Who should have got what: every filter is asked about every event, in a process of its own, as that is slow.

    python -m covey.demo.oracle SEED SUBSCRIPTIONS CLIENTS

It makes the same scene from the same seed. A number on its standard input says how many events there are so far; it
answers with a line for each of them, in their order: the numbers of the subscriptions that match. It knows nothing of
indexes, brokers and plans. The end of its input ends it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from covey.core.filter import Filter
from covey.core.xpath.document import Document
from covey.demo.scene import Scene
from covey.demo.traffic import Record
from covey.errors import CoveyError

NICENESS: Final = 5
PATIENCE_S: Final = 180.0
MOST_SHOWN: Final = 5


class Asking:
    """Filters with the numbers of those who have them; equal filters are asked once."""

    def __init__(self, filters: Mapping[int, Filter]) -> None:
        self._by_filter: dict[str, dict[Filter, list[int]]] = defaultdict(dict)
        for number, filter in filters.items():
            self._by_filter[filter.family].setdefault(filter, []).append(number)

    def wanting(self, content: Any) -> list[int]:
        """Return who wants an event, in order. Filters of another family than the event's match nothing."""
        family = "attributes" if isinstance(content, dict) else "keywords"
        event = content
        if isinstance(content, str):
            family, event = "xpath", Document.parse(content)
        return sorted(
            number
            for filter, numbers in self._by_filter[family].items()
            if filter.matches(event)
            for number in numbers
        )


def differences(record: Record, answers: Sequence[Sequence[int]]) -> list[str]:
    """Return what is wrong with a record, a line for each delivery that is missing, came twice, or was not wanted."""
    due = {(event, number) for event, numbers in enumerate(answers) for number in numbers}
    got = list(zip(record.events, record.subscriptions, strict=True))
    once = set(got)
    found = [f"event {event} did not reach subscription {number}" for event, number in sorted(due - once)]
    found += [
        f"event {event} reached subscription {number}, which does not want it"
        for event, number in sorted(once - due)
    ]
    if len(got) > len(once):
        found.append(f"{len(got) - len(once)} deliveries came again")
    return found + record.garbled


class Oracle:
    """The process, from outside: it is told how far events have come, and its answers are gathered."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.answers: list[list[int]] = []
        self._process: asyncio.subprocess.Process
        self._reading: asyncio.Task[None]

    async def start(self) -> None:
        """Start it."""
        scene = self._scene
        words = (str(scene.seed), str(len(scene.wishes)), str(scene.clients))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "covey.demo.oracle", *words,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def tell(self, events: int) -> None:
        """Say how many events there are."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{events}\n".encode())

    async def wait(self, events: int) -> Sequence[Sequence[int]]:
        """Return the answers for so many events."""
        self.tell(events)
        until_s = asyncio.get_running_loop().time() + PATIENCE_S
        while len(self.answers) < events:
            if self._reading.done() or asyncio.get_running_loop().time() > until_s:
                raise CoveyError("the oracle does not answer")
            await asyncio.sleep(0.05)
        return self.answers

    async def stop(self) -> None:
        """End it."""
        self._reading.cancel()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.answers.append([int(number) for number in line.split()])


def answered(scene: Scene, counts: Iterator[str]) -> Iterator[str]:
    """Yield the answers, a line each, as counts of events come."""
    asking = Asking({wish.number: wish.filter for wish in scene.wishes})
    done = 0
    for count in counts:
        while done < int(count):
            yield " ".join(map(str, asking.wanting(scene.event(done)[1])))
            done += 1


if __name__ == "__main__":
    os.nice(NICENESS)
    made = Scene(*map(int, sys.argv[1:]))
    for answer in answered(made, sys.stdin):
        print(answer, flush=True)
