"""The checker of trials notices what it must: scripts in which all is well, and then a mistake that is put in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from covey.broker.durable.delivery import Durable
from covey.broker.durable.log import LogClock
from covey.broker.durable.queues import Feed
from covey.broker.durable.repair import Repairs, say_lacking
from covey.core.families import parse
from covey.protocol.control import Recalled, Stored, Wanted
from covey.protocol.outbox import Outbox, Verdict
from covey.sim.broker_script import Script, draw
from covey.sim.broker_trial import BrokerTrial, Outcome
from covey.sim.disk import DiskLog
from covey.sim.promises import Event, Promises

Mistake = Callable[[pytest.MonkeyPatch], None]

TRUNCATED = """
seed 1
links
reader r1 at a
publisher p1 at a
0      leave r1
0      publish p1 2 confirmed
3      publish p1 3 confirmed
3      truncate a 1
0      restart a
0      rest
"""
LYING = """
seed 1
links a-b
reader r1 at a
publisher p1 at a
0      leave r1
0      lie a
1.2    publish p1 3 confirmed
3      power a
0      restart a
0      rest
"""
DEAF = """
seed 1
links a-b
window 3
reader r1 at b
publisher p1 at a
0      deaf r1
0      publish p1 5 confirmed
1.2    rest
"""
CROWDED = """
seed 1
links a-b
queue_events 10
policy drop-oldest
window 3
listener l1 at a
publisher p1 at a
0.3    stop-reading l1
0      publish p1 40 plain
1.2    rest
"""
JUMPED = """
seed 1
links a-b
0.3    jump b 2592000
3      rest
"""

FLIPPED = """
seed 1
links a-b
reader r1 at a
reader r2 at b
publisher p1 at a
0.3    leave r1
0      leave r2
0.3    publish p1 3 confirmed
3      flip b 0
0.3    come r2
0      rest
"""


def nobody_answers(patch: pytest.MonkeyPatch) -> None:
    def wanted(self: Repairs, link: str, wanted: Wanted) -> Iterator[Any]:
        return say_lacking(link, [(wanted.search, name) for name in wanted.names])

    patch.setattr(Repairs, "wanted", lambda self, link, said, now_s: wanted(self, link, said))


def mark_unread(patch: pytest.MonkeyPatch) -> None:
    right = DiskLog.open
    patch.setattr(DiskLog, "open", lambda self: right(self)._replace(warnings=(), missing=0))


def neighbours_unheard(patch: pytest.MonkeyPatch) -> None:
    right = Durable._stored

    def stored(self: Durable, link: str, said: Stored, now_s: float) -> Iterator[Any]:
        return iter(()) if isinstance(said, Recalled) else right(self, link, said, now_s)

    patch.setattr(Durable, "_stored", stored)


def window_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Feed, "_has_room", lambda self: True)


def bounds_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Outbox, "_make_room", lambda self, chunk, count: Verdict.TAKEN)


def jumps_unsaid(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogClock, "jumped", lambda self, now_s, wall_s: 0.0)


def run(text: str) -> Outcome:
    return BrokerTrial(Script.parse(text)).run()


@pytest.mark.parametrize(
    ("text", "mistake", "said"),
    [
        (TRUNCATED, mark_unread, "damage is said: a has said nothing of the end that its disk has lost"),
        (LYING, neighbours_unheard, "damage is said: a has said nothing of the end that its disk has lost"),
        (DEAF, window_ignored, "window: r1 at b (queue) has 4 deliveries under way, and may have 3"),
        (CROWDED, bounds_ignored, "memory: "),
        (JUMPED, jumps_unsaid, "clock: b has not said that its clock has jumped"),
        (FLIPPED, nobody_answers, "lost: b has given up the event 1, of which a has a good copy"),
    ],
    ids=["truncated", "lying", "window", "bounds", "clock", "flipped"],
)
def test_a_mistake_is_noticed(
    text: str, mistake: Mistake, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(text).findings == ()
    mistake(monkeypatch)
    findings = run(text).findings
    assert findings
    assert findings[0].startswith(said)


@pytest.mark.parametrize(
    ("sendings", "names", "is_in_order"),
    [
        (1, [(7, 1), (7, 2)], True),
        (1, [(7, 2), (7, 1)], False),
        (1, [(8, 2), (7, 1)], False),  # in the order of connections too
        (2, [(7, 2), (8, 1), (8, 2)], True),  # the first was refused when it was sent first
        (2, [(7, 2), (8, 2), (8, 1)], False),
        (2, [(7, 2), (7, 1), (8, 1), (8, 2)], False),
    ],
)
def test_order_is_that_in_which_events_were_sent(
    sendings: int, names: list[tuple[int, int]], is_in_order: bool
) -> None:
    promises = Promises()
    wanted = promises.asked("r", parse("n >= 0"), "a", is_durable=True)
    promises.granted(wanted)
    for number in (1, 2):
        event = Event(number, "p", {"n": number}, b"", confirm=True, confirmed=True)
        promises.published(event)
        for _ in range(sendings):
            promises.sent(event, "a", "")
    for position, name in enumerate(names):
        promises.delivered(wanted, name[1], {"n": name[1]}, b"", name, 1.0, position=position)
    promises.check_confirmed(wanted)
    assert [finding.partition(":")[0] for finding in promises.findings] == ["order"] * (not is_in_order)


@pytest.mark.parametrize(
    ("facts", "findings"),
    [
        (["destroyed", "said"], []),
        (["destroyed"], ["damage is said"]),
        (["destroyed", "said", "taken"], ["lost"]),
        (["destroyed", "taken", "said"], ["lost"]),
        (["destroyed", "taken", "destroyed", "said"], []),
        (["taken", "destroyed", "said"], []),
    ],
)
def test_a_broker_that_says_that_it_has_an_event_has_no_excuse_of_before(
    facts: list[str], findings: list[str]
) -> None:
    promises = Promises()
    wanted = promises.asked("r", parse("n >= 0"), "a", is_durable=True)
    promises.granted(wanted)
    event = Event(1, "p", {"n": 1}, b"", confirm=True, confirmed=True)
    promises.published(event)
    promises.sent(event, "a", "")
    for fact in facts:
        match fact:
            case "destroyed":
                promises.destroyed("a", [1])
            case "said":
                promises.said_damage("a")
            case "taken":
                promises.taken("a", 1)
    promises.check_confirmed(wanted)
    assert [finding.partition(":")[0] for finding in promises.findings] == findings


def test_what_nobody_can_know_may_be_silent() -> None:
    """A disk that lies takes all that it had said, and there is no neighbour that was told."""
    alone = run(LYING.replace("links a-b", "links"))
    assert alone.findings == ()
    assert alone.faults == {"leave": 1, "lie": 1, "power": 1}
    late = run(TRUNCATED.replace("3      truncate", "0.3    truncate"))  # the mark is a second behind
    assert late.findings == ()


def test_a_torn_write_is_left_out() -> None:
    outcome = run(
        "seed 1\nlinks a-b\nreader r1 at b\npublisher p1 at a\n0 tear a 1\n0 publish p1 3 confirmed\n0.3 restart a"
    )
    assert outcome.findings == ()
    assert outcome.faults == {"tear": 1, "torn write": 1}


def test_seeds_draw_every_kind_of_fault() -> None:
    drawn = {step.name for seed in range(300) for step in draw(seed).steps}
    assert {"lie", "truncate", "tear", "power", "flip", "full", "fail", "jump", "hang", "deafen"} <= drawn
    days = {step.words[1] for seed in range(300) for step in draw(seed).steps if step.name == "jump"}
    assert {"2592000.0", "-2592000.0"} <= days
    assert any(draw(seed).queue_events for seed in range(100))
