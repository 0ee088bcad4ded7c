"""Wrong readings of incremental aggregation, each one small method away from the right one: the checks notice them all.

A check that a wrong rule passes proves nothing of the right rule. Each class here is one plausible reading that loses
events, leaves residue or estimates wrongly; each test says within how many seeded runs that is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.oracles.incremental_runs import Run, variant
from tests.oracles.incremental_similarity import similarity_findings

from covey.core.filter import Filter
from covey.routing.messages import Key, Link, Message, Publish, Subscribe, Unsubscribe
from covey.routing.table import Place
from covey.routing.work import Job
from covey.strategies.incremental.kept import Distances, Kept, KeptTowards
from covey.strategies.incremental.pruning import Incremental
from covey.strategies.incremental.statistics import FAR
from covey.strategies.policy import MaximalUntold
from covey.strategies.subscriptions import SubscriptionStrategy
from covey.strategies.told import Item, Told

# -- covering ------------------------------------------------------------------------------------------------


class SameLink(Incremental):
    """Only what came over the link that S came from is uncovered when S leaves."""

    source = ""

    def _unsubscribed(
        self, source: Link, gone: Item, distances: Mapping[str, tuple[float, ...]] | None
    ) -> None:
        self.source = source
        super()._unsubscribed(source, gone, distances)

    def uncovered(self, link: Link, gone: Item) -> list[Item]:
        entries = self.table.covered(gone.filter, not_of=link)
        mine = [Item(one.key, one.filter) for one in entries if one.link == self.source]
        found = MaximalUntold(self._told[link])
        for item in mine:
            if self.site.wanted(link, item.filter):
                found.add(item)
        return found.items()


class ReceiverDeletes(Incremental):
    """Who receives a filter drops by itself what it covers, of what the same neighbour said before."""

    def _receive_subscribe(self, link: Link, message: Subscribe) -> None:
        super()._receive_subscribe(link, message)
        for key, filter in list(self.table.of_link(link).items()):
            if key != message.key and message.filter.covers(filter):
                self.receive(link, Unsubscribe(key))


class WithdrawFirst(Incremental):
    """S is withdrawn before what it quenched is told."""

    def replace(self, link: Link, gone: Item, items: Sequence[Item], distances: Distances | None) -> None:
        ahead = None if distances is None else self.step(link, gone.filter, distances)
        self.tell(link, Unsubscribe(gone.key, ahead))
        self.announce(link, items)


# -- what is kept --------------------------------------------------------------------------------------------


class NoCollection(Incremental):
    """What is kept stays although it quenches nothing any more."""

    def collect(self, *arguments: Any, **options: Any) -> list[Item]:
        return []


class NotRemembered(Incremental):
    """Who keeps S does not remember that the neighbour knows it."""

    def keep(self, link: Link, kept: Kept) -> None:
        pass


class NotAdopted(Incremental):
    """S stays marked as kept when its owner is back."""

    def adopt(self, link: Link, key: Key) -> None:
        pass


class CoverForgets(Incremental):
    """What covers S retracts it, and it is still thought to be kept."""

    def retract(self, link: Link, label: Key) -> None:
        SubscriptionStrategy.retract(self, link, label)


class KeptUnadvertised(Incremental):
    """Unadvertising withdraws what has an owner only."""

    def unadvertised(self, link: Link, filter: Filter) -> Job:
        labels = sorted(self._told[link].labels_overlapping(filter))
        self.retract_unwanted(link, [label for label in labels if label not in self._kept[link]])
        yield 0


class Restored(Incremental):
    """When a link comes up again, what was kept there is told again."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.last: dict[Link, list[Kept]] = {}

    def opening(self, link: Link) -> Job:
        self._kept[link] = KeptTowards()
        told = self._told[link] = Told()
        for kept in self.last.pop(link, []):
            if self.site.wanted(link, kept.filter):
                told.add(kept.key, kept.filter)
        for item in (yield from self.missing(link)):
            told.add(item.key, item.filter)

    def close(self, link: Link) -> Job:
        self.last[link] = self.kept(link)
        return super().close(link)


class KeepsNothingQuenched(Incremental):
    """S is kept wherever it is similar enough, even if nothing is quenched by it there."""

    def _to_keep(
        self, link: Link, gone: Item, items: Sequence[Item], distances: Distances | None, burst: int
    ) -> Kept | None:
        if not distances or not self.is_critical(link, gone.filter, distances, 0):
            return None
        return Kept(gone.key, gone.filter, distances, 0.9, held=False, spare=0)


