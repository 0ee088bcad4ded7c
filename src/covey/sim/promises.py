"""What a network promises its clients, and a checker that judges by what they saw.

The checker is told facts, in the order in which they happen: what clients ask for and publish, what they are answered,
what is delivered to them, what they may do, and which disks destroyed what. It knows filters and nothing of brokers.
The promises (`docs/delivery.md`, `docs/reliability.md`):

    nothing lost      a durable subscription in force gets every event that matches it and was confirmed
    nothing altered   content and payload are those that were published
    order             a durable subscription gets the confirmed events of one publisher at one broker in their order,
                      repetitions left aside
    asked for         nobody gets what it did not ask for; only a durable subscription gets an event again, and then
                      with the position that it had, unless its broker has given it up for lost
    allowed           nothing is delivered or accepted that the permissions of the moment forbid
    exact             while nothing fails, every subscription gets every matching event, an ordinary one once
    damage is said    what a disk has destroyed may be lost, if the broker has said so, and has not said after that, to
                      whoever has sent it, that it has it: that one may have dropped the last good copy
    window            a connection has no more deliveries to acknowledge than the window allows; one whose event was
                      damaged since, and is lost as its broker has said, is none of them

A subscription is *in force* for all events once its client was told so while nothing failed, and for events that are
published at its own broker once it was granted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from covey.core.filter import Filter

NEVER: Final = 1 << 60  # later than any fact
ANY: Final = 0  # connection of a publisher; the number of none


@dataclass(eq=False)
class Event:
    """An event that a client was told to publish. `made` is when, counted in facts."""

    number: int
    publisher: str
    content: Any
    payload: bytes
    confirm: bool
    made: int = 0
    brokers: list[str] = field(default_factory=list)  # to which it was sent
    confirmed: bool = False
    refused: bool = False
    is_forbidden: bool = False  # its publisher was not allowed to publish it whenever it sent it


@dataclass(eq=False)
class Wanted:
    """A subscription, as the checker knows it: a durable one over all its connections."""

    title: str
    filter: Filter
    broker: str
    user: str
    is_durable: bool
    in_force: int = NEVER  # since when, for all events
    in_force_here: int = NEVER  # for events that are published at its broker
    is_over: bool = False  # it is owed nothing any longer
    last_s: float = inf  # after which nothing may come
    before: list[Filter] = field(
        default_factory=list
    )  # filters that it had: what was stored then may still come
    got: dict[int, int] = field(
        default_factory=dict
    )  # how often, by number, in the order of the first deliveries
    names: Counter[tuple[int, int]] = field(default_factory=Counter)
    numbers: dict[tuple[int, int], int] = field(
        default_factory=dict
    )  # by name, in the order of the first deliveries of each
    positions: dict[tuple[int, int], int] = field(default_factory=dict)  # in its queue, by name of the event

    @property
    def is_granted(self) -> bool:
        """Whether its broker has granted it, and it has not ended."""
        return self.in_force_here != NEVER and not self.is_over

    def asks_for(self, content: Any) -> bool:
        """Return whether it asks for an event, or did so once."""
        return self.filter.matches(content) or any(one.matches(content) for one in self.before)


@dataclass(frozen=True)
class Rights:
    """What a user may do at a broker; None is everything."""

    subscribe: Filter | None = None
    publish: Filter | None = None


EVERYTHING: Final = Rights()


class Promises:
    """The checker; see the module's text."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.events: dict[int, Event] = {}
        self.wanted: list[Wanted] = []
        self._facts = 0
        self._rights: dict[tuple[str, str], Rights] = {}
        self._due: list[tuple[Event, list[Wanted]]] = []  # events that must come, as long as nothing fails
        self._destroyed: dict[int, set[str]] = {}  # brokers whose disks have destroyed an event
        self._given_up: set[tuple[str, tuple[int, int]]] = set()  # by broker and name
        self._once_destroyed: set[int] = (
            set()
        )  # events that may come late, as those behind them do not wait for ever
        # Events whose destruction was said, or that nobody can know of: with the brokers whose disks have done it.
        self._excused: dict[int, set[str]] = {}
        self._must_say: set[str] = set()  # brokers whose disks have lost their ends
        self.is_rolled_back = False

    def _fact(self) -> int:
        self._facts += 1
        return self._facts

    def _find(self, text: str) -> None:
        self.findings.append(text)

    # -- what clients do, and are answered -------------------------------------------------------------------

    def published(self, event: Event) -> None:
        """A client publishes an event, and sends it now or later."""
        event.made = self._fact()
        self.events[event.number] = event

    def owed(self, event: Event) -> None:
        """An event that has just been sent must come: nothing fails, and what its publisher announced is in force."""
        self._due.append((event, [one for one in self.wanted if self._is_owed(one, event)]))

    def _is_owed(self, one: Wanted, event: Event) -> bool:
        """Return whether a subscription was in force for an event when it was made."""
        is_here = all(broker == one.broker for broker in event.brokers)
        since = min(one.in_force, one.in_force_here if is_here else NEVER)
        return not one.is_over and since < event.made and one.filter.matches(event.content)

    def check_window(self, one: Wanted, unacknowledged: int, window: int) -> None:
        """A connection has so many deliveries that it has not acknowledged."""
        if unacknowledged > window:
            self._find(
                f"window: {one.title} has {unacknowledged} deliveries under way, and may have {window}"
            )

    def asked(
        self, title: str, filter: Filter, broker: str, user: str = "", *, is_durable: bool = False
    ) -> Wanted:
        """A client asks for something; it is not granted yet."""
        one = Wanted(title, filter, broker, user, is_durable)
        self.wanted.append(one)
        return one

    def granted(self, one: Wanted) -> None:
        """A broker has granted a subscription."""
        one.in_force_here = min(one.in_force_here, self._fact())

    def flushed(self, one: Wanted) -> None:
        """A client was told, while nothing failed, that its subscription is in force everywhere."""
        if one.is_granted:
            one.in_force = min(one.in_force, self._fact())

    def changed(self, one: Wanted, filter: Filter) -> None:
        """A client asks for something else under the name of a durable subscription."""
        one.before.append(one.filter)
        one.filter = filter
        one.in_force = one.in_force_here = NEVER
        self.disturbed()

    def ended(self, one: Wanted, last_s: float = inf) -> None:
        """A subscription is cancelled or revoked: nothing is owed to it, and nothing may come after a time."""
        one.is_over, one.last_s = True, min(one.last_s, last_s)

    def disturbed(self) -> None:
        """Something fails: events that are under way need not reach ordinary subscriptions."""
        self._due.clear()

    # -- permissions -----------------------------------------------------------------------------------------

    def rights(self, broker: str, user: str) -> Rights:
        """Return what a user may do at a broker."""
        return self._rights.get((broker, user), EVERYTHING)

    def permitted(self, broker: str, user: str, rights: Rights) -> list[Wanted]:
        """Other permissions are in force from now on; return the subscriptions that they forbid."""
        self._rights[broker, user] = rights
        for event in self.events.values():  # some may be under way, and are judged when they arrive
            if event.is_forbidden and event.publisher == user and broker in event.brokers:
                event.is_forbidden = rights.publish is not None and not rights.publish.matches(event.content)
        return [
            one
            for one in self.wanted
            if not one.is_over and (one.broker, one.user) == (broker, user) and not self.may_have(one)
        ]

    def may_have(self, one: Wanted) -> bool:
        """Return whether a subscription is allowed."""
        allowed = self.rights(one.broker, one.user).subscribe
        return allowed is None or allowed.covers(one.filter)

    def sent(self, event: Event, broker: str, user: str) -> None:
        """An event was sent to a broker, for the first time or again."""
        allowed = self.rights(broker, user).publish
        is_forbidden = allowed is not None and not allowed.matches(event.content)
        event.is_forbidden = is_forbidden and (event.is_forbidden or not event.brokers)
        event.brokers.append(broker)

    # -- disks -----------------------------------------------------------------------------------------------

    def destroyed(self, broker: str, numbers: Iterable[int], *, can_be_known: bool = True) -> None:
        """A broker's disk has destroyed events that it had; `can_be_known`: so that somebody can notice it."""
        for number in numbers:
            known = self._destroyed if can_be_known else self._excused
            known.setdefault(number, set()).add(broker)
            self._once_destroyed.add(number)

    def taken(self, broker: str, number: int) -> None:
        """A broker says to whoever has sent it an event that it has it: what its disk destroyed before is no excuse."""
        for known in (self._destroyed, self._excused):
            if broker in known.get(number, ()):
                known[number].remove(broker)
                if not known[number]:
                    del known[number]

    def given_up(self, broker: str, name: tuple[int, int]) -> None:
        """A broker has said that an event is lost: if it arrives once more, it is a new one there."""
        self._given_up.add((broker, name))

    def given_up_in_vain(self, broker: str, number: int, holder: str) -> None:
        """A broker has given up an event of which another one had a copy, and nothing was between them."""
        self._find(f"lost: {broker} has given up the event {number}, of which {holder} has a good copy")

    def lost_end(self, broker: str) -> None:
        """A disk has lost its end, and somebody knows: the broker must say so, whatever was in it."""
        self._must_say.add(broker)

    def excuse(self, broker: str) -> None:
        """Nobody is left who knows what a broker's disk has lost."""
        self._must_say.discard(broker)
        for number, brokers in self._destroyed.items():
            if broker in brokers:
                self._excused.setdefault(number, set()).add(broker)

    def rolled_back(self) -> None:
        """A disk has forgotten what it had; so a broker may not recognise an event that it had."""
        self.is_rolled_back = True

    def said_damage(self, broker: str) -> None:
        """A broker has said that something on its disk is damaged or missing."""
        self.excuse(broker)

    def check_said(self) -> None:
        """Nothing fails any longer: see whether every broker whose disk has lost its end has said so."""
        for broker in sorted(self._must_say):
            self._find(f"damage is said: {broker} has said nothing of the end that its disk has lost")

    # -- what clients get ------------------------------------------------------------------------------------

    def delivered(
        self,
        one: Wanted,
        number: int,
        content: Any,
        payload: bytes,
        name: tuple[int, int],
        now_s: float,
        last_s: float = inf,
        position: int | None = None,
    ) -> None:
        """A subscription gets an event; on this connection nothing may come after `last_s`."""
        event = self.events.get(number)
        if event is None or content != event.content or payload != event.payload:
            self._find(f"altered: {one.title} got {content!r} with {payload!r}, which nobody published")
            return
        if not one.asks_for(content):
            self._find(f"asked for: {one.title} got {content!r}, and asks for {one.filter}")
        if now_s > min(one.last_s, last_s):
            self._find(f"allowed: {one.title} got {content!r} after it was taken from it")
        if event.is_forbidden:
            self._find(f"allowed: {one.title} got {content!r}, which {event.publisher} may not publish")
        one.names[name] += 1
        one.got[number] = one.got.get(number, 0) + 1
        one.numbers.setdefault(name, number)
        if self.is_rolled_back:
            return
        if one.is_durable:
            before = one.positions.setdefault(name, -1 if position is None else position)
            if before != position and (one.broker, name) not in self._given_up:
                self._find(f"asked for: {one.title} got {content!r} at {position}, and had it at {before}")
            return
        # A confirmed event that its publisher has sent again has another name.
        if one.names[name] > 1 or (one.got[number] > 1 and not event.confirm):
            self._find(f"asked for: {one.title} got {content!r} twice")

    # -- what must be true at rest ---------------------------------------------------------------------------

    def check_exact(self, away: Set[Wanted] = frozenset(), held_up: Set[int] = frozenset()) -> None:
        """All that was published has arrived: see whether nothing is missing where nothing has failed.

        What those get that are away is seen when they are back, and events that a full store holds up come when it has
        room.
        """
        for event, wanted in self._due:
            if event.refused or event.number in held_up:
                continue
            is_spared = event.number in self._destroyed or event.number in self._excused
            for one in wanted:
                is_due = not one.is_over and one not in away and not (one.is_durable and is_spared)
                if is_due and not one.got.get(event.number):
                    self._find(f"exact: {one.title} missed {event.content!r} of {event.publisher}")
        self._due.clear()

    def check_confirmed(self, one: Wanted, held_up: Set[int] = frozenset()) -> None:
        """All that waits for a durable subscription has been read: see whether it is all that it must be.

        Events that a full store holds up come when it has room.
        """
        for event in self.events.values():
            if not event.confirmed or one.got.get(event.number) or not self._is_owed(one, event):
                continue
            if event.number in self._excused or event.number in held_up:
                continue
            how = "damage is said" if event.number in self._destroyed else "lost"
            self._find(f"{how}: {one.title} missed {event.content!r}, confirmed to {event.publisher}")
        self._check_order(one)

    def _check_order(self, one: Wanted) -> None:
        """See whether what was sent on each connection of a publisher came in order, and what was sent once on any.

        Of events that were sent again, some may have come from when they were sent first: others were refused then,
        which their publisher did not hear, or not asked for yet.
        """
        last: dict[tuple[str, str, int], int] = {}
        for (connection, _), number in one.numbers.items():
            event = self.events[number]
            if number in self._once_destroyed or not event.confirmed or event.refused:
                continue  # one that was destroyed comes when its publisher sends it again
            if len(set(event.brokers)) == 1:
                for part in (connection, ANY) if len(event.brokers) == 1 else (connection,):
                    who = event.publisher, event.brokers[0], part
                    if number < last.get(who, 0):
                        self._find(f"order: {one.title} got {event.content!r} of {who[0]} after {last[who]}")
                        break
                    last[who] = number

    def check_answered(self) -> None:
        """Nothing fails any longer: see whether everybody was told what became of its confirmed events."""
        for event in self.events.values():
            if event.is_forbidden and event.confirmed:
                self._find(
                    f"allowed: {event.content!r} was confirmed, and {event.publisher} may not publish it"
                )
            if event.confirm and not (event.confirmed or event.refused):
                self._find(f"healed: {event.publisher} was never told what became of {event.content!r}")
