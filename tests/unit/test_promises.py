"""The checker of promises complains about every way in which they can be broken, and about nothing else."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from tests.e2e.helpers.promises import PLAIN, Promises, Received


class Event(NamedTuple):
    """An event as a subscriber gets it."""

    content: dict[str, Any]
    data: bytes


def prepared(filter: str = "n > 0", is_durable: bool = True) -> tuple[Promises, Received, list[Event]]:
    """Return a checker, a subscription that is in force, and three events that were confirmed since."""
    promises = Promises()
    publisher = promises.publisher("p")
    publisher.next()
    publisher.confirmed.add(1)  # before the subscription
    subscription = promises.subscription("s", filter, is_durable=is_durable)
    promises.in_force(subscription)
    events = [Event(*publisher.next()) for _ in range(3)]
    publisher.confirmed |= {2, 3, 4}
    return promises, subscription, events


def test_all_is_well() -> None:
    promises, subscription, events = prepared()
    for event in (events[0], events[1], events[0], events[1], events[2]):
        promises.deliver(subscription, event)
    promises.check()
    assert (promises.confirmed, promises.delivered) == (4, 5)


def test_what_is_missing() -> None:
    promises, subscription, events = prepared()
    promises.deliver(subscription, events[0])
    promises.deliver(subscription, events[2])
    assert promises.missing() == {"s": [("p", 3)]}
    promises.check(whole=False)
    with pytest.raises(AssertionError, match=r"confirmed and not delivered: {'s': \(1, \[\('p', 3\)\]\)}"):
        promises.check()


def test_only_what_is_asked_for_is_due() -> None:
    promises, _, events = prepared(filter="x < 5")
    wanted = {("p", one.content["n"]) for one in events if one.content["x"] < 5}
    assert set(promises.missing().get("s", ())) == wanted
    assert not prepared(is_durable=False)[0].missing()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda event: event._replace(data=event.data + b"x"), "another content or payload"),
        (lambda event: event._replace(content={**event.content, "x": 77}), "another content or payload"),
        (lambda event: event._replace(content={**event.content, "n": 99}), "nobody has published"),
        (lambda event: event._replace(content={**event.content, "source": "q"}), "nobody has published"),
    ],
)
def test_what_differs(change: Any, said: str) -> None:
    promises, subscription, events = prepared()
    promises.deliver(subscription, change(events[0]))
    with pytest.raises(AssertionError, match=said):
        promises.check(whole=False)


def test_order() -> None:
    promises, subscription, events = prepared()
    promises.deliver(subscription, events[1])
    promises.deliver(subscription, events[0])
    with pytest.raises(AssertionError, match=r"got \('p', 2\) after 3"):
        promises.check(whole=False)


def test_what_nobody_asked_for() -> None:
    promises, subscription, events = prepared(filter="x > 100")
    promises.deliver(subscription, events[0])
    with pytest.raises(AssertionError, match="did not ask for it"):
        promises.check(whole=False)


def test_what_comes_twice_without_being_confirmed() -> None:
    promises, subscription, _ = prepared(is_durable=False)
    event = Event(*promises.publisher("q", PLAIN).next())
    promises.deliver(subscription, event)
    promises.check()
    promises.deliver(subscription, event)
    with pytest.raises(AssertionError, match=r"got \('q', 1\) twice"):
        promises.check()
