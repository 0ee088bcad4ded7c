"""An example event: who would get it, by which way, and why the others would not.

The event is followed from broker to broker (`client.tracing`), each of which says what it would do. Why a subscription
does not match is found here, from its filter's text; where a broker has cut that, the broker is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from covey.client.tracing import Following, Trace, follow
from covey.core.explain import why_not
from covey.core.families import parse
from covey.core.xpath.document import Document
from covey.dashboard.collector import Collector
from covey.errors import CoveyError, EventError

MAX_OTHERS: Final = 200  # subscriptions of which it is said why they do not get it
MAX_PAGE: Final = 500  # subscriptions that are looked at, of each broker
MAX_LISTED: Final = 3  # alternatives of a filter


async def explain(
    collector: Collector, content: Any, language: str, start: str, publisher: str = ""
) -> dict[str, Any]:
    """Return where an event goes from a broker; CoveyError if it is none, or a broker does not answer."""
    event = event_of(content, language)
    question = {"content": content, "language": language}
    trace = await _asked(collector, follow(start, collector.names(), question, publisher))
    receivers: dict[tuple[str, str], dict[str, Any]] = {}
    hops = []
    for place, answer in trace.answers.items():
        for one in answer["subscriptions"] if trace.is_allowed else ():
            row = {"broker": place.broker, **one, "way": trace.way(place)}
            receivers.setdefault((place.broker, one["key"]), row)
        hops += [
            {
                "from": place.broker,
                "to": hop["link"],
                "tree": hop["tree"],
                "goes": hop["goes"],
                "reason": hop["reason"],
            }
            for hop in answer["hops"]
        ]
    return {
        "start": start,
        "allowed": trace.is_allowed,
        "advertised": trace.answers[trace.start]["advertised"],
        "visited": sorted(trace.visited()),
        "hops": hops,
        "receivers": list(receivers.values()),
        "receivers_total": sum(
            answer["subscriptions_total"]
            for name in trace.visited()
            for answer in [trace.answers[trace.at(name)]]  # type: ignore[index]
        )
        if trace.is_allowed
        else 0,
        "others": await _others(collector, trace, event, question, set(receivers)),
    }


def event_of(content: Any, language: str) -> object:
    """Return what filters judge; EventError if it is no event of that language."""
    if language == "xpath" and isinstance(content, str):
        return Document.parse(content)
    if language == "keywords" and isinstance(content, list) and all(isinstance(one, str) for one in content):
        return frozenset(content)
    if language == "attributes" and isinstance(content, dict):
        return content
    raise EventError(
        "an event is a JSON object of attributes; an XML text for xpath; an array of words for keywords"
    )


async def _asked(collector: Collector, following: Following) -> Trace:
    try:
        asked = next(following)
        while True:
            answer = await collector.post(
                collector.url_of(asked.broker), "/explainz", msgspec.json.encode(asked.question)
            )
            asked = following.send(answer)
    except StopIteration as done:
        trace: Trace = done.value
        return trace


async def _others(
    collector: Collector,
    trace: Trace,
    event: object,
    question: Mapping[str, Any],
    receivers: set[tuple[str, str]],
) -> list[dict[str, Any]]:
    """Return subscriptions that do not get the event, each with the reason, at most MAX_OTHERS."""
    pages = await asyncio.gather(*(_subscriptions(collector, name) for name in sorted(collector.names())))
    visited = trace.visited()
    found: list[dict[str, Any]] = []
    for broker, rows in pages:
        for row in rows:
            if (broker, row["key"]) in receivers:
                continue
            if len(found) == MAX_OTHERS:
                return found
            why = await _why(collector, broker, row, event, question)
            if not why:
                if broker in visited and trace.is_allowed:
                    continue  # it gets it: only some of those that do are listed
                why = [["it matches, and does not come to this broker: see the hops"]]
                if not trace.is_allowed:
                    why = [["its publisher may not publish it"]]
            found.append({"broker": broker, **row, "why": why[:MAX_LISTED]})
    return found


async def _subscriptions(collector: Collector, broker: str) -> tuple[str, list[dict[str, Any]]]:
    try:
        page = await collector.ask(collector.url_of(broker), "/subz", limit=MAX_PAGE)
    except CoveyError:
        return broker, []  # the map shows that it is down
    return broker, page["rows"]


async def _why(
    collector: Collector, broker: str, row: Mapping[str, Any], event: object, question: Mapping[str, Any]
) -> list[list[str]]:
    """Return what of a subscription's filter fails, by alternative; nothing if it matches."""
    if row["language"] != question["language"]:
        return [[f"it is for events of {row['language']}"]]
    if not str(row["filter"]).endswith("…"):
        failed = why_not(parse(row["filter"], row["language"]), event)
        return [[str(miss) for miss in alternative] for alternative in failed]
    asked = msgspec.json.encode({**question, "target": row["key"]})
    answer = await collector.post(collector.url_of(broker), "/explainz", asked)
    fails: list[list[str]] = answer["target"]["fails"]
    return fails
