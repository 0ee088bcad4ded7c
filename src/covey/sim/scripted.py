"""What a scenario's author wrote out: single actions of clients, and faults.

    [[actions]]                                  [[faults]]
    at_s = 1.0                                   at_s = 5.0
    op = "subscribe"                             kind = "link-down"
    name = "ann"                                 link = ["a", "b"]
    broker = "a"                                 until_s = 8.0
    filter = "price > 10"

A fault without `until_s` lasts until the end of the run. Reading is pure; whether brokers and links exist is
checked when the topology is known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from covey.core.content import check_content
from covey.core.families import DEFAULT_LANGUAGE, LANGUAGES, parse
from covey.core.xpath.document import Document
from covey.errors import CoveyError
from covey.sim.section import REQUIRED, Section, is_plain, mistake, shown
from covey.sim.workload import Action

LINK_DOWN, CRASH, SLOW, PARTITION = FAULTS = ("link-down", "crash", "slow", "partition")


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong for a while: at a link, or at brokers."""

    place: str
    at_s: float
    kind: str
    until_s: float | None = None
    link: tuple[str, str] | None = None
    brokers: tuple[str, ...] = ()
    factor: float = 1.0


def read_fault(section: Section) -> Fault:
    """Return the fault that a table describes."""
    kind = section.choice("kind", FAULTS)
    at_s = section.number("at_s")
    until_s = section.number("until_s", None)
    if until_s is not None and until_s < at_s:
        section.fail("until_s", f"expected a time from {at_s:g} up, when the fault begins, not {until_s:g}")
    link: tuple[str, str] | None = None
    brokers: tuple[str, ...] = ()
    factor = 1.0
    if kind in (LINK_DOWN, SLOW):
        a, b = section.texts("link", 2)
        link = (a, b)
    elif kind == CRASH:
        brokers = (section.text("broker"),)
    else:
        brokers = section.texts("brokers")
    if kind == SLOW:
        factor = section.number("factor", above=True)
    section.done()
    return Fault(section.place, at_s, kind, until_s, link, brokers, factor)


@dataclass(frozen=True)
class Written:
    """An action with the place in the file where it stands."""

    place: str
    action: Action


def read_action(section: Section) -> Written:
    """Return the action that a table describes."""
    op = section.choice("op", _READERS)
    at_s = section.number("at_s")
    name, broker, what = _READERS[op](section)
    client = section.text("client", "") if op not in ("unadvertise", "unsubscribe", "move") else ""
    section.done()
    return Written(section.place, Action(at_s, op, name, broker, what, client))


def _appears(section: Section) -> tuple[str, str, Any]:
    name, broker = section.text("name"), section.text("broker")
    language, text = section.choice("language", LANGUAGES, DEFAULT_LANGUAGE), section.text("filter")
    try:
        return name, broker, parse(text, language)
    except CoveyError as error:
        section.fail("filter", str(error))


def _goes(section: Section) -> tuple[str, str, Any]:
    return section.text("name"), "", None


def _moves(section: Section) -> tuple[str, str, Any]:
    return section.text("name"), section.text("broker"), None


def _publishes(section: Section) -> tuple[str, str, Any]:
    broker = section.text("broker")
    language = section.choice("language", LANGUAGES, DEFAULT_LANGUAGE)
    expected, accepts, make = _EVENTS[language]
    event = section.take("event", REQUIRED, expected, lambda value: is_plain(value) and accepts(value))
    try:
        return "", broker, make(event)
    except CoveyError as error:
        section.fail("event", str(error))


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _carried(event: dict[str, Any]) -> dict[str, Any]:
    check_content(event)
    return event


_READERS: dict[str, Callable[[Section], tuple[str, str, Any]]] = {
    "advertise": _appears,
    "unadvertise": _goes,
    "subscribe": _appears,
    "unsubscribe": _goes,
    "move": _moves,
    "publish": _publishes,
}

_EVENTS: dict[str, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]] = {
    "attributes": ("a table of attributes", lambda value: isinstance(value, dict), _carried),
    "xpath": ("a text of XML", lambda value: isinstance(value, str), Document.parse),
    "keywords": ("a list of words", _are_words, frozenset),
}


def check_names(written: Collection[Written]) -> None:
    """Complain about a name that is given twice, or is gone or moved before it is given; in the order of time."""
    given: dict[tuple[str, str], bool] = {}
    for place, action in ((one.place, one.action) for one in written):
        if action.op == "publish":
            continue
        kind = "advertisement" if action.op.endswith("advertise") else "subscription"
        key = (kind, action.name)
        if action.op in ("subscribe", "advertise"):
            if key in given:
                raise mistake(
                    place, "name", f"expected one that no other {kind} has, not {shown(action.name)}"
                )
            given[key] = True
        elif not given.get(key):
            expected = f"expected a {kind} that is there at {action.at_s:g} s"
            raise mistake(place, "name", f"{expected}, not {shown(action.name)}")
        elif action.op != "move":
            given[key] = False


def check_places(
    faults: Collection[Fault],
    written: Collection[Written],
    brokers: Collection[str],
    links: Collection[frozenset[str]],
) -> None:
    """Complain about brokers and links that the topology does not have."""
    for fault in faults:
        if fault.link is not None and frozenset(fault.link) not in links:
            raise mistake(
                fault.place, "link", f"expected a link of the topology, not {shown(list(fault.link))}"
            )
        for broker in fault.brokers:
            _check_broker(fault.place, "broker" if fault.kind == CRASH else "brokers", broker, brokers)
    for one in written:
        if one.action.broker:
            _check_broker(one.place, "broker", one.action.broker, brokers)


def _check_broker(place: str, key: str, broker: str, brokers: Collection[str]) -> None:
    if broker not in brokers:
        raise mistake(place, key, f"expected a broker of the topology, not {shown(broker)}")
