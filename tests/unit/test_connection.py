"""The connection as a state machine: every state with every input, time, goodbyes, ends and bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.errors import ProtocolError
from covey.protocol.connection import (
    BEAT,
    GREETING_S,
    LAST_WORDS_S,
    SILENCE,
    TABLE,
    Closing,
    Connection,
    Ignored,
    Input,
    Refused,
    State,
)
from covey.protocol.control import Goodbye, decode_life
from covey.protocol.frames import MAX_GREETING, Kind, Splitter, frame
from covey.protocol.outbox import BLOCK, DISCONNECT, READ_AHEAD, Bounds, Verdict

LEASE_S = 30.0
PING, PONG = frame(Kind.PING, b""), frame(Kind.PONG, b"")


def connection(state: State = State.OPEN, bounds: Bounds | None = None) -> Connection:
    """Return a connection in a state, at the time 0."""
    one = Connection(bounds or Bounds(), LEASE_S, 0.0)
    if state is State.VERIFYING:
        one.verifying(0.0)
    if state in (State.OPEN, State.DRAINING):
        one.greeted(1 << 20, LEASE_S, 0.0)
    if state is State.DRAINING:
        one.finish("enough")
    if state is State.CLOSED:
        one.end("enough")
    assert state_of(one) is state
    return one


def state_of(one: Connection) -> State:
    """Return the state, about which a type checker is to remember nothing."""
    return one.state


def closing_of(one: Connection) -> Closing:
    """Return what is to be done with the stream, likewise."""
    return one.closing


def due(one: Connection) -> float:
    """Return when it next wants to be called."""
    due_s = one.next_timeout()
    assert due_s is not None
    return due_s


def said(chunks: list[bytes]) -> list[bytes]:
    """Return the frames in what is to be written."""
    return list(Splitter(1 << 20).feed(b"".join(chunks)))


def goodbye(chunks: list[bytes]) -> Goodbye:
    """Return the goodbye that is the last frame of what is to be written."""
    last = said(chunks)[-1]
    assert last[0] == Kind.GOODBYE
    found = decode_life(last[1:])
    assert isinstance(found, Goodbye)
    return found


def give(one: Connection, given: Input) -> object:
    """Give a connection an input, by the method that stands for it."""
    match given:
        case Input.DATA:
            return one.receive(frame(Kind.REQUEST, b"x"), 1.0)
        case Input.EOF:
            one.receive_eof()
        case Input.SEND:
            return one.send_events(frame(Kind.EVENT, b"x"))
        case Input.VERIFY:
            one.verifying(1.0)
        case Input.GREET:
            one.greeted(1 << 20, LEASE_S, 1.0)
        case Input.FINISH:
            one.finish("another")
        case Input.END:
            one.end("another")
        case Input.ABORT:
            one.abort("another")
        case Input.LOST:
            one.lost("another")
        case Input.TIMEOUT:
            if state_of(one) is State.CLOSED:
                one.to_send(0.0)  # from then on the peer has time to read the last words
            due_s = due(one)
            one.on_timeout(due_s)
    return None


@pytest.mark.parametrize("given", Input)
@pytest.mark.parametrize("state", State)
def test_every_input_in_every_state_does_what_the_table_says(state: State, given: Input) -> None:
    one, outcome = connection(state), TABLE[state][given]
    if isinstance(outcome, Refused):
        with pytest.raises(ProtocolError, match=outcome.because):
            give(one, given)
        assert state_of(one) is state
        return
    before = (one.reason, one.closing, one.outbox.size)
    answer = give(one, given)
    if isinstance(outcome, Ignored):
        assert state_of(one) is state
        assert outcome.because
        assert (one.reason, one.closing, one.outbox.size) == before
        assert answer in (None, (), Verdict.DROPPED)
    else:
        assert state_of(one) is outcome
        assert outcome >= state, "a connection only moves forward"
        if given is Input.DATA:
            assert answer == [bytes([Kind.REQUEST]) + b"x"]
        if outcome is State.CLOSED and given is not Input.LOST:
            assert one.closing >= Closing.CLOSE


def test_the_table_is_whole() -> None:
    assert {(state, given) for state in TABLE for given in TABLE[state]} == {
        (state, given) for state in State for given in Input
    }


def drawn() -> str:
    """Return the table as ARCHITECTURE.md shows it."""

    def cell(state: State, given: Input) -> str:
        outcome = TABLE[state][given]
        if isinstance(outcome, State):
            return "stays" if outcome is state else f"→ {outcome.name}"
        return "ignored" if isinstance(outcome, Ignored) else "error"

    rows = [
        ["input", *(state.name for state in State)],
        ["---"] * (1 + len(State)),
        *([given.name, *(cell(state, given) for state in State)] for given in Input),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_the_table_is_the_one_of_the_architecture() -> None:
    assert drawn() in (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()


# -- in ------------------------------------------------------------------------------------------------------


def test_frames_come_whole_and_without_heartbeats() -> None:
    one = connection()
    data = PING + frame(Kind.REPLY, b"abc") + PONG + frame(Kind.REPLY, b"d")
    assert list(one.receive(data[:8], 1.0)) == []
    assert [bytes(f) for f in one.receive(data[8:], 1.0)] == [b"\x09abc", b"\x09d"]
    assert one.to_send(1.0) == [PONG]
    assert one.received_bytes == len(data)
    assert one.sent_bytes == len(PONG)


def test_a_frame_that_is_too_long_is_an_error_and_the_limit_grows_with_the_greeting() -> None:
    long = frame(Kind.REQUEST, bytes(MAX_GREETING))
    one = connection(State.GREETING)
    with pytest.raises(ProtocolError):
        one.receive(long, 1.0)
    one.end("a frame of too many bytes", retry=False)
    assert goodbye(one.to_send(1.0)) == Goodbye("a frame of too many bytes", False)
    assert closing_of(one) is Closing.CLOSE
    assert len(connection().receive(long, 1.0)) == 1


# -- time ----------------------------------------------------------------------------------------------------


def test_a_peer_that_does_not_say_who_it_is_is_not_told_why_it_goes() -> None:
    one = connection(State.GREETING)
    assert one.next_timeout() == GREETING_S
    one.on_timeout(GREETING_S - 0.1)
    assert state_of(one) is State.GREETING
    one.on_timeout(GREETING_S)
    assert (one.state, one.closing) == (State.CLOSED, Closing.CLOSE)
    assert one.reason == "the peer has not said who it is"
    assert one.to_send(GREETING_S) == []


def test_bytes_do_not_prolong_a_greeting_and_verifying_has_a_time_of_its_own() -> None:
    one = connection(State.GREETING)
    one.receive(b"\x05\x00", 9.0)
    assert one.next_timeout() == GREETING_S
    one.verifying(9.0)
    assert one.next_timeout() == 9.0 + GREETING_S
    one.on_timeout(19.0)
    assert state_of(one) is State.CLOSED
    assert "verified" in one.reason


def test_a_stream_that_is_there_late_has_the_whole_time_for_its_greeting() -> None:
    one = connection(State.GREETING)
    one.opened(25.0)
    assert one.next_timeout() == 25.0 + GREETING_S


def test_a_silent_end_says_something_once_a_beat() -> None:
    one, beat_s = connection(), LEASE_S * BEAT
    for count in range(1, 4):
        due_s = due(one)
        assert due_s == pytest.approx(count * beat_s)
        one.receive(PONG, due_s)
        one.on_timeout(due_s)
        assert one.to_send(due_s) == [PING]
    one.send(Kind.REPLY, b"")
    one.to_send(3.9 * beat_s)
    one.receive(PONG, 4 * beat_s)
    one.on_timeout(4 * beat_s)
    assert one.to_send(4 * beat_s) == []  # it has just said something


def silence_of(one: Connection) -> float:
    """Return when a peer that says nothing is considered dead."""
    due_s = 0.0
    while state_of(one) is not State.CLOSED:
        due_s = due(one)
        one.on_timeout(due_s)
        one.to_send(due_s)
    return due_s


def test_silence_is_noticed_within_a_lease() -> None:
    one = connection()
    assert LEASE_S * SILENCE < silence_of(one) < LEASE_S
    assert closing_of(one) is Closing.ABORT
    assert one.reason == "nothing was heard for 30 s"
    assert one.next_timeout() is None


def test_a_process_that_slept_blames_nobody() -> None:
    one = connection()
    one.on_timeout(1_000.0)  # what the peer said since then is not read yet
    assert state_of(one) is State.OPEN
    assert one.to_send(1_000.0) == [PING]
    assert 1_000 + LEASE_S * SILENCE < silence_of(one) < 1_000 + LEASE_S

    leaving = connection(State.DRAINING)
    leaving.to_send(1.0)
    leaving.on_timeout(1_000.0)
    assert closing_of(leaving) is Closing.SHUT_WRITE
    leaving.on_timeout(1_000.0 + LAST_WORDS_S)
    assert closing_of(leaving) is Closing.ABORT

    greeting = connection(State.GREETING)
    greeting.on_timeout(1_000.0)
    assert state_of(greeting) is State.GREETING
    due_s = due(greeting)
    greeting.on_timeout(due_s)
    assert state_of(greeting) is State.CLOSED


def test_a_peer_that_is_not_read_is_not_silent() -> None:
    one = connection()
    one.hold("full", 1.0)
    one.hold("blocked", 1.0)
    now_s = 0.0
    for _ in range(20):
        due_s = due(one)
        now_s = due_s
        one.on_timeout(now_s)
    assert state_of(one) is State.OPEN
    one.go_on("full", now_s)
    assert one.is_held
    one.go_on("blocked", now_s)
    assert not one.is_held
    assert now_s + LEASE_S * SILENCE < silence_of(one) < now_s + LEASE_S


# -- ends ----------------------------------------------------------------------------------------------------


def test_finish_sends_all_that_waits_then_goodbye_then_shuts_its_side() -> None:
    one = connection()
    one.send_events(frame(Kind.EVENT, b"1"))
    one.finish("the broker is going away")
    assert one.send_events(frame(Kind.EVENT, b"2")) is Verdict.DROPPED
    one.send(Kind.REPLY, b"")
    one.receive(PING, 1.0)  # and is not answered
    assert closing_of(one) is Closing.NOTHING
    chunks = one.to_send(1.0)
    assert [f[0] for f in said(chunks)] == [Kind.EVENT, Kind.GOODBYE]
    assert goodbye(chunks) == Goodbye("the broker is going away")
    assert closing_of(one) is Closing.SHUT_WRITE
    assert [bytes(f) for f in one.receive(frame(Kind.REQUEST, b"z"), 2.0)] == [b"\x08z"]
    one.receive_eof()
    assert (one.state, one.closing) == (State.DRAINING, Closing.CLOSE)
    one.lost()
    assert (one.state, one.reason) == (State.CLOSED, "the broker is going away")
    assert one.next_timeout() is None


def test_goodbye_both_ways() -> None:
    a, b = connection(), connection()
    a.send_events(frame(Kind.EVENT, b"a"))
    b.send_events(frame(Kind.EVENT, b"b"))
    a.finish("a is done")
    frames = b.receive(b"".join(a.to_send(1.0)), 1.0)
    assert [one[0] for one in frames] == [Kind.EVENT, Kind.GOODBYE]
    b.finish("a is done", heard_all=True)
    b.receive_eof()
    assert closing_of(b) is Closing.NOTHING, "a still reads what b has for it"
    chunks = b.to_send(1.0)
    assert [one[0] for one in said(chunks)] == [Kind.EVENT, Kind.GOODBYE]
    assert closing_of(b) is Closing.CLOSE
    assert len(a.receive(b"".join(chunks), 1.0)) == 2
    a.receive_eof()
    assert closing_of(a) is Closing.CLOSE


def test_tls_is_closed_when_both_have_said_goodbye_as_it_cannot_be_half_closed() -> None:
    one = connection()
    one.can_half_close = False
    one.finish("enough")
    assert goodbye(one.to_send(1.0)).reason == "enough"
    assert closing_of(one) is Closing.NOTHING
    one.finish("the peer says so too", heard_all=True)
    assert closing_of(one) is Closing.CLOSE
    assert one.reason == "enough"

    other = connection()
    other.can_half_close = False
    other.finish("the peer has said goodbye", heard_all=True)
    assert closing_of(other) is Closing.NOTHING
    other.to_send(1.0)
    assert closing_of(other) is Closing.CLOSE


@pytest.mark.parametrize("can_half_close", [True, False])
def test_a_peer_that_does_not_end_its_side_is_cut_off(can_half_close: bool) -> None:
    one = connection()
    one.can_half_close = can_half_close
    one.finish("enough")
    one.to_send(1.0)
    assert one.next_timeout() == 1.0 + LAST_WORDS_S
    one.on_timeout(1.0 + LAST_WORDS_S)
    assert (one.state, one.closing, one.reason) == (State.CLOSED, Closing.ABORT, "enough")


def test_end_sends_what_waits_and_why_and_leaves_a_while_to_read_it() -> None:
    one = connection()
    one.pause_writing()
    one.send_events(frame(Kind.EVENT, b"1"))
    assert one.to_send(1.0) == []
    one.end("it must be")
    one.end("too late")
    chunks = one.to_send(2.0)
    assert [f[0] for f in said(chunks)] == [Kind.EVENT, Kind.GOODBYE]
    assert goodbye(chunks) == Goodbye("it must be")
    assert one.to_send(2.0) == []
    assert closing_of(one) is Closing.CLOSE
    assert one.next_timeout() == 2.0 + LAST_WORDS_S
    one.on_timeout(2.0 + LAST_WORDS_S)
    assert (one.closing, one.reason) == (Closing.ABORT, "it must be")
    assert one.next_timeout() is None


def test_after_goodbye_an_end_says_nothing_more() -> None:
    one = connection(State.DRAINING)
    one.to_send(1.0)
    assert closing_of(one) is Closing.SHUT_WRITE
    one.end("a frame that cannot be read")  # to write after the sending side was shut is an error of its own
    assert one.to_send(1.0) == []
    assert closing_of(one) is Closing.CLOSE

    early = connection(State.DRAINING)
    early.end("a frame that cannot be read")
    assert goodbye(early.to_send(1.0)) == Goodbye("enough")  # once


def test_abort_drops_what_waits() -> None:
    one = connection()
    one.send_events(frame(Kind.EVENT, b"1"))
    one.abort("it has taken nothing")
    assert one.to_send(1.0) == []
    assert (one.closing, one.reason, one.next_timeout()) == (Closing.ABORT, "it has taken nothing", None)


def test_a_stream_that_is_lost_says_why() -> None:
    one = connection()
    one.lost("Connection reset by peer")
    assert (one.state, one.reason, one.closing) == (
        State.CLOSED,
        "Connection reset by peer",
        Closing.NOTHING,
    )
    ended = connection()
    ended.end("it must be")
    ended.lost("Broken pipe")
    assert ended.reason == "it must be"
    assert ended.next_timeout() is None


# -- bounds --------------------------------------------------------------------------------------------------


def test_a_slow_reader_is_lost_by_the_policy_disconnect() -> None:
    one = connection(bounds=Bounds(events=2, policy=DISCONNECT))
    event = frame(Kind.EVENT, b"1")
    assert [one.send_events(event) for _ in range(4)] == [
        Verdict.TAKEN,
        Verdict.TAKEN,
        Verdict.LOST,
        Verdict.DROPPED,
    ]
    assert state_of(one) is State.CLOSED
    assert one.reason == "the peer reads too slowly: 2 events wait for it"
    assert goodbye(one.to_send(1.0)).retry


def test_a_full_outbox_is_told_once_when_it_has_room_again() -> None:
    one = connection(bounds=Bounds(events=4, policy=BLOCK))
    one.pause_writing()
    verdicts = [one.send_events(frame(Kind.EVENT, b"1")) for _ in range(5)]
    assert verdicts == [Verdict.TAKEN] * 4 + [Verdict.FULL]
    assert one.to_send(1.0) == []
    assert not one.take_drained()
    one.resume_writing()
    assert len(one.to_send(1.0)) == 5
    assert one.take_drained()
    assert not one.take_drained()


def test_too_much_control_that_waits_ends_the_connection_at_once() -> None:
    one = connection(bounds=Bounds(control_bytes=10))
    one.send(Kind.REPLY, bytes(10))
    assert closing_of(one) is Closing.ABORT
    assert "control traffic" in one.reason


def test_what_is_written_at_once_is_bounded_and_no_chunk_is_copied() -> None:
    one = connection()
    chunks = [frame(Kind.EVENT, bytes(READ_AHEAD // 4)) for _ in range(6)]
    for chunk in chunks:
        one.send_events(chunk)
    first = one.to_send(1.0)
    assert len(first) == 4
    both = first + one.to_send(1.0)
    assert all(sent is put for sent, put in zip(both, chunks, strict=True))
    assert one.to_send(1.0) == []
