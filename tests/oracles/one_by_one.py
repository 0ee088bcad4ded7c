"""A broker that handles one event after the other, in plain Python: what the fast path is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from covey.broker.durable_requests import NO_STORE, confirm_unkept
from covey.broker.exchange import Exchange, Failed
from covey.broker.peers import Client

from covey.broker.fastpath import Read
from covey.core.content import check_content
from covey.errors import CoveyError, EventError, ProtocolError
from covey.protocol.events import ENVELOPE, KEPT, envelope_of, family_of, publish_of
from covey.protocol.frames import Kind, Splitter
from covey.routing.outputs import Deliver

ANY = 1 << 30


class OneByOne(Exchange):
    """An exchange without a fast path: every event is decoded and given to the router by itself."""

    def handle(self, reads: Sequence[Read], failed: Failed) -> None:
        before, self._failed = self._failed, failed
        gone: set[str] = set()
        try:
            for read in reads:
                if read.link not in gone and not self._one_read(read):
                    gone.add(read.link)
        finally:
            self._failed = before

    def _one_read(self, read: Read) -> bool:
        while read.at < read.end:
            if isinstance(read.peer, Client):
                if self.clients.get(read.link) is not read.peer:
                    return True
                if self.is_holding:
                    self.hold(Read(read.link, read.peer, read.data, read.address, read.at, read.end))
                    return True
            frame = read.frame(read.at)
            read.at += 4 + len(frame)
            try:
                if frame[0] == Kind.EVENT:
                    self.one_event(frame, read)
                else:
                    self.control(read, frame)
            except CoveyError as error:
                self.failed(read, error)
                return False
        return True

    def one_event(self, one: bytes, read: Read) -> None:
        source = read.link
        client = read.peer if isinstance(read.peer, Client) else None
        envelope = envelope_of(one)
        if client is not None:
            if envelope.publisher != client.number:
                raise ProtocolError("an event has another publisher than the client that sends it")
            client.published += 1
        else:
            neighbour = self.links.neighbours.get(source)
            is_kept = envelope.flags & KEPT and self.durable is not None
            if neighbour is None or not (is_kept or self.links.is_used(neighbour, envelope.epoch)):
                self.counters["stale_frames"] += 1
                return
            neighbour.received += 1
        try:
            publish = publish_of(one, envelope)
            if client is not None:
                check_content(publish.event.content)
        except EventError as error:
            self.unreadable(envelope, read, error)
            return
        sampler, name = self.sampler, (envelope.publisher, envelope.number)
        if client is not None:
            allowed = client.permissions.publish
            if allowed is not None and not allowed.matches(publish.event):
                client.refuse(envelope.number, f"{client.permissions.name} may not publish this event")
                return
            if sampler is not None and sampler.takes(*name):
                content = one[ENVELOPE.size : ENVELOPE.size + envelope.content_length]
                sampler.record(*name, family_of(envelope), content, self.time_s)
        if envelope.flags & KEPT:
            if self.durable is not None:
                self.durable.arrived(one, envelope, publish, source)
                return
            if client is not None:
                client.refuse(envelope.number, NO_STORE)
                return
            confirm_unkept(self.links.neighbours[source], envelope)
        epoch = envelope.epoch if client is None else self.epochs.current
        router = self.epochs.routers[epoch]
        is_sampled = sampler is not None and sampler.takes(*name)
        distance = router.distance_of(publish, source) if is_sampled else None
        outputs = router.handle(publish, source, self.now_s)
        if distance is not None:
            assert sampler is not None
            for output in outputs:
                if isinstance(output, Deliver):
                    sampler.delivered(*name, output.keys, distance, self.time_s)
        self.carry_out(outputs, epoch, one, envelope)


def frames_of(data: bytes) -> list[bytes]:
    """Return the frames of a stream, cut by plain Python."""
    return list(Splitter(ANY).feed(data))
