"""A broker in the simulator: a router, an input queue and the time that work takes.

The router handles a message when its service begins; what it puts out leaves when the service ends. Without service
times both are the moment of arrival.

Links come and go while inputs wait, so the router knows of them later than the network does. What it sends over a link
belongs to the incarnation that it knows (see `channel`), which may have ended. What has arrived over a link is handled
before the link's end, however the link is by then: a live broker also handles what it has read from a connection before
it takes note that the connection is gone.

A router with slices works for its links between inputs, as that of a live broker does. What a busy neighbour says
waits meanwhile, and is lost with the link.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from covey.routing.messages import Congestion, Link, LinkDown, LinkUp, Message, Publish
from covey.routing.outputs import Output, Send
from covey.routing.router import Router
from covey.sim.engine import Engine
from covey.sim.service import Service

CarryOut = Callable[[str, list[Output]], None]

# A queue longer than the first is congestion, until it is no longer than the second.
CONGESTED, CALM = 100, 10

SLICE_S = 1e-4  # between two slices of a router's work


class Node:
    """One broker. `carry_out` takes the outputs of its router."""

    def __init__(
        self,
        name: str,
        router: Router,
        engine: Engine,
        service: Service,
        carry_out: CarryOut,
        congestion: tuple[int, int] = (CONGESTED, CALM),
    ) -> None:
        self.name = name
        self.router = router
        self.is_up = True
        self.generation = 0  # grows with every crash and restart
        self.incarnations: dict[Link, int] = {}  # of the links that the router knows to be up
        self.longest_queue = 0
        self.busy_s = 0.0
        self._engine = engine
        self._service = service
        self._carry_out = carry_out
        self._queue: deque[tuple[Message, Link, int]] = deque()
        self._working = False
        self._leaving: list[Output] = []  # what leaves when the present service ends
        self._waiting: dict[Link, deque[Message]] = {}  # of neighbours that are busy
        self._will_work = False
        self._congested_at, self._calm_at = congestion
        self._congested = False

    @property
    def queue_length(self) -> int:
        """How many inputs wait, the one in service included."""
        return len(self._queue) + self._working

    def waiting_from(self, source: Link) -> list[Message]:
        """Return what has arrived from a source and is not handled yet, in order."""
        queued = [message for message, link, _ in self._queue if link == source]
        return [*self._waiting.get(source, ()), *queued]

    def leaving_for(self, link: Link) -> list[Message]:
        """Return what the router has said to a link in the present service, in order."""
        return [one.message for one in self._leaving if isinstance(one, Send) and one.link == link]

    def arrive(self, message: Message, source: Link, incarnation: int = 0) -> None:
        """Take an input: handle it at once, or queue it. With a neighbour's LinkUp comes its link's incarnation."""
        if self._service.is_zero:
            self._carry_out(self.name, self._handle(message, source, incarnation))
            return
        self._queue.append((message, source, incarnation))
        self.longest_queue = max(self.longest_queue, self.queue_length)
        if not self._working:
            self._serve()

    def _handle(self, message: Message, source: Link, incarnation: int) -> list[Output]:
        if isinstance(message, LinkUp):
            self.incarnations[source] = incarnation
        elif isinstance(message, LinkDown):
            self.incarnations.pop(source, None)
            self._waiting.pop(source, None)
        elif not isinstance(message, Publish) and (source in self._waiting or self.router.is_busy(source)):
            self._waiting.setdefault(source, deque()).append(message)
            return []
        outputs = self.router.handle(message, source, self._engine.now_s)
        self._work_later()
        return outputs

    # -- slices ----------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether the router has work of its own."""
        return bool(self.router.busy or self._waiting)

    def _work_later(self) -> None:
        if not self._will_work and self.is_busy:
            self._will_work = True
            self._engine.at(self._engine.now_s + SLICE_S, self._work, self.generation)

    def _work(self, generation: int) -> None:
        """Do a slice of the router's work, between two services."""
        if generation != self.generation:
            return
        if self._working:
            self._engine.at(self._engine.now_s + SLICE_S, self._work, generation)
            return
        self._will_work = False
        for link in self.router.busy[:1]:
            self._carry_out(self.name, self.router.work(link, self._engine.now_s))
        for link in [link for link in self._waiting if not self.router.is_busy(link)]:
            waiting = self._waiting.pop(link)
            message = waiting.popleft()
            outputs = self.router.handle(message, link, self._engine.now_s)
            if waiting:
                self._waiting[link] = waiting
            self._carry_out(self.name, outputs)
        self._work_later()

    def _serve(self) -> None:
        self._note_congestion()
        message, source, incarnation = self._queue.popleft()
        self._working = True
        began = time.perf_counter() if self._service.measured else 0.0
        entries = self.router.size() if self._service.grows else 0  # of the table that the message meets
        self._leaving = self._handle(message, source, incarnation)
        if self._service.measured:
            took_s = time.perf_counter() - began
        else:
            took_s = self._service.time_s(message, entries)
        self.busy_s += took_s
        self._engine.at(self._engine.now_s + took_s, self._served, self.generation)

    def _served(self, generation: int) -> None:
        if generation != self.generation:
            return  # crashed meanwhile
        self._working = False
        outputs, self._leaving = self._leaving, []
        self._carry_out(self.name, outputs)
        if self._queue:
            self._serve()
        else:
            self._note_congestion()

    def _note_congestion(self) -> None:
        length = len(self._queue)
        on = length > self._calm_at if self._congested else length > self._congested_at
        if on != self._congested:
            self._congested = on
            self._carry_out(self.name, self.router.handle(Congestion(on), self.name, self._engine.now_s))

    def crash(self) -> None:
        """Lose everything."""
        self.is_up = False
        self.generation += 1
        self._queue.clear()
        self._leaving.clear()
        self._waiting.clear()
        self._will_work = False
        self.incarnations.clear()
        self._working = self._congested = False

    def restart(self, router: Router) -> None:
        """Begin anew with an empty router, which goes on counting where the old one stopped."""
        self.generation += 1
        router.counters.update(self.router.counters)
        self.router = router
        self.is_up = True
