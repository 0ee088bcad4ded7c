"""Attach, Detach and Detached between a broker of today and one of the version before: every order of events.

The version before (commit d642115) kept flags where `neighbours.TABLE` has states, was lenient in what it heard, could
have several Detaches unanswered, and said Attach again before its Detach was answered. Its rules are written down here
as `Before`. All that two brokers can do and hear, in any order, is tried: nothing that it says is refused, at rest both
route over the link if both find it on the tree, and neither takes for new what the other's router said before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import pytest

from covey.broker.neighbours import TABLE, LinkInput, LinkState, Move, Refused
from covey.protocol.control import Attach, Detach, Detached

ATTACH, DETACH, DETACHED = "attach", "detach", "detached"
WORDS = {Attach: ATTACH, Detach: DETACH, Detached: DETACHED}
HEARD = {ATTACH: LinkInput.ATTACH, DETACH: LinkInput.DETACH, DETACHED: LinkInput.DETACHED}

# A frame: a word, or the greeting of a router that has come up on this link for the n-th time.
Frame: TypeAlias = str | int


@dataclass(frozen=True)
class End:
    """One end of the link: what it has to say, and what its router has heard since it came up on the link."""

    on_tree: bool = False
    ups: int = 0
    is_attached: bool = False
    greetings: tuple[int, ...] = ()
    said: tuple[Frame, ...] = ()

    def say(self, *frames: Frame) -> End:
        return replace(self, said=(*self.said, *frames))

    def up(self) -> End:
        return replace(self, ups=self.ups + 1, is_attached=True, greetings=()).say(self.ups + 1)

    def down(self) -> End:
        return replace(self, is_attached=False, greetings=())


@dataclass(frozen=True)
class Before:
    """A broker of the version before."""

    end: End = End()
    wanted: bool = False
    theirs: bool = False
    unanswered: int = 0

    def leaves_tree(self) -> Before:
        end = replace(self.end, on_tree=False)
        if not self.wanted:
            return replace(self, end=end)
        return Before(end.say(DETACH).down(), False, False, self.unanswered + 1)

    def quiet(self) -> Before:
        if self.wanted or not self.end.on_tree:
            return self
        return replace(self, end=self.end.say(ATTACH), wanted=True)._join()

    def hear(self, word: str) -> Before:
        if word == ATTACH:
            return self if self.unanswered or self.theirs else replace(self, theirs=True)._join()
        if word == DETACH:
            end = self.end.say(DETACHED).down()
            return replace(self, end=end.say(ATTACH) if self.wanted else end, theirs=False)
        return replace(self, unanswered=max(0, self.unanswered - 1))

    def _join(self) -> Before:
        return replace(self, end=self.end.up()) if self.wanted and self.theirs else self


@dataclass(frozen=True)
class Today:
    """A broker of today, by the table."""

    end: End = End()
    state: LinkState = LinkState.CONNECTED

    def leaves_tree(self) -> Today:
        return replace(self, end=replace(self.end, on_tree=False))._handle(LinkInput.UNWANTED)

    def quiet(self) -> Today:
        return self._handle(LinkInput.WANTED) if self.end.on_tree else self

    def hear(self, word: str) -> Today:
        return self._handle(HEARD[word])

    def _handle(self, given: LinkInput) -> Today:
        outcome = TABLE[self.state][given]
        assert not isinstance(outcome, Refused), f"{self.state} refuses {given}: {outcome.because}"
        if not isinstance(outcome, Move):
            return self
        end = self.end.say(*(WORDS[type(said)] for said in outcome.says))
        if outcome.to is LinkState.ATTACHED:
            end = end.up()
        elif self.state is LinkState.ATTACHED:
            end = end.down()
        return Today(end, outcome.to)


Broker: TypeAlias = Before | Today
Pair: TypeAlias = tuple[Broker, Broker]


def heard(sender: Broker, receiver: Broker) -> Pair:
    """Let the first frame that the sender has said arrive."""
    frame, *rest = sender.end.said
    sender = replace(sender, end=replace(sender.end, said=tuple(rest)))
    if isinstance(frame, str):
        return sender, receiver.hear(frame)
    if receiver.end.is_attached:
        end = replace(receiver.end, greetings=(*receiver.end.greetings, frame))
        receiver = replace(receiver, end=end)
    return sender, receiver


def next_pairs(pair: Pair) -> Iterator[Pair]:
    """Yield what can follow, apart from changes of the tree."""
    a, b = pair
    if a.end.said:
        yield heard(a, b)
    if b.end.said:
        yield heard(b, a)[::-1]
    yield a.quiet(), b
    yield a, b.quiet()


def changed(one: Broker) -> Broker:
    """Let a broker find that the link is on the tree, or no longer."""
    return one.leaves_tree() if one.end.on_tree else replace(one, end=replace(one.end, on_tree=True))


def check_rest(a: Broker, b: Broker) -> None:
    """Complain if two brokers that have heard everything do not agree."""
    both = a.end.on_tree and b.end.on_tree
    assert a.end.is_attached == b.end.is_attached == both
    if both:
        assert a.end.greetings == (b.end.ups,), (
            "what the other's router has said since it came up, and nothing else"
        )
        assert b.end.greetings == (a.end.ups,)


@pytest.mark.parametrize("pair", [(Before(), Today()), (Today(), Today())], ids=["before", "today"])
def test_all_orders_of_events(pair: Pair) -> None:
    changes = 6
    seen = {(pair, 0)}
    waiting = deque(seen)
    rests = 0
    while waiting:
        (a, b), count = waiting.popleft()
        found = [(one, count) for one in next_pairs((a, b))]
        if all(one == (a, b) for one, _ in found):
            check_rest(a, b)
            rests += 1
        if count < changes:
            found += [((changed(a), b), count + 1), ((a, changed(b)), count + 1)]
        for one in found:
            if one not in seen:
                seen.add(one)
                waiting.append(one)
    assert rests > 50
