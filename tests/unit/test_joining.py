"""Pauses between turns: they come with many small reads, and go where nobody gains by them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from covey.broker.scheduling import PAUSE_S, RATE, WINDOW_S, Joining, Mode

TURN_S, READ_S = 30e-6, 15e-6  # what a turn and each read of it take

Pauses = Callable[[int, float, float], float]


def never(reads: int, began_s: float, now_s: float) -> float:
    """Let turns follow each other at once."""
    return 0.0


def pauses_of(joining: Joining) -> Pauses:
    """Return what a shell does with one: it counts, and asks where it has to."""

    def pauses(reads: int, began_s: float, now_s: float) -> float:
        joining.reads += reads
        joining.turns += 1
        return joining.pause_s(began_s, now_s) if began_s >= joining.look_s else 0.0

    return pauses


def open_loop(pauses: Pauses, rate: float, seconds: float) -> tuple[int, float]:
    """Give reads at an even rate, whatever becomes of them; return the number of turns and the longest wait."""
    now_s, given, turns, longest_s = 0.0, 0, 0, 0.0
    while now_s < seconds:
        first_s = given / rate
        now_s = max(now_s, first_s)
        reads = int(now_s * rate) - given + 1
        longest_s = max(longest_s, now_s - first_s)
        given += reads
        turns += 1
        began_s, now_s = now_s, now_s + TURN_S + reads * READ_S
        now_s += pauses(reads, began_s, now_s)
    return turns, longest_s


def closed_loop(pauses: Pauses, clients: int, seconds: float, think_s: float = 20e-6) -> int:
    """Let clients send again some time after they were answered; return how many reads there were."""
    now_s, total = 0.0, 0
    ready_s = [0.0] * clients
    while now_s < seconds:
        now_s = max(now_s, min(ready_s))
        some = [client for client in range(clients) if ready_s[client] <= now_s]
        total += len(some)
        began_s, now_s = now_s, now_s + TURN_S + len(some) * READ_S
        for client in some:
            ready_s[client] = now_s + think_s
        now_s += pauses(len(some), began_s, now_s)
    return total


def test_many_reads_at_their_own_pace_are_joined() -> None:
    joining = Joining()
    turns, longest_s = open_loop(pauses_of(joining), 10_000, 2.0)
    assert joining.mode is Mode.TOGETHER
    assert turns < 2_500  # of 20,000 reads: nearly all turns are a pause apart
    assert longest_s < PAUSE_S + TURN_S + 20 * READ_S


@pytest.mark.parametrize("rate", [10, 1_000, RATE * 0.9])
def test_fewer_reads_never_wait(rate: float) -> None:
    joining = Joining()
    turns, longest_s = open_loop(pauses_of(joining), rate, 2.0)
    assert joining.mode is Mode.APART
    assert longest_s < TURN_S + 2 * READ_S
    assert turns >= int(2.0 * rate)


def test_pauses_end_with_the_rush() -> None:
    joining = Joining()
    open_loop(pauses_of(joining), 10_000, 0.5)
    assert pauses_of(joining)(10, 0.501, 0.501) > 0
    assert pauses_of(joining)(1, 0.6, 0.6) == 0.0  # a tenth of a second with few reads
    assert joining.mode is Mode.APART


@pytest.mark.parametrize("clients", [1, 2, 5, 10])
def test_clients_that_wait_for_answers_are_hardly_slowed_down(clients: int) -> None:
    joining = Joining()
    without, paused = closed_loop(never, clients, 4.0), closed_loop(pauses_of(joining), clients, 4.0)
    assert paused > 0.9 * without


def test_many_together_need_no_pauses() -> None:
    joining = Joining()
    closed_loop(pauses_of(joining), 100, 1.0)
    assert joining.mode is Mode.APART


def test_a_turn_longer_than_a_pause_is_followed_at_once() -> None:
    joining = Joining()
    open_loop(pauses_of(joining), 10_000, 0.5)
    assert joining.mode is Mode.TOGETHER
    assert pauses_of(joining)(10, 0.5, 0.5 + 2 * PAUSE_S) == 0.0
    assert 0 < pauses_of(joining)(10, 0.51, 0.51 + PAUSE_S / 4) <= PAUSE_S


def test_a_window_is_long_enough_to_count() -> None:
    assert RATE * WINDOW_S >= 100
