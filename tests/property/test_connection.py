"""Connections under random inputs: what is written is well formed to the end, and every life ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from covey.errors import ProtocolError
from covey.protocol.connection import Closing, Connection, State
from covey.protocol.frames import LENGTH, Kind, Splitter, frame
from covey.protocol.outbox import DROP_OLDEST, POLICIES, Bounds, Verdict

STEPS = st.lists(
    st.sampled_from(
        ["event", "event", "event", "control", "barrier", "ping", "garbage", "verify", "greet", "finish", "heard",
         "end", "quiet", "abort", "eof", "lost", "pause", "resume", "hold", "go on", "wait", "sleep", "flush"]
    ),
    max_size=40,
)  # fmt: skip


class Life:
    """One connection whose owner does all its duties after every input, and what it has written."""

    def __init__(self, bounds: Bounds, can_half_close: bool) -> None:
        self.now_s = 0.0
        self.connection = Connection(bounds, 30.0, 0.0)
        self.connection.can_half_close = can_half_close
        self.written: list[bytes] = []
        self.taken: list[bytes] = []
        self.count = 0
        self.state, self.closing = State.GREETING, Closing.NOTHING
        self.is_lost = False

    def step(self, what: str) -> None:
        one = self.connection
        try:
            self._give(what)
        except ProtocolError as error:
            one.end(str(error), retry=False)
        self._duties()

    def _give(self, what: str) -> None:
        one = self.connection
        match what:
            case "event":
                self.count += 1
                chunk = frame(Kind.EVENT, self.count.to_bytes(4, "little"))
                verdict = one.send_events(chunk)
                # With drop-oldest it is another one that is dropped.
                if verdict in (Verdict.TAKEN, Verdict.FULL) or one.outbox.bounds.policy == DROP_OLDEST:
                    self.taken.append(chunk)
            case "control" | "barrier":
                one.send(Kind.REPLY, b"", barrier=what == "barrier")
            case "ping":
                one.receive(frame(Kind.PING, b""), self.now_s)
            case "garbage":
                one.receive(b"\xff" * 8, self.now_s)
            case "verify":
                one.verifying(self.now_s)
            case "greet":
                one.greeted(1 << 20, 30.0, self.now_s)
            case "finish" | "heard":
                one.finish("enough", heard_all=what == "heard")
            case "end" | "quiet":
                one.end("enough", tell=what == "end")
            case "abort":
                one.abort("enough")
            case "eof":
                one.receive_eof()
            case "lost":
                self.is_lost = True
                one.lost("it is gone")
            case "pause":
                one.pause_writing()
            case "resume":
                one.resume_writing()
            case "hold":
                one.hold("why", self.now_s)
            case "go on":
                one.go_on("why", self.now_s)
            case "wait":
                self.now_s = max(self.now_s, one.next_timeout() or 0.0)
                one.on_timeout(self.now_s)
            case "sleep":
                self.now_s += 1_000.0
                one.on_timeout(self.now_s)

    def _duties(self) -> None:
        one = self.connection
        while chunks := one.to_send(self.now_s):
            assert self.closing is Closing.NOTHING, "nothing is written to a side that is shut"
            assert not self.is_lost
            self.written += chunks
        assert one.state >= self.state, "a connection only moves forward"
        assert one.closing >= self.closing or self.is_lost
        self.state, self.closing = one.state, one.closing
        if one.state is State.CLOSED:
            assert self.is_lost or one.closing >= Closing.CLOSE
            assert self.is_lost or one.closing is Closing.ABORT or one.next_timeout() is not None
        else:
            assert one.next_timeout() is not None

    def check_written(self) -> None:
        written = b"".join(self.written)
        frames = Splitter(1 << 20).feed(written)
        assert sum(LENGTH.size + len(one) for one in frames) == len(written), "only whole frames"
        kinds = [one[0] for one in frames]
        assert Kind.GOODBYE not in kinds[:-1], "goodbye is said once, and is the last word"
        events = [LENGTH.pack(len(one)) + one for one in frames if one[0] == Kind.EVENT]
        kept = iter(self.taken)
        assert all(one in kept for one in events), "events in their order"


@given(STEPS, st.sampled_from(POLICIES), st.booleans())
def test_what_is_written_is_well_formed_and_every_life_ends(
    steps: list[str], policy: str, can_half_close: bool
) -> None:
    life = Life(Bounds(events=3, policy=policy), can_half_close)
    for step in steps:
        life.step(step)
    life.check_written()
    life.step("go on")
    for _ in range(20):  # a peer that says nothing from now on
        life.step("wait")
    assert life.connection.state is State.CLOSED
    assert life.is_lost or life.connection.closing is Closing.ABORT
    life.check_written()


@given(
    STEPS.map(
        lambda steps: [s for s in steps if s in ("event", "control", "barrier", "ping", "pause", "resume")]
    )
)
def test_after_finish_all_that_was_taken_is_written(steps: list[str]) -> None:
    life = Life(Bounds(), True)
    for step in ("greet", *steps, "finish", "event", "resume"):
        life.step(step)
    frames = Splitter(1 << 20).feed(b"".join(life.written))
    assert [LENGTH.pack(len(one)) + one for one in frames if one[0] == Kind.EVENT] == life.taken
    assert frames[-1][0] == Kind.GOODBYE
    assert life.connection.closing is Closing.SHUT_WRITE
