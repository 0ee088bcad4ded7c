"""Carries out the commands of a transcript and says what happens: for the files here, and for blocks in documents."""

from __future__ import annotations

import json
from typing import Any

import covey
from covey.routing.aggregation import Aggregation
from covey.routing.describe import describe
from covey.routing.plan import TreePlan
from covey.sim import Network
from covey.strategies.aggregation import block_of


def planned(merge: dict[str, Any]) -> Aggregation:
    """Return what is merged where: lists of filters by "from-to", and how loosely, by which events."""
    excess, events = merge.pop("excess", 0.0), merge.pop("events", [])
    blocks = {}
    for place, texts in merge.items():
        broker, _, towards = place.partition("-")
        blocks[0, broker, towards] = [block_of([covey.parse(text) for text in texts], events, excess)]
    return Aggregation(blocks, events, excess)


class Player:
    """Carries out a transcript's commands on a network and says what happens."""

    def __init__(self) -> None:
        self.net: Network
        self.lines: list[str] = []
        self.handles: dict[str, Any] = {}
        self.options: dict[str, Any] = {}

    def play(self, command: str) -> list[str]:
        self.lines = []
        word, _, rest = command.partition(" ")
        getattr(self, f"do_{word.replace('-', '_')}")(rest)
        if word not in ("network", "options"):
            self.net.settle()
        return self.lines

    def do_options(self, rest: str) -> None:
        self.options = json.loads(rest)

    def do_network(self, rest: str) -> None:
        strategy, *words = rest.split()
        advertisements = "no-advertisements" not in words
        links = [(a, b) for a, _, b in (word.partition("-") for word in words if word != "no-advertisements")]
        merge, plan = self.options.pop("merge", None), None
        if merge is not None:
            plan = TreePlan([links], aggregation=planned(merge))
        self.net = Network(links, strategy, advertisements=advertisements, options=self.options, trees=plan)
        self.net.observer = lambda a, b, message: self.lines.append(f"{a} -> {b}  {describe(message)}")
        self.net.on_delivery = lambda s, publish, _: self.lines.append(f"{s.name} gets {publish.id}")

    def place_and_filter(self, rest: str) -> tuple[str, covey.Filter, str | None]:
        place, _, text = rest.partition(": ")
        words = place.split()
        language = next((w for w in words if w in ("xpath", "keywords")), "attributes")
        client = words[words.index("by") + 1] if "by" in words else None
        return words[1], covey.parse(text, language=language), client

    def do_subscribe(self, rest: str) -> None:
        broker, filter, client = self.place_and_filter(rest)
        handle = self.net.subscribe(broker, filter, client=client)
        self.handles[handle.name] = handle

    def do_unsubscribe(self, rest: str) -> None:
        self.net.unsubscribe(self.handles[rest])

    def do_move(self, rest: str) -> None:
        name, _, broker = rest.partition(" to ")
        self.net.move(self.handles[name], broker)

    def do_advertise(self, rest: str) -> None:
        broker, filter, client = self.place_and_filter(rest)
        handle = self.net.advertise(broker, filter, client=client)
        self.handles[handle.key] = handle

    def do_unadvertise(self, rest: str) -> None:
        self.net.unadvertise(self.handles[rest])

    def do_publish(self, rest: str) -> None:
        place, _, text = rest.partition(": ")
        _, broker, *language = place.split()
        event: Any = text if language == ["xpath"] else json.loads(text)
        self.net.publish(broker, frozenset(event) if isinstance(event, list) else event)

    def do_link_down(self, rest: str) -> None:
        self.net.link_down(*rest.split())

    def do_link_up(self, rest: str) -> None:
        self.net.link_up(*rest.split())

    def do_crash(self, rest: str) -> None:
        self.net.crash(rest)

    def do_restart(self, rest: str) -> None:
        self.net.restart(rest)

    def do_tables(self, rest: str) -> None:
        for broker, entries in self.net.tables.items():
            self.lines += [f"{broker}  from {link}: {filter}" for link, filter in entries] or [
                f"{broker}  nothing"
            ]


def played(text: str) -> str:
    """Return the transcript with what happens now."""
    player = Player()
    result: list[str] = []
    for line in text.splitlines():
        if line.startswith(">"):
            result += [line, *(f"    {said}" for said in player.play(line[1:].strip()))]
        elif line.startswith("#") or not line.strip():
            result.append(line)
    return "\n".join(result) + "\n"
