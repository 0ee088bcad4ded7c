"""`covey explain`: why an event matches a filter or not, and why it reached a subscription or did not, hop by hop."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from covey.client.admin import Pages
from covey.client.tracing import Answer, Following, Place, Trace, follow
from covey.client.tracing import path as path_to
from covey.commands.inputs import read_argument, read_event
from covey.commands.options import AdminToken, Json, Language, TlsCa
from covey.commands.output import print_json
from covey.core.explain import why_not
from covey.core.families import DEFAULT_LANGUAGE, parse
from covey.errors import ConfigError, CoveyError

MAX_BROKERS: Final = 1_000

Answers = Mapping[Place, Answer]


def explain(
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT",
            help="A JSON object; XML for xpath; words for keywords. `-` reads standard input, `@FILE` a file.",
        ),
    ],
    filter: Annotated[
        str | None, typer.Option("--filter", metavar="TEXT", help="Offline: what of this filter fails.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="KEY", help="A subscription's key, as in covey tables.")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="URL",
            envvar="COVEY_ADMIN",
            help="The admin pages of each broker, the publisher's first; repeatable.",
        ),
    ] = None,
    publisher: Annotated[
        str, typer.Option("--publisher", metavar="LINK", help="The publishing client's link, as in /linkz.")
    ] = "",
    language: Language = DEFAULT_LANGUAGE,
    token: AdminToken = "",
    tls_ca: TlsCa = "",
    json: Json = False,
) -> None:
    """Say why an event is in a filter or not, or why it reaches a subscription or not. Exit code 1: it does not."""
    if (filter is None) == (to is None):
        raise ConfigError("give either --filter TEXT, or --to SUBSCRIPTION with --at URL…")
    if filter is not None:
        report = offline(event, filter, language)
        lines = offline_lines(report)
        good = report["matches"]
    else:
        if not at:
            raise ConfigError("which brokers? (hint: --at http://127.0.0.1:7401, once for each broker)")
        pages = [Pages(url, token, tls_ca) for url in at[:MAX_BROKERS]]
        assert to is not None
        report = walk(pages, content(event, language), language, to, publisher)
        lines = walk_lines(report)
        good = report["arrives"]
    if json:
        print_json(report)
    else:
        typer.echo("\n".join(lines))
    raise typer.Exit(0 if good else 1)


# -- offline -------------------------------------------------------------------------------------------------


def offline(event: str, text: str, language: str) -> dict[str, Any]:
    """Return what `covey explain --filter` reports."""
    asked = parse(text, language)
    failed = why_not(asked, read_event(event, language))
    alternatives = [[{"wanted": miss.wanted, "found": miss.found} for miss in misses] for misses in failed]
    return {"filter": str(asked), "language": language, "matches": not failed, "fails": alternatives}


def offline_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the report for people."""
    if report["matches"]:
        return ["the event matches"]
    lines = ["the event does not match"]
    alternatives = report["fails"]
    for number, misses in enumerate(alternatives, 1):
        head = f"  alternative {number} of {len(alternatives)}, " if len(alternatives) > 1 else "  "
        lines += [f"{head}{miss['wanted']}: {miss['found']}" for miss in misses]
    return lines


# -- on a live overlay ---------------------------------------------------------------------------------------


def content(event: str, language: str) -> Any:
    """Return the event as it is asked about: JSON values."""
    read = read_event(event, language)  # judged here already, where the error is nearer
    if language == "xpath":
        return read_argument(event)
    return sorted(read) if isinstance(read, frozenset) else read


def walk(pages: Sequence[Pages], event: Any, language: str, key: str, publisher: str) -> dict[str, Any]:
    """Follow an event from the first broker as far as it goes, and say whether and why it reaches the subscription."""
    overlay = Overlay(pages)
    start, home = overlay.first, overlay.locate(key)
    question = {"content": event, "language": language, "target": key}
    target = overlay.brokers[home].post("/explainz", question)["target"]
    if not target["filter"].endswith("…"):
        question["wanted"] = target["filter"]
    trace = _asked(follow(start, overlay.brokers, question, publisher), overlay.brokers)
    arrival, visited = trace.at(home), trace.visited()
    path = trace.way(arrival) if arrival else overlay.path(start, home)
    return {
        "arrives": bool(arrival) and target["matches"] and trace.is_allowed,
        "reason": _reason(trace.answers, target, path, trace.start, home),
        "from": start,
        "to": {"broker": home, **target},
        "hops": [_hop(trace.answers, name, following) for name, following in _pairs(path) if name in visited],
        "visited": sorted(visited),
        "unreachable": overlay.unreachable,
    }


