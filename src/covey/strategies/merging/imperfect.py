"""Imperfect merging: fewer and simpler entries, for a bounded share of events that nobody behind wanted.

What G. Mühl et al. (*Evaluating Advanced Routing Algorithms for Content-Based Publish/Subscribe Systems*, 2002) leave
to the future: mergers that are not exact, adapted on line from statistics; and, for tree patterns, the lossy
aggregation that R. Chand and P. Felber (XROUTE, 2003) leave to it. On top of exact merging each neighbour U is told
some of its exact mergers together, as one filter that covers them (`groups`). An event from U that no entry
of another link matches is a *mistake*. The rules:

1. Every `every` events from U pairs of mergers are joined, each merger once, as far as what was seen says that mistakes
   stay within the share `budget` of the last `sample` events.
2. When mistakes are more than that share, a merger that makes another one falls apart at once, and none are joined. So
   of any `sample` events in a row no more are mistakes than the share, one more a merger, and what is under way.
3. What turned out to be a mistake is remembered for `patience` times `sample` events, and not repeated before.
4. Nothing happens but when an event comes or a subscription changes: the same inputs give the same messages.

Clients are matched by their own subscriptions, so deliveries are exact. The budget is that of one hop: what a neighbour
told us loosely we take as it is, and its mistakes are counted there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from covey.core.filter import Filter
from covey.errors import ConfigError
from covey.routing.messages import Link, Publish
from covey.routing.strategy import Site, register
from covey.routing.table import Place
from covey.strategies.merging.evidence import Evidence
from covey.strategies.merging.groups import Groups
from covey.strategies.merging.maximal import Changes
from covey.strategies.merging.perfect import Merging, Needs
from covey.strategies.told import Item


class LooseNeeds(Needs):
    """What one neighbour must know, its exact mergers, the groups in which these are told, and what it sends."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self.evidence = evidence
        self.groups = Groups()
        self.rounds = 0

    def change(self, removed: Iterable[Filter], added: Iterable[Filter]) -> Changes:
        """Take filters out that are there, put filters in that are not; return what changes of what is told."""
        exact = super().change(removed, added)
        return self.groups.follow(exact, self._unwanted() if exact.left and exact.entered else [])

    def items(self) -> list[Item]:
        """Return what the neighbour is told."""
        return self.groups.items()

    def _unwanted(self) -> list[Any]:
        """Return the events known that no exact merger matches now."""
        return [event for event in self.evidence.known() if not self._mergers.match(event)]

    def split(self, mistake: object, allowed: int) -> tuple[Changes, int]:
        """Split the mergers that let the mistake in, if there were more than allowed; return also how many."""
        if len(self.evidence.mistakes()) <= allowed:
            return Changes([], []), 0
        return self.groups.split(mistake, self._unwanted())

    def join(self, allowed: int) -> tuple[Changes, int]:
        """Join mergers as far as mistakes leave room and the evidence lets; return also how many."""
        self.rounds += 1
        room = (allowed - len(self.evidence.mistakes())) // 2
        if room <= 0:
            return Changes([], []), 0
        return self.groups.join(self._unwanted(), room, start=self.rounds * len(self.filters))


class ImperfectMerging(Merging):
    """Exact mergers are told in groups, as long as few events come in by mistake."""

    name = "merging-imperfect"
    perfect = False
    description = "merging that may let in a few events too many, adapted to the events seen"
    options = ("budget", "sample", "every", "patience")

    def __init__(
        self, site: Site, *, budget: float = 0.1, sample: int = 256, every: int = 64, patience: int = 8
    ) -> None:
        super().__init__(site)
        _check(budget, sample, every, patience)
        self._allowed = int(budget * sample)
        self._sample = sample
        self._every = every
        self._patience = patience

    def new_needs(self, link: Link) -> Needs:
        """Return the state of a neighbour that was told nothing."""
        return LooseNeeds(Evidence(self._sample, self._patience))

    def forward(
        self, publish: Publish, source: Link, local: Sequence[Place]
    ) -> Iterable[tuple[Link, Publish]]:
        """Send it to the neighbours that have a matching entry, and learn from it."""
        result = list(super().forward(publish, source, local))
        needs = self._needs.get(source)
        if isinstance(needs, LooseNeeds):
            self._learn_from(source, needs, publish.event, unwanted=not result and not local)
        return result

    def _learn_from(self, link: Link, needs: LooseNeeds, event: object, *, unwanted: bool) -> None:
        counters = self.site.counters
        needs.evidence.add(event, unwanted=unwanted)
        if unwanted:
            counters["metered_false_positives"] += 1
            changes, count = needs.split(event, self._allowed)
            counters["split_mergers"] += count
            self.tell_changes(link, changes)
        if needs.evidence.seen % self._every == 0:
            changes, count = needs.join(self._allowed)
            counters["made_mergers"] += count
            self.tell_changes(link, changes)


def _check(budget: object, sample: object, every: object, patience: object) -> None:
    """Raise ConfigError for a setting that makes no sense."""
    name = ImperfectMerging.name
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0.0 <= budget <= 1.0:
        raise ConfigError(f"the budget of {name} is a share from 0 to 1, not {budget!r:.40}")
    for setting, value in (("sample", sample), ("every", every), ("patience", patience)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
            raise ConfigError(
                f"the setting {setting} of {name} is a whole number from 1 to 1,000,000, not {value!r:.40}"
            )


register(ImperfectMerging, "imperfect")
