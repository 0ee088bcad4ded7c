"""Where an event would go from one broker, and why: the question behind `covey explain`. Nothing is sent or counted.

The answer is read off the same tables by which the router forwards. Strategies that match an event once, where it is
published, write the brokers it is for on it; then `destinations` and `tree` of the question carry them from hop to hop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from covey.broker.sight import Row, Sight, text_of
from covey.core.explain import why_not
from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import EventError
from covey.routing.messages import Publish
from covey.routing.tree import TreePart
from covey.wire.events import ATTRIBUTES, KEYWORDS, XPATH, decode_content, encode_content

MAX_LISTED: Final = 20
LANGUAGES: Final = {"attributes": ATTRIBUTES, "xpath": XPATH, "keywords": KEYWORDS}


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked of one broker."""

    content: Any  # a mapping; XML; a list of words
    language: str = "attributes"
    source: str = ""  # the link that the event comes from: a client's or a neighbour's; none for any client
    flooded: bool = False
    destinations: tuple[str, ...] | None = None
    tree: int = 0
    target: str = ""  # the key of a subscription here, about which more is said
    wanted: str = (
        ""  # the text of the filter of a subscription elsewhere, which neighbours should have asked for
    )


def content_of_question(content: Any, language: str) -> Any:
    """Return the content as brokers have it when it has travelled; EventError if it cannot."""
    family = LANGUAGES.get(language)
    if family is None:
        raise EventError(f"there is no filter language {language!r:.40}")
    if family == KEYWORDS:
        if not isinstance(content, list | tuple | set | frozenset) or not all(
            isinstance(word, str) for word in content
        ):
            raise EventError("a document of keywords is an array of words")
        content = set(content)
    elif family == XPATH and not isinstance(content, str):
        raise EventError("an XML document is a string")
    elif family == ATTRIBUTES and not isinstance(content, dict):
        raise EventError("an event of attributes is an object")
    return decode_content(family, encode_content(content)[1])


def explain(sight: Sight, question: Question) -> Row:
    """Return where the event would go; EventError if it is none."""
    event = content_of_question(question.content, question.language)
    router = sight.router
    local = sorted(router.matching(event))
    client = sight.client(question.source)
    is_published = client is not None or not question.source
    publish = Publish(
        event,
        "",
        question.source,
        destinations=question.destinations,
        flooded=question.flooded,
        tree=question.tree,
    )
    answer: Row = {
        "broker": sight.name,
        "strategy": sight.varz()["strategy"],
        "subscriptions": [
            {"link": link, "key": key, "filter": text_of(router.local_filter(link, key))}
            for link, key in local[:MAX_LISTED]
        ],
        "subscriptions_total": len(local),
        "advertised": None,
        "allowed": None,
        "hops": [],
    }
    if client is not None:
        allowed = client.permissions.publish
        answer["allowed"] = allowed is None or allowed.matches(event)
        answer["publisher"] = client.permissions.as_dict()
    if not is_published and question.tree not in router.trees:
        raise EventError(f"there is no tree {question.tree} here")
    parts = router.telling if is_published else [router.trees[question.tree]]
    wanted = parse(question.wanted, question.language) if question.wanted else None
    for part in parts:
        one = publish
        if is_published:
            flooded = client is not None and not part.is_advertised(question.source, event)
            answer["advertised"] = None if client is None else not flooded
            one = msgspec.structs.replace(publish, flooded=flooded, tree=part.tree)
            if not flooded:
                one = part.strategy.address(one, local)
        answer["hops"] += _hops(sight, router.trees[one.tree], one, local, question.source, wanted)
        if is_published and one.flooded:
            break  # one tree reaches everyone
    if question.target:
        answer["target"] = _target(sight, question.target, event)
    return answer


def _hops(
    sight: Sight, part: TreePart, publish: Publish, local: Any, source: str, wanted: Filter | None
) -> Iterable[Row]:
    strategy = part.strategy
    going: dict[str, Publish]
    if publish.flooded:
        going = {link: publish for link in part.neighbours() if link != source}
    elif strategy.matched_once:
        going = dict(strategy.forward(publish, source, local))
    else:
        going = dict.fromkeys(strategy.ordered(strategy.next_hops(publish.event), source), publish)
    for link, neighbour, _ in sight.neighbours():
        if not part.plan.has_link(part.tree, part.broker, link):
            continue
        facts = strategy.heard(link) if link in part.neighbours() else []
        entry = next((fact.filter for fact in facts if fact.filter.matches(publish.event)), None)
        row: Row = {"link": link, "tree": part.tree, "goes": link in going and neighbour is not None}
        sent = going.get(link) if neighbour is not None else None
        if sent is not None:
            if publish.flooded:
                row["reason"] = "it is outside its publisher's advertisements and goes everywhere"
            elif entry is not None:
                row["reason"] = f"an entry matches it: {text_of(entry)}"
            elif sent.destinations is not None:
                row["reason"] = f"it is for {', '.join(sent.destinations)!s:.200}"
            else:
                row["reason"] = f"the strategy {strategy.name} sends it everywhere"
            row["flooded"], row["destinations"] = sent.flooded, sent.destinations
        elif link == source:
            row["reason"] = "it comes from there"
        elif neighbour is None:
            asked = f"; an entry of it matches the event: {text_of(entry)}" if entry is not None else ""
            row["reason"] = f"the link is down{asked}"
        elif link not in part.neighbours():
            row["reason"] = "the link is coming up: the brokers do not know yet what the other wants"
        else:
            row["reason"] = f"none of its {len(facts):,} entries matches the event" + _hint(
                sight, part, link, wanted
            )
        yield row


def _target(sight: Sight, key: str, event: object) -> Row:
    for link, wanted in sight.router.local_subscriptions().items():
        if key in wanted:
            filter = wanted[key]
            failed = why_not(filter, event)
            client = sight.client(link)
            return {
                "key": key,
                "link": link,
                "filter": text_of(filter),
                "matches": not failed,
                "fails": [[str(miss) for miss in alternative] for alternative in failed[:MAX_LISTED]],
                "name": "" if client is None else client.permissions.name,
            }
    return {"key": key, "matches": False, "fails": [["there is no such subscription here"]]}


def _hint(sight: Sight, part: TreePart, link: str, wanted: Filter | None) -> str:
    """Return why a neighbour may not have asked for what a subscription behind it wants."""
    if wanted is None:
        return ""
    sources = [*part.links_up(), *(client.link for client, _ in sight.clients())]
    if any(part.wanted(other, wanted) for other in sources if other != link):
        return "; it has not asked for what the subscription wants"
    return (
        "; nobody on this side has advertised what the subscription wants"
        " (events of clients that advertise nothing go everywhere)"
    )
