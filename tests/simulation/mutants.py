"""Known bugs put back: each is put into today's brokers, and trials of whole brokers must find it.

They are the measure of the simulator: what no trial finds when it is there, no trial would find when it comes back.
Each *mutant* is a bug that a broker had once, or of the kind that was found, as a patch as small as can be. It is found
by a seed if the trial of that seed finds something with the patch, and nothing without it.

    python -m tests.simulation.mutants                      all, each with the first seed that finds it
    python -m tests.simulation.mutants --mutant NAME        one of them; can be said again
    python -m tests.simulation.mutants --store              beside that, store a small script that finds it
    python -m tests.simulation.mutants --json               as JSON, a line a mutant

`mutants.txt` has a short script for each, with which the default suite shows that it is found; a script stays what it
is when the drawing of seeds changes. The table of docs/reliability.md is what this prints.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest import mock

import msgspec

from covey.broker import plans
from covey.broker.actions import Actions, Say
from covey.broker.core import BrokerCore, Peer
from covey.broker.durable.completeness import Completeness, Interest
from covey.broker.durable.delivery import Durable, Outboxes, Senders
from covey.broker.durable.log import LogClock
from covey.broker.durable.queues import (
    DurableSubscriptions,
    Feed,
    Tickets,
)
from covey.broker.durable.repair import Repairs
from covey.broker.neighbours import Neighbour, Neighbours
from covey.broker.plans import Epochs, Plans
from covey.broker.sessions import Sessions
from covey.routing import digest
from covey.sim import brokers
from covey.sim.broker_script import Script, draw
from covey.sim.broker_trial import BrokerTrial, shrink
from covey.sim.disk import Waiting

MOST: Final = 2_000  # seeds within which each is to be found
LONGEST_S: Final = 600.0  # that a network with a bug may take to come to rest; others take a minute or two
SCRIPTS: Final = Path(__file__).with_name("mutants.txt")

Patch: TypeAlias = Callable[[object, str, object], object]  # of an owner, its attribute's name, another value


@dataclass(frozen=True)
class Mutant:
    """A bug. It shows only in scripts that have one of the steps that it `needs`; without any, every seed is tried."""

    name: str
    was: str
    put_back: Callable[[Patch], None]
    needs: frozenset[str] = frozenset()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Have the bug, for a while."""
        with ExitStack() as stack, mock.patch.object(brokers, "LONGEST_S", LONGEST_S):
            self.put_back(
                lambda owner, name, value: stack.enter_context(mock.patch.object(owner, name, value))
            )
            yield

    def findings(self, script: Script) -> tuple[str, ...]:
        """Return what a trial finds with the bug."""
        with self.in_place():
            return BrokerTrial(script).run().findings

    def can_show(self, script: Script) -> bool:
        """Return whether a script has a step without which the bug does nothing."""
        return not self.needs or any(step.name in self.needs for step in script.steps)


MUTANTS: Final[dict[str, Mutant]] = {}


