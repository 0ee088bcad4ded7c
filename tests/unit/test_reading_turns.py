"""How much a broker reads of one socket, and of all, before others have their turn: counted in bytes."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from typing import Any, cast

from covey.broker import effects
from covey.broker.config import BrokerConfig
from covey.broker.listening import AT_ONCE, Listener
from covey.broker.server import ALL_READ, MOST_READ, Broker, _Stream

READ = 1 << 18  # at a time, as uvloop does


class Transport:
    """A socket that has as much to read as anybody wants."""

    def __init__(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class Loop:
    """Calls what is to be called soon when it is told."""

    def __init__(self) -> None:
        self.soon: list[Any] = []

    def call_soon(self, call: Any, *arguments: Any) -> None:
        self.soon.append((call, arguments))

    def go_on(self) -> None:
        soon, self.soon = self.soon, []
        for call, arguments in soon:
            call(*arguments)


def broker() -> tuple[Broker, Loop, list[int]]:
    """Return a broker whose core hears nothing, its loop, and a list of how much it would have heard."""
    shell, loop, heard = Broker(BrokerConfig("a", port=0)), Loop(), list[int]()
    shell._loop = cast(asyncio.AbstractEventLoop, loop)

    def step(given: effects.Input) -> None:
        if isinstance(given, effects.Received):
            heard.append(len(given.data))

    shell.step = step  # type: ignore[method-assign]
    return shell, loop, heard


def stream(shell: Broker, number: int) -> tuple[_Stream, Transport]:
    one, transport = _Stream(shell, number), Transport()
    one.transport = cast(asyncio.Transport, transport)
    return one, transport


def read(one: _Stream, transport: Transport) -> int:
    """Read as long as there is something and it may be read, as the loop does; return how many bytes that was."""
    taken = 0
    while transport.is_read and taken < 64 << 20:
        one.data_received(bytes(READ))
        taken += READ
    return taken


def test_one_socket_is_read_for_a_while_and_again_after_others() -> None:
    shell, loop, heard = broker()
    one, transport = stream(shell, 1)
    for _ in range(3):
        assert read(one, transport) == MOST_READ
        loop.go_on()
        assert transport.is_read
    assert sum(heard) == 3 * MOST_READ, "nothing is lost"


def test_many_sockets_together_have_a_bound_too() -> None:
    shell, loop, _ = broker()
    streams = [stream(shell, number) for number in range(20)]
    for _ in range(2):
        taken = [read(*one) for one in streams]
        assert sum(taken) <= ALL_READ + len(streams) * READ
        assert min(taken) >= READ, "each gets something"
        loop.go_on()
        assert all(transport.is_read for _, transport in streams)


def test_who_is_held_is_not_read_when_others_have_had_their_turn() -> None:
    shell, loop, _ = broker()
    one, transport = stream(shell, 1)
    read(one, transport)
    one.hold(True)
    loop.go_on()
    assert not transport.is_read
    one.hold(False)
    assert transport.is_read
    read(one, transport)
    one.hold(True)
    one.hold(False)
    assert not transport.is_read, "others have not had their turn yet"
    loop.go_on()
    assert transport.is_read


def test_small_reads_are_not_counted() -> None:
    shell, _, heard = broker()
    one, transport = stream(shell, 1)
    for _ in range(10_000):
        one.data_received(bytes(200))
    assert transport.is_read
    assert len(heard) + len(shell.arrived) == 10_000, "the first waits for the next turn"


def test_a_crowd_that_connects_is_accepted_a_few_at_a_time() -> None:
    crowd = 3 * AT_ONCE + 1

    async def scenario() -> list[int]:
        accepted: list[socket.socket] = []
        with socket.create_server(("127.0.0.1", 0), backlog=crowd) as listening, ExitStack() as stack:
            for _ in range(crowd):
                stack.enter_context(socket.create_connection(listening.getsockname()))
            listener = Listener([listening], lambda stream, _: accepted.append(stream), lambda *_, **__: None)
            counts = []
            while len(accepted) < crowd:
                await asyncio.sleep(0)
                counts.append(len(accepted))
            listener.close()
            for one in accepted:
                one.close()
        return counts

    counts = asyncio.run(scenario())
    assert counts[-1] == crowd, "all in the end"
    assert max(after - before for before, after in zip([0, *counts], counts, strict=False)) <= AT_ONCE
