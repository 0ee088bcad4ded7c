"""Play a recording of the version before to a core of today, and compare what it answers.

The core has the seat of the broker `a`. It gets what the recorded peers said, in the recorded order, and must answer
what the broker of the version before answered: the same frames, byte for byte, with these exceptions.

    greetings     have a field more now, which peers of the version before ignore
    TAKEN         one frame may have the names of several events, as the disk was ready
    order         control may overtake events: frames are compared as soon as one like it is there
    kept events   may be sent again before they are taken: their receivers know them by their names
    own probes    by which a broker makes sure that its tables are complete: how many, and when, is its own affair;
                  they are echoed at once in place of the recorded echoes, and WHOLE may be said earlier for that
    goodbye       the answer to a peer's goodbye may come too late for the peer to hear it

What is drawn at random (the numbers of clients and durable subscriptions) is drawn again as it was. Time passes when
the core owes an answer: then it gets the ticks that it asks for.
"""

from __future__ import annotations

import queue
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec

from covey.broker import effects
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.core import BrokerCore
from covey.broker.durable.delivery import Durable
from covey.broker.durable.log import Answer, Committed, Fetch, Find, Notice
from covey.broker.durable.sqlite import SqliteLog
from covey.broker.effects import Effect, Input, Instant
from covey.broker.security import Security
from covey.protocol.control import BARE, Hello, Welcome, decode_life
from covey.protocol.events import KEPT, decode_taken, encode_taken
from covey.protocol.frames import Kind, Splitter, framed

WALL_S = 1_700_000_000.0
LEASE_S = (
    600.0  # of which every eighth the broker does what is due by the clock: not while a recording is played
)
PATIENCE_S = 20.0  # that an answer may take, of simulated time
_OWN = re.compile(rb"(?:\xa5probe|\xa4echo).~a!", re.DOTALL)  # between them is the length of the probe's name
_DURABLE = re.compile(rb"~durable/([0-9a-f]+)-0")
SILENT = (Kind.PING, Kind.PONG)


@dataclass(frozen=True)
class Line:
    """A line of a recording: `what` is a frame with its kind first, or how a connection begins or ends."""

    number: int
    peer: str
    sign: str
    frame: bytes = b""

    def __str__(self) -> str:
        return f"line {self.number}: {self.peer} {self.sign} {describe(self.frame)}"


def describe(frame: bytes) -> str:
    """Return a frame for people."""
    return f"{Kind(frame[0]).name} {frame[1:].hex()}" if frame else ""


def read(path: Path) -> list[Line]:
    """Return the lines of a recording, without remarks."""
    found = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if text.startswith("#"):
            continue
        peer, sign, *rest = text.split(" ")
        frame = bytes([Kind[rest[0]]]) + bytes.fromhex("".join(rest[1:])) if rest else b""
        found.append(Line(number, peer, sign, frame))
    return found


def parts(frame: bytes) -> Iterator[bytes]:
    """Yield a frame in the form in which frames are compared; one with several names as several."""
    if frame[0] == Kind.TAKEN:
        for name in decode_taken(frame[1:]):
            yield from (bytes([Kind.TAKEN]) + body for body in encode_taken([name]))
    elif frame[0] in (Kind.HELLO, Kind.WELCOME):
        fields = msgspec.msgpack.decode(frame[1:])
        yield frame[:1] + msgspec.msgpack.encode(fields[: 8 if frame[0] == Kind.HELLO else 7])
    elif frame[0] not in SILENT:
        yield frame


class Numbers(Random):
    """Numbers for clients as they were drawn in the recording; the rest as ever."""

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__(1)
        self._numbers = deque(numbers)

    def getrandbits(self, k: int, /) -> int:
        return self._numbers.popleft()


def _answers_of(answer: Answer) -> int:
    """Return how many questions an answer answers."""
    if isinstance(answer, Committed):
        return len(answer.tickets)
    return 0 if isinstance(answer, Notice) else 1