def mutant(name: str, *needs: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register a bug under a name; what its function says of itself is what it was."""

    def register(put_back: Callable[[Patch], None]) -> Callable[[Patch], None]:
        assert put_back.__doc__ is not None, "a mutant says what it was"
        MUTANTS[name] = Mutant(name, put_back.__doc__, put_back, frozenset(needs))
        return put_back

    return register


def _nothing(*_: object) -> Actions:
    return iter(())


def _yes(*_: object) -> bool:
    return True


# -- whether tables are complete ---------------------------------------------------------------------------------

_FAILS: Final = ("kill", "power", "hang", "cut", "reset", "silence", "deafen", "stall", "half-close", "drain")


@mutant("lost-advertisement", *_FAILS)
def _(patch: Patch) -> None:
    """The end of a link answered what was advertised over it: the neighbour was not stale, and its events were lost."""

    def link_lost(self: Completeness, link: str) -> Iterator[Any]:
        self._of(link).unanswered.clear()
        return iter(())

    patch(Completeness, "link_lost", link_lost)


@mutant("advertised-to-nobody", *_FAILS)
def _(patch: Patch) -> None:
    """What was advertised while a neighbour was away left its table whole."""
    right = Completeness.advertised

    def advertised(self: Completeness, link: str, key: Any, filter: Any, number: int) -> Iterator[Any]:
        return right(self, link, key, filter, number) if number else iter(())

    patch(Completeness, "advertised", advertised)


@mutant("whole-too-early", *_FAILS)
def _(patch: Patch) -> None:
    """A table was complete once neighbours had told their own subscriptions, without those from behind them."""

    def lacking(self: Completeness) -> set[str]:
        return {link for link in self.expected if not self.has_synchronised(link)}

    patch(Completeness, "_lacking", lacking)


@mutant("whole-over-a-break", *_FAILS)
def _(patch: Patch) -> None:
    """A neighbour whose link came up again counted as whole while its table was withdrawn and learned anew."""

    def link_up(self: Completeness, link: str) -> Iterator[Any]:
        if self.interest(link) is Interest.UNKNOWN:
            yield from self._update()

    patch(Completeness, "link_up", link_up)


@mutant("new-advertisement-trusted", "advertise")
def _(patch: Patch) -> None:
    """An event went by the table while the subscriptions that its new advertisement attracts were on their way."""
    patch(Completeness, "is_answered", lambda self, event: True)


@mutant("advertised-anew", "unadvertise")
def _(patch: Patch) -> None:
    """An event that waited on its way went by the table although its publisher had advertised it anew meanwhile."""
    right = Outboxes.is_complete

    def is_complete(self: Outboxes, publish: Any, source: str, is_client: bool) -> bool:
        is_answered = self.completeness.is_answered if is_client else _yes
        with mock.patch.object(self.completeness, "is_answered", is_answered):
            return right(self, publish, source, is_client)

    patch(Outboxes, "is_complete", is_complete)


# -- the disk ----------------------------------------------------------------------------------------------------


@mutant("acknowledged-before-committed", "kill", "power", "full", "fail")
def _(patch: Patch) -> None:
    """A confirmed event was acknowledged to its sender before the disk had it."""
    right = Durable._keep

    def keep(self: Durable, arrived: Any, now_s: float) -> Actions:
        yield from right(self, arrived, now_s)
        yield from self._senders.took(arrived.source, arrived.name)

    patch(Durable, "_keep", keep)


@mutant("failed-write-confirmed", "full", "fail")
def _(patch: Patch) -> None:
    """Events of a batch that the disk could not write were confirmed as if it could."""
    patch(Durable, "_not_kept", lambda self, arrived, error: self._kept(arrived, 0.0))


@mutant("checksum-unread", "flip")
def _(patch: Patch) -> None:
    """The checksum of an event was not looked at when the event was read: damage was delivered as good."""
    patch(Waiting, "is_damaged", False)


@mutant("mark-unread", "power", "truncate")
def _(patch: Patch) -> None:
    """A store whose end was missing was opened as if that were all that there had ever been."""
    right, say = Durable.__init__, Durable._incomplete

    def init(self: Durable, epochs: Any, recovered: Any, *rest: Any, **named: Any) -> None:
        right(self, epochs, recovered._replace(missing=0, warnings=()), *rest, **named)

    def incomplete(self: Durable, *rest: Any) -> Say:
        return msgspec.structs.replace(say(self, *rest), level=logging.DEBUG)

    patch(Durable, "__init__", init)
    patch(Durable, "_incomplete", incomplete)


@mutant("damage-unsaid", "flip")
def _(patch: Patch) -> None:
    """A damaged event was left out without a word to anybody."""
    right = Tickets.say_damage
    patch(Tickets, "say_damage", lambda self, level, *rest: right(self, logging.DEBUG, *rest))


@mutant("taken-by-name", "flip")
def _(patch: Patch) -> None:
    """A neighbour that sent an event again was told TAKEN because of its name, though the copy here was damaged."""
    right = Durable._again

    def again(self: Durable, repeat: Any, now_s: float) -> Actions:
        if isinstance(self._names[repeat.name], int):
            yield from self._senders.took(repeat.source, repeat.name)
        else:
            yield from right(self, repeat, now_s)

    patch(Durable, "_again", again)


@mutant("lost-but-taken", "flip")
def _(patch: Patch) -> None:
    """An event that its broker had given up for lost was not taken when a neighbour had it after all."""
    patch(Durable, "_event_lost", lambda self, damaged: ())


@mutant("copy-of-another", "flip")
def _(patch: Patch) -> None:
    """The first copy that a neighbour sent took the place of all damaged events for which copies were looked for."""

    def copied(self: Repairs, name: Any, frame: bytes, now_s: float) -> Actions:
        for key in list(self._searches):
            yield from self._end(key, frame, now_s)

    patch(Repairs, "copied", copied)


@mutant("age-by-wall-clock", "jump")
def _(patch: Patch) -> None:
    """Events grew old by the clock on the wall: one that was set forward deleted all that waited."""
    right = LogClock.jumped

    def jumped(self: LogClock, now_s: float, wall_s: float) -> float:
        self._ahead_s = wall_s - now_s
        return right(self, now_s, wall_s)

    patch(LogClock, "jumped", jumped)


@mutant("full-for-ever", "full", "fail")
def _(patch: Patch) -> None:
    """A disk that had once been full was never asked again whether it had room."""
    right = Durable._retry

    def retry(self: Durable, now_s: float) -> Actions:
        return iter(()) if self._is_failing else right(self, now_s)

    patch(Durable, "_retry", retry)


@mutant("overtaken-on-a-full-disk", "full", "fail")
def _(patch: Patch) -> None:
    """An event that a full disk had refused waited behind those that had arrived after it."""

    def wait(self: Durable, arrived: Any) -> Actions:
        self._rooms.setdefault(arrived.source, []).append(arrived)
        return iter(())

    patch(Durable, "_wait", wait)


@mutant("second-sender-forgotten", "full", "fail")
def _(patch: Patch) -> None:
    """Of two neighbours whose event a full disk could not keep, the second never heard what had become of it."""
    patch(Senders, "lost", lambda self, name: self._again.pop(name, []) and [])


@mutant("names-forgotten", "kill", "power", "drain")
def _(patch: Patch) -> None:
    """A broker that restarted did not know which events it had taken, and took them again."""
    right = Durable.load

    def load(self: Durable) -> Actions:
        yield from right(self)
        self._names.clear()

    patch(Durable, "load", load)


# -- queues and durable subscriptions ----------------------------------------------------------------------------


@mutant("unwritten-subscription-granted", "full", "fail")
def _(patch: Patch) -> None:
    """A durable subscription that the disk could not write was answered as done."""
    right = DurableSubscriptions._begin
    patch(
        DurableSubscriptions, "_begin", lambda self, attachment, who, error=None: right(self, attachment, who)
    )


@mutant("taken-over-not-ended", "takeover", "refilter")
def _(patch: Patch) -> None:
    """The end of a connection from which another one had taken over ended the delivery to the other one."""
    right = DurableSubscriptions.client_gone

    def client_gone(self: DurableSubscriptions, link: str) -> None:
        for attachment in self._attachments.get(link, {}).values():
            attachment.subscription.feed.detach()
        right(self, link)

    patch(DurableSubscriptions, "client_gone", client_gone)


@mutant("taken-over-still-served", "takeover", "refilter")
def _(patch: Patch) -> None:
    """A connection from which another one had taken over went on receiving."""
    right = DurableSubscriptions._begin

    def begin(self: DurableSubscriptions, attachment: Any, who: Any, error: Any = None) -> Actions:
        first = attachment.subscription.attachments[0]
        attachment.link, attachment.sid = first.link, first.sid
        yield from right(self, attachment, who, error)

    patch(DurableSubscriptions, "_begin", begin)


@mutant("not-sent-again")
def _(patch: Patch) -> None:
    """What a consumer had not acknowledged when its connection broke was not sent on the next one."""
    right = Feed.detach

    def detach(self: Feed) -> None:
        cursor = self._cursor
        right(self)
        self._cursor = self._read_to = cursor

    patch(Feed, "detach", detach)


@mutant("new-before-old")
def _(patch: Patch) -> None:
    """A new event was sent at once while earlier ones waited on the disk to be read."""

    def offer(self: Feed, position: int, frame: bytes, now_s: float) -> Actions:
        if self._transmit is not None and position > self._read_to:
            if self._has_room():
                yield self._transmit(position, frame)
            self._is_behind = True

    patch(Feed, "offer", offer)


@mutant("outbox-ends-with-its-link", *_FAILS)
def _(patch: Patch) -> None:
    """What waited for a neighbour was dropped when its link was lost."""
    right = Neighbours._expected

    def expected(self: Neighbours) -> Any:
        return msgspec.structs.replace(right(self), neighbours=tuple(self.connected))

    patch(Neighbours, "_expected", expected)


# -- permissions -------------------------------------------------------------------------------------------------


@mutant("permission-read-once", "allow")
def _(patch: Patch) -> None:
    """A client kept the permissions that it had come with: what was cut did not concern it until it came again."""
    patch(Sessions, "revoke", _nothing)


@mutant("durable-outlives-its-permission", "allow")
def _(patch: Patch) -> None:
    """A durable subscription went on receiving what its owner might not have any longer, and its queue stayed."""
    patch(BrokerCore, "_revoke_durable", lambda self: None)


# -- links -------------------------------------------------------------------------------------------------------


@mutant("link-incarnation-ignored", *_FAILS)
def _(patch: Patch) -> None:
    """The end of an earlier connection to a neighbour was taken for that of the present one."""
    right = BrokerCore._leave

    def leave(self: BrokerCore, peer: Peer, reason: str) -> None:
        who = peer.who
        right(self, peer, reason)
        if isinstance(who, Neighbour):
            peer.who = who
            if who.connection is not None:
                self.perform(self.neighbours.disconnected(who.link, self.now.monotonic_s))

    patch(BrokerCore, "_leave", leave)


@mutant("twice-round-a-circle", "stall")
def _(patch: Patch) -> None:
    """Routers did not remember events: while the tree of a redundant network changed, one came twice to someone."""
    patch(Epochs, "remember_events", lambda self: None)


@mutant("memory-trusted", *_FAILS)
def _(patch: Patch) -> None:
    """When a link came up again, what was remembered of the neighbour's table was taken for true."""

    def unchanged(remembered: Any, buckets: int, changed: Any) -> Any:
        yield 0
        return list(remembered)

    patch(digest, "unchanged", unchanged)


# -- plans -------------------------------------------------------------------------------------------------------


@mutant("plan-count-never-freed", "install")
def _(patch: Patch) -> None:
    """Epochs of an installation whose broker was killed were never retired: then no plan could be installed."""
    right = Plans.tick

    def tick(self: Plans, now_s: float) -> Actions:
        if self.installation is not None and self.installation.is_under_way:
            yield from right(self, now_s)

    patch(Plans, "tick", tick)
    patch(Plans, "_is_left", lambda self, now_s: False)


@mutant("no-plan-is-a-plan", "install", "none")
def _(patch: Patch) -> None:
    """Each return to no plan made an epoch of its own, which was never retired."""
    patch(plans, "overlay_epoch", lambda state: None)
    patch(
        plans,
        "idle_epochs",
        lambda state: {epoch for epoch, plan in state.plans.items() if plan and epoch != state.current},
    )


@mutant("ready-said-once", "install")
def _(patch: Patch) -> None:
    """A broker said once that it was ready for a plan: if a link was down at that moment, the installation failed."""
    right = Plans.connected

    def connected(self: Plans, link: str, pieces: bool) -> Actions:
        ready, self._ready = self._ready, set()
        yield from right(self, link, pieces)
        self._ready = ready

    patch(Plans, "connected", connected)


# -- stored scripts ----------------------------------------------------------------------------------------------


def stored_scripts() -> dict[str, Script]:
    """Return the script of each mutant that is stored: its name after `mutant`, and the script's lines."""
    parts = SCRIPTS.read_text(encoding="utf-8").split("mutant ")[1:]
    return {name: Script.parse(script) for name, _, script in (part.partition("\n") for part in parts)}


def store_script(name: str, script: Script) -> None:
    """Store the script of a mutant in place of the one before; the file has them in the order of `MUTANTS`."""
    scripts = {**(stored_scripts() if SCRIPTS.exists() else {}), name: script}
    text = "\n".join(f"mutant {one}\n{scripts[one]}\n" for one in MUTANTS if one in scripts)
    SCRIPTS.write_text(text, encoding="utf-8")


def is_shown(one: Mutant) -> bool:
    """Return whether the stored script of a mutant finds something with it, and nothing without it."""
    script = stored_scripts().get(one.name) if SCRIPTS.exists() else None
    return script is not None and bool(one.findings(script)) and not BrokerTrial(script).run().findings


# -- the search --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """The first seed whose trial finds a mutant, None if there is none, and what it finds."""

    mutant: Mutant
    seed: int | None
    finding: str = ""

    @property
    def seeds(self) -> int | None:
        """How many seeds were needed."""
        return None if self.seed is None else self.seed + 1

    @property
    def row(self) -> str:
        """A row of the table of docs/reliability.md."""
        kind = self.finding.partition(":")[0]
        seeds = "not found" if self.seeds is None else f"{self.seeds:,}"
        return f"| `{self.mutant.name}` | {self.mutant.was} | {seeds} | {kind} |"


def search(one: Mutant, most: int = MOST, first: int = 0) -> Found:
    """Try one seed after the other, until a trial finds a mutant that finds nothing without it."""
    for seed in range(first, most):
        script = draw(seed)
        if one.can_show(script):
            findings = one.findings(script)
            if findings and not BrokerTrial(script).run().findings:
                return Found(one, seed, findings[0])
    return Found(one, None)


def smallest(one: Mutant, script: Script, budget: int = 150) -> Script:
    """Return a small script that breaks the same promise with a mutant."""
    with one.in_place():
        return shrink(BrokerTrial(script), budget).script


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, print a table, and return 1 if a mutant is not found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.mutants", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--mutant", action="append", choices=MUTANTS, metavar="NAME", help="only this one")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--most", type=int, default=MOST, help=f"seeds for each (default {MOST:,})")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each")
    parser.add_argument(
        "--store", action="store_true", help=f"have a small script for each in {SCRIPTS.name}"
    )
    options = parser.parse_args(arguments)
    missing = 0
    if not options.json:
        print("| mutant | what it was | seeds | finding |\n|---|---|---:|---|")
    for name in options.mutant or MUTANTS:
        found = search(MUTANTS[name], options.most, options.first)
        missing += found.seed is None
        if options.json:
            print(json.dumps({"mutant": name, "seeds": found.seeds, "finding": found.finding}), flush=True)
        else:
            print(found.row, flush=True)
        if options.store and found.seed is not None and not is_shown(found.mutant):
            store_script(name, smallest(found.mutant, draw(found.seed)))
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