class RawMessageHeld(Incremental):
    """A congested broker puts an unsubscription aside, as it is, until it has caught up."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.aside: list[tuple[Link, Message]] = []

    def receive(self, link: Link, message: Message) -> None:
        if self.site.congested and isinstance(message, Unsubscribe) and message.distances:
            self.aside.append((link, message))
        else:
            super().receive(link, message)

    def congestion(self, on: bool) -> None:
        aside, self.aside = self.aside, []
        for link, message in aside:
            super().receive(link, message)


BUSY = {
    "publish": 200,
    "rest": 20,
    "unsubscribe": 40,
    "advertise": 0,
    "unadvertise": 0,
    "congestion": 0,
    "again": 0,
}

# What to run, and from which seed on: most are noticed at once, some take a rare coincidence.
CAUGHT: list[tuple[type[Incremental], dict[str, Any], int]] = [
    (SameLink, {}, 0),
    (ReceiverDeletes, {"mixed": True}, 0),  # it takes a neighbour that goes on relying on what is dropped
    (WithdrawFirst, {"weights": BUSY}, 90),  # it takes an event that is on its way just then
    (NoCollection, {}, 0),
    (NotRemembered, {}, 0),
    (NotAdopted, {"weights": {"again": 30, "unsubscribe": 30}}, 70),
    (CoverForgets, {}, 0),
    (KeptUnadvertised, {"weights": {"unadvertise": 14, "advertise": 14}}, 0),
    (Restored, {"faults": True, "weights": {"link_down": 8, "link_up": 12}}, 70),
    (KeepsNothingQuenched, {}, 0),
    (RawMessageHeld, {"weights": {"again": 16, "congestion": 16}}, 0),
]
NAMES = [mutant.__name__ for mutant, _, _ in CAUGHT]


def noticed(mutant: type[Incremental], seeds: range, **options: Any) -> bool:
    """Return whether one of the runs notices the mutant."""
    with variant(mutant):
        for seed in seeds:
            try:
                if Run(seed, **options).run():
                    return True
            except (KeyError, ValueError):  # what it believes is so wrong that the books do not add up
                return True
    return False


@pytest.mark.parametrize(("mutant", "options", "start"), CAUGHT, ids=NAMES)
def test_a_wrong_rule_is_noticed(mutant: type[Incremental], options: dict[str, Any], start: int) -> None:
    assert noticed(mutant, range(start, start + 12), **options)


@pytest.mark.parametrize(("mutant", "options", "start"), CAUGHT, ids=NAMES)
def test_the_right_rule_passes_where_the_wrong_one_is_noticed(
    mutant: type[Incremental], options: dict[str, Any], start: int
) -> None:
    for seed in range(start, start + 4):
        assert Run(seed, **options).run() == [], f"seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize(("mutant", "options", "start"), CAUGHT, ids=NAMES)
def test_a_wrong_rule_is_noticed_from_any_seed_on(
    mutant: type[Incremental], options: dict[str, Any], start: int
) -> None:
    assert noticed(mutant, range(1000, 1200), **options)


# -- distances -----------------------------------------------------------------------------------------------


class PublisherAtZero(Incremental):
    """The publisher's broker starts with distance 0, whether somebody else wants the event or not."""

    def distance(
        self, publish: Publish, source: Link, links: Sequence[Link], local: Sequence[Place]
    ) -> float:
        distance = super().distance(publish, source, links, local)
        return 0.0 if distance == FAR and source not in self._told else distance


class LinksCounted(Incremental):
    """Links that want the event are counted, clients each as one, not subscriptions."""

    def interested(self, publish: Publish, links: Sequence[Link], local: Sequence[Place]) -> int:
        return len(links) + len({client for client, _ in local})


class ClientsAsOneLink(Incremental):
    """All clients here count as one."""

    def interested(self, publish: Publish, links: Sequence[Link], local: Sequence[Place]) -> int:
        return sum(place[0] in links for place in self.table.matching(publish.event)) + bool(local)


class IncomingCounted(Incremental):
    """Subscriptions on the link that the event came from count too."""

    def interested(self, publish: Publish, links: Sequence[Link], local: Sequence[Place]) -> int:
        return len(self.table.matching(publish.event)) + len(local)


@pytest.mark.parametrize("mutant", [PublisherAtZero, LinksCounted, ClientsAsOneLink, IncomingCounted])
def test_a_wrong_reading_of_distance_is_noticed(mutant: type[Incremental]) -> None:
    with variant(mutant):
        assert any(similarity_findings(seed) for seed in range(20))