class Playing:
    """A core of today in the seat of `a`, with a store in a folder."""

    def __init__(self, lines: Sequence[Line], links: Sequence[LinkConfig], folder: Path) -> None:
        self._lines = lines
        said = [decode_life(one.frame[1:]) for one in lines if one.sign == "<" and one.frame[0] in (1, 2)]
        numbers = [one.number for one in said if isinstance(one, Welcome) and one.number]
        incarnation = next(one.incarnation for one in said if isinstance(one, Hello | Welcome))
        config = BrokerConfig("a", links=tuple(links), lease_s=LEASE_S, data_dir=str(folder))
        security = Security(config.security, config.host)
        self.now_s = 0.0
        self.core = BrokerCore(
            config, security, BARE, incarnation=incarnation, random=Numbers(numbers), now=self._now()
        )
        self._answers: queue.SimpleQueue[Sequence[Answer]] = queue.SimpleQueue()
        self._log = SqliteLog(folder / "store.db", "a")
        self._asked = 0
        self._connections: dict[str, int] = {}  # by peer: the last one
        self._peers: list[str] = []
        self._splitters: list[Splitter] = []
        self.waiting: dict[str, list[bytes]] = {}  # what the core has said to a peer and was not expected yet
        self._said: set[tuple[int, bytes]] = set()  # kept events, by connection
        self._heard: set[tuple[int, bytes]] = set()  # and those of the recording
        self._inputs: deque[Input] = deque()
        self._gone: set[str] = set()
        self.dialled: list[str] = []
        self.logged: list[effects.Log] = []

    def _now(self) -> Instant:
        return Instant(self.now_s, WALL_S)

    def play(self) -> None:
        """Play all lines; AssertionError for the first that is not answered as it was."""
        self._do(self.core.recovered(self._log.open(), self._now()))
        self._draw_durable()
        self._log.start(self._answers.put)
        try:
            self._do(self.core.start(self._now()))
            for line in self._lines:
                self._play(line)
            self._settle()
        finally:
            self._log.close()

    def _draw_durable(self) -> None:
        """Have the broker's durable subscriptions get the keys that they had, which others know them by."""
        keys = [found for line in self._lines if line.sign == "<" for found in _DURABLE.findall(line.frame)]
        uids = deque(int(key, 16) for key in dict.fromkeys(keys))
        assert isinstance(self.core.durable, Durable)
        if uids:
            setattr(self.core.durable.subscriptions, "_uid", lambda owner: uids.popleft())  # noqa: B010

    def unexpected(self) -> list[str]:
        """Return what the core has said beyond the recording."""
        return [
            f"{peer} < {describe(frame)}"
            for peer, frames in self.waiting.items()
            for frame in frames
            if frame[0] != Kind.WHOLE and (frame[0] != Kind.GOODBYE or peer not in self._gone)
        ]

    def _play(self, line: Line) -> None:
        if line.frame[:1] == bytes([Kind.ROUTE]) and _OWN.search(line.frame):
            return
        if line.sign == ">":
            self.step(effects.Received(self._connections[line.peer], framed(line.frame)))
        elif line.sign == "<":
            for part in parts(line.frame):
                if not self._is_repeated(self._heard, self._connections[line.peer], part):
                    self._expect(line, part)
        elif line.sign == "ends":
            number = self._connections[line.peer]
            self._gone.add(line.peer)
            self.step(effects.HeardEof(number))
            self._settle()
            self.step(effects.Closed(number))
        else:
            self._open(line)
        self._settle()

    def _open(self, line: Line) -> None:
        assert line.sign in ("client", "dials", "dialled"), str(line)
        number = self._connections[line.peer] = len(self._peers)
        self._peers.append(line.peer)
        self._splitters.append(Splitter(1 << 26))
        self.waiting.setdefault(line.peer, [])
        if line.sign == "dialled":
            while line.peer not in self.dialled:
                self._pass_time(line)
            self.dialled.remove(line.peer)
        dialled = line.peer if line.sign == "dialled" else ""
        self.step(effects.Opened(number, f"peer:{number}", "peer", dialled=dialled))

    def _is_repeated(self, known: set[tuple[int, bytes]], connection: int, part: bytes) -> bool:
        """Return whether this is a kept event that was said over the connection before; note it if not."""
        if part[0] != Kind.EVENT or not part[1] & KEPT:
            return False
        is_repeated = (connection, part) in known
        known.add((connection, part))
        return is_repeated

    def _expect(self, line: Line, part: bytes) -> None:
        until_s = self.now_s + PATIENCE_S
        while part not in self.waiting[line.peer]:
            others = "\n".join(map(describe, self.waiting[line.peer])) or "nothing"
            assert self.now_s < until_s, f"{line}\nis not said, but\n{others}\n{self.logged[-3:]}"
            self._pass_time(line)
        self.waiting[line.peer].remove(part)

    # -- the shell -------------------------------------------------------------------------------------------

    def _pass_time(self, line: Line) -> None:
        due_s = self.core.deadline()
        assert due_s is not None, f"{line}: the core waits for nothing"
        self.now_s = max(self.now_s, due_s) + 1e-6
        self.step(effects.Tick())
        self._settle()

    def _settle(self) -> None:
        """Let the core do what it can do now."""
        while (due_s := self.core.deadline()) is not None and due_s <= self.now_s:
            self.step(effects.Tick())

    def step(self, given: Input) -> None:
        """Give the core an input, do what it asks for, wait for the disk, and echo the core's own probes."""
        self._inputs.append(given)
        while self._inputs:
            self._step(self._inputs.popleft())

    def _step(self, given: Input) -> None:
        self._do(self.core.step(given, self._now()))
        while self._asked:
            answers = tuple(self._answers.get(timeout=30.0))
            self._asked -= sum(_answers_of(one) for one in answers)
            self._do(self.core.step(effects.Answered(answers), self._now()))

    def _do(self, some: Sequence[Effect]) -> None:
        for effect in some:
            match effect:
                case effects.Write(connection, buffers):
                    for frame in self._splitters[connection].feed(b"".join(buffers)):
                        self._hear(connection, bytes(frame))
                case effects.Commit(batch):
                    self._asked += 1
                    self._log.submit([batch])
                case Fetch() | Find():
                    self._asked += 1
                    self._log.submit([effect])
                case effects.KeepPlans():
                    self._inputs.append(effects.PlansKept())
                case effects.Dial(link):
                    self.dialled.append(link.name)
                case effects.Log():
                    self.logged.append(effect)

    def _hear(self, connection: int, frame: bytes) -> None:
        if frame[0] == Kind.ROUTE and _OWN.search(frame):
            echo = frame.replace(b"\xa5probe", b"\xa4echo", 1)
            self._inputs.append(effects.Received(connection, framed(echo)))
            return
        for part in parts(frame):
            if not self._is_repeated(self._said, connection, part):
                self.waiting[self._peers[connection]].append(part)
