"""A broker that handles one event after the other, in plain Python: what the fast path is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from covey.broker.core import BrokerCore
from covey.broker.durable.delivery import NO_STORE, confirm_unkept
from covey.broker.effects import Effect
from covey.broker.fastpath import Desk, FastPath, Read
from covey.broker.plans import Epochs
from covey.broker.sessions import Session
from covey.core.content import check_content, too_wide
from covey.core.event import MAX_ATTRIBUTES
from covey.errors import CoveyError, EventError, ProtocolError
from covey.protocol.events import ENVELOPE, KEPT, envelope_of, family_of, publish_of
from covey.protocol.frames import Kind
from covey.routing.messages import Link
from covey.routing.outputs import Deliver


class PlainPath(FastPath):
    """Every event is decoded and given to the router by itself."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs

    def pass_through(
        self, reads: dict[int, bytes], desk: Desk, now_s: float
    ) -> tuple[list[Effect], dict[int, bytes]]:
        """Let every event wait for its turn."""
        return [], reads

    def forget_passages(self) -> None:
        """There is nothing to forget."""

    def count_tables(self) -> None:
        """The router counts by itself."""

    def client_up(self, client: Session) -> None:
        """There is nothing to prepare."""

    def client_down(self, link: Link) -> None:
        """There is nothing to forget."""

    def handle(self, reads: Sequence[Read], desk: Desk, now_s: float) -> None:
        """Handle what links have sent, one after the other."""
        assert isinstance(desk, BrokerCore)
        gone: set[str] = set()
        for read in reads:
            if read.link not in gone and not self._one_read(read, desk, now_s):
                gone.add(read.link)
            read.at = read.end  # nothing of it is left to be done

    def _one_read(self, read: Read, core: BrokerCore, now_s: float) -> bool:
        while read.at < read.end:
            if isinstance(read.peer, Session):
                if core.clients.get(read.link) is not read.peer:
                    return True
                if core.is_holding:
                    core.hold(Read(read.link, read.peer, read.data, read.address, read.at, read.end))
                    return True
            frame = read.frame(read.at)
            read.at += 4 + len(frame)
            core.begin(read.link)
            try:
                if frame[0] == Kind.EVENT:
                    self._one_event(frame, read, core, now_s)
                else:
                    core.control(read, frame)
            except CoveyError as error:
                core.failed(read, error)
                return False
            finally:
                core.begin(None)
        return True

    def _one_event(self, one: bytes, read: Read, core: BrokerCore, now_s: float) -> None:
        source = read.link
        client = read.peer if isinstance(read.peer, Session) else None
        envelope = envelope_of(one)
        if client is not None:
            if envelope.publisher != client.number:
                raise ProtocolError("an event has another publisher than the client that sends it")
            client.published += 1
        else:
            neighbour = core.linked.get(source)
            is_kept = envelope.flags & KEPT and core.is_keeping
            if neighbour is None or not (is_kept or core.is_used(neighbour, envelope.epoch)):
                core.counters["stale_frames"] += 1
                return
            neighbour.received += 1
        try:
            publish = publish_of(one, envelope)
            content = publish.event.content
            if isinstance(content, dict) and len(content) > MAX_ATTRIBUTES:
                raise too_wide()
            if client is not None:
                check_content(content)
        except EventError as error:
            core.unreadable(envelope, read, error)
            return
        sampler, name = core.sampler, (envelope.publisher, envelope.number)
        if client is not None:
            allowed = client.permissions.publish
            if allowed is not None and not allowed.matches(publish.event):
                client.refuse(envelope.number, f"{client.permissions.name} may not publish this event")
                return
            if sampler is not None and sampler.takes(*name):
                packed = one[ENVELOPE.size : ENVELOPE.size + envelope.content_length]
                sampler.record(*name, family_of(envelope), packed, core.time_s)
        if envelope.flags & KEPT:
            if core.is_keeping:
                core.confirmed(one, envelope, publish, read)
                return
            if client is not None:
                client.refuse(envelope.number, NO_STORE)
                return
            core.perform(confirm_unkept(source, envelope))
        epoch = envelope.epoch if client is None else self._epochs.current
        router = self._epochs.routers[epoch]
        is_sampled = sampler is not None and sampler.takes(*name)
        distance = router.distance_of(publish, source) if is_sampled else None
        outputs = router.handle(publish, source, now_s)
        if distance is not None:
            assert sampler is not None
            for output in outputs:
                if isinstance(output, Deliver):
                    sampler.delivered(*name, output.keys, distance, core.time_s)
        core.carry_out(outputs, epoch, one, envelope)


class OneByOne(BrokerCore):
    """A core without a fast path."""

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        self.fastpath = PlainPath(self.epochs)