def _asked(following: Following, brokers: Mapping[str, Pages]) -> Trace:
    """Ask all questions, and return what comes of it."""
    try:
        asked = next(following)
        while True:
            asked = following.send(brokers[asked.broker].post("/explainz", asked.question))
    except StopIteration as done:
        trace: Trace = done.value
        return trace


class Overlay:
    """The brokers that were named: their pages, and the links between them, up or down."""

    def __init__(self, pages: Sequence[Pages]) -> None:
        self.brokers: dict[str, Pages] = {}
        self.unreachable: list[str] = []
        self._links: dict[str, set[str]] = {}
        for one in pages:
            try:
                varz = one.get("/varz")
            except CoveyError as error:
                if not self.brokers:
                    raise  # without the publisher's broker nothing can be said
                self.unreachable.append(str(error))
                continue
            self.brokers[varz["broker"]] = one
            for other in varz["neighbours"]:
                self._links.setdefault(varz["broker"], set()).add(other)
                self._links.setdefault(other, set()).add(varz["broker"])
        self.first = next(iter(self.brokers))

    def locate(self, key: str) -> str:
        """Return the broker that has the subscription; CoveyError if none of them does."""
        for name, pages in self.brokers.items():
            if pages.get("/subz", key=key)["rows"]:
                return name
        raise CoveyError(
            f"none of the brokers {', '.join(self.brokers)!s:.200} has a subscription {key!r:.60} "
            "(hint: covey tables URL lists them)"
        )

    def path(self, start: str, home: str) -> list[str]:
        """Return the way over links, up or down, from one broker to another; nothing if there is none."""
        came_from: dict[str, str | None] = {start: None}
        waiting = deque([start])
        while waiting:
            name = waiting.popleft()
            for other in sorted(self._links.get(name, ())):
                if other not in came_from:
                    came_from[other] = name
                    waiting.append(other)
        return path_to(came_from, home) if home in came_from else []


def _pairs(path: Sequence[str]) -> list[tuple[str, str | None]]:
    return [(name, path[place + 1] if place + 1 < len(path) else None) for place, name in enumerate(path)]


def _hop(answers: Answers, name: str, following: str | None) -> dict[str, Any]:
    """Return what a broker says of the way to the next one, on the tree on which the event goes there if it does."""
    here = [answer for place, answer in answers.items() if place[0] == name]
    told = [hop for answer in here for hop in answer["hops"] if hop["link"] == following]
    row = {
        key: here[0][key] for key in ("broker", "strategy", "advertised", "allowed", "subscriptions_total")
    }
    if following is None:
        return row | {"next": None, "goes": None, "reason": "the subscription is here"}
    if not told:
        return row | {
            "next": following,
            "goes": False,
            "reason": "it is no neighbour here on the event's trees",
        }
    best = next((hop for hop in told if hop["goes"]), told[0])
    return row | {"next": following, "goes": best["goes"], "reason": best["reason"]}


def _reason(answers: Answers, target: Mapping[str, Any], path: Sequence[str], start: Place, home: str) -> str:
    at_start = answers[start]
    if at_start["allowed"] is False:
        publisher = at_start["publisher"]
        return f"its publisher, {publisher['name']}, may not publish it: {publisher['publish']}"
    if not target["matches"]:
        fails = "; or ".join(" and ".join(misses) for misses in target["fails"])
        return f"the subscription's filter does not match: {fails}"
    visited = {name for name, _ in answers}
    if home in visited:
        return "it arrives"
    if not path:
        return f"no links lead from {start.broker} to {home} among the brokers that were asked"
    for name, following in _pairs(path):
        if name in visited and following is not None and following not in visited:
            return f"it stops at {name}: towards {following}, {_hop(answers, name, following)['reason']}"
    return f"it does not get to {home}"


def walk_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the report for people."""
    target = report["to"]
    lines = [f"to {target['key']} at {target['broker']}: {target.get('filter', '')}"]
    for hop in report["hops"]:
        if hop["advertised"] is False:
            lines.append(f"  {hop['broker']}: outside its publisher's advertisements")
        if hop["next"] is None:
            lines.append(f"  {hop['broker']}: {hop['reason']}")
        else:
            arrow = "→" if hop["goes"] else "↛"
            lines.append(f"  {hop['broker']} {arrow} {hop['next']}: {hop['reason']}")
    verdict = "arrives" if report["arrives"] else "does not arrive"
    lines.append(verdict if report["arrives"] else f"{verdict}: {report['reason']}")
    return lines
