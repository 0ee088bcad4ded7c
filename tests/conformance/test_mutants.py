"""Wrong rules that look right: each is put in place of the right one, and trials must notice.

They guard the trials themselves: a promise that no wrong rule can break is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from covey.routing import carrying, digest, plan, probes, router, seen, tree
from covey.routing.advertisements import Announcement
from covey.routing.digest import Fact
from covey.routing.messages import Link, LinkDown, Unsubscribe
from covey.routing.work import Job, Work
from covey.sim import channel, network, node
from covey.sim.trial import TOPOLOGIES, Trial, applies
from covey.strategies import advertisements, aggregation, policy, regions, subscriptions, told
from covey.strategies.maximal import maximal
from covey.strategies.told import Item

SEEDS = 600  # the rarest wrong rule shows in one trial of 300, the others in the first few

Patch = Callable[[pytest.MonkeyPatch], None]


def withdraw_first(patch: pytest.MonkeyPatch) -> None:
    """What a filter stood for is told after the filter is withdrawn."""

    def unsubscribed(self: Any, source: Link, gone: Item, distances: object) -> None:
        for link in self.site.neighbours():
            label = self.label(link, gone) if link != source else None
            if label is not None:
                self._told[link].remove(label)
                self.tell(link, Unsubscribe(label, tree=self.site.tree))
                self.announce(link, self.uncovered(link, Item(label, gone.filter)))

    patch.setattr(subscriptions.SubscriptionStrategy, "_unsubscribed", unsubscribed)


def uncover_nothing(patch: pytest.MonkeyPatch) -> None:
    """What a filter stood for is forgotten when it leaves."""
    patch.setattr(subscriptions.SubscriptionStrategy, "uncovered", lambda self, link, gone: [])


def replace_nothing(patch: pytest.MonkeyPatch) -> None:
    """A broader filter does not replace those it covers."""
    patch.setattr(subscriptions.SubscriptionStrategy, "superfluous", lambda self, link, items: [])


def stand_for_oneself(patch: pytest.MonkeyPatch) -> None:
    """A filter counts as needed although only the neighbour itself holds it."""
    right = subscriptions.SubscriptionStrategy.label

    def label(self: Any, link: Link, gone: Item) -> str | None:
        held = self.table.held(gone.filter, not_by="")
        return None if held else right(self, link, gone)

    patch.setattr(subscriptions.SubscriptionStrategy, "label", label)


def quench_by_the_table(patch: pytest.MonkeyPatch) -> None:
    """A filter is not told because the broker has a broader one, though the neighbour was not told that."""

    def quenched(self: Any, link: Link, item: Item) -> bool:
        others = (entry.filter for entry in self.table.entries() if entry.key != item.key)
        return any(other.covers(item.filter) for other in others)

    patch.setattr(subscriptions.SubscriptionStrategy, "quenched", quenched)


def ignore_new_advertisements(patch: pytest.MonkeyPatch) -> None:
    """Subscriptions do not follow an advertisement that comes later."""
    patch.setattr(subscriptions.SubscriptionStrategy, "advertised", lambda self, link, filter: iter(()))


def ignore_revocations(patch: pytest.MonkeyPatch) -> None:
    """Subscriptions stay where nobody publishes for them any more."""
    patch.setattr(subscriptions.SubscriptionStrategy, "unadvertised", lambda self, link, filter: iter(()))


def withdraw_all_on_revocation(patch: pytest.MonkeyPatch) -> None:
    """A revoked advertisement takes subscriptions with it that another one still wants."""
    right = subscriptions.SubscriptionStrategy.unadvertised

    def unadvertised(self: Any, link: Link, filter: Any) -> Job:
        wanted, self.site.wanted = self.site.wanted, lambda link, filter: False
        yield from right(self, link, filter)
        self.site.wanted = wanted

    patch.setattr(subscriptions.SubscriptionStrategy, "unadvertised", unadvertised)


def keep_what_a_lost_link_said(patch: pytest.MonkeyPatch) -> None:
    """What came over a lost link is not withdrawn."""

    patch.setattr(subscriptions.SubscriptionStrategy, "unlearn", lambda self, link, facts: None)


def trust_memory(patch: pytest.MonkeyPatch) -> None:
    """After a link has come up, what is remembered is taken for true."""

    def unchanged(remembered: Any, buckets: int, changed: Any) -> Work[list[Fact]]:
        yield 0
        return list(remembered)

    patch.setattr(digest, "unchanged", unchanged)


def deliver_every_copy(patch: pytest.MonkeyPatch) -> None:
    """Clients get an event from every tree it arrives on."""
    patch.setattr(seen.Seen, "add", lambda self, id: True)


def one_table_for_all_trees(patch: pytest.MonkeyPatch) -> None:
    """An event is sent over the first tree only."""
    patch.setattr(router.Router, "_publish_own", _first_tree_only)


def _first_tree_only(self: Any, message: Any, source: Link, local: Sequence[Any]) -> None:
    self._deliver(message, local)
    self._trees[0].forward(message, source, local)


def lose_unadvertised_events(patch: pytest.MonkeyPatch) -> None:
    """An event outside its publisher's advertisements is routed like any other."""
    patch.setattr(tree.TreePart, "is_advertised", lambda self, link, event: True)


def echo_at_once(patch: pytest.MonkeyPatch) -> None:
    """A probe is echoed by the first broker."""
    right = probes.Probes.probe
    patch.setattr(
        probes.Probes,
        "probe",
        lambda self, source, id, tree, neighbours, trees, emit: right(
            self, source, id, tree, [], trees, emit
        ),
    )


def move_in_one_jump(patch: pytest.MonkeyPatch) -> None:
    """A moving client unsubscribes before it subscribes."""
    right = network.Network.move
    patch.setattr(network.Network, "move", lambda self, s, broker: right(self, s, broker, exact=False))


def forget_what_was_delivered(patch: pytest.MonkeyPatch) -> None:
    """A moving client does not remember what it got."""
    patch.setattr(network, "REMEMBERED_EVENTS", 0)
    right = network.Network.__init__
    patch.setattr(
        network.Network,
        "__init__",
        lambda self, *args, **settings: right(self, *args, **{**settings, "remembered_events": 0}),
    )


def group_by_key(patch: pytest.MonkeyPatch) -> None:
    """A subscription leaves from another tree than it was put on."""
    trees = iter(range(10**9))
    patch.setattr(plan.TreePlan, "group", lambda self, broker, filter: next(trees) % len(self.trees))


def reduce_between_homes(patch: pytest.MonkeyPatch) -> None:
    """A filter is not told because one of another home covers it."""
    right = regions.Regions.quenched

    def quenched(self: Any, link: Link, item: Item) -> bool:
        return right(self, link, item) or self._told[link].cover(item.filter)

    patch.setattr(regions.Regions, "quenched", quenched)


def enter_nothing_again(patch: pytest.MonkeyPatch) -> None:
    """What a filter stood for in the directory is forgotten when it leaves."""
    patch.setattr(regions.Regions, "_uncovered", lambda self, gone: [])


def carry_by_another_tree(patch: pytest.MonkeyPatch) -> None:
    """On every tree an event goes as on tree 0."""
    right = carrying.Carrying.next_hop
    patch.setattr(
        carrying.Carrying, "next_hop", lambda self, tree, broker, host: right(self, 0, broker, host)
    )


def keep_entries_that_hide(patch: pytest.MonkeyPatch) -> None:
    """A filter that others here cover now stays in the directory."""
    patch.setattr(told.Told, "covered", lambda self, filter: [])


def send_over_the_next_link(patch: pytest.MonkeyPatch) -> None:
    """What was being served for a link that has gone down leaves over the one that came up since."""
    right = channel.Channel.send
    patch.setattr(
        channel.Channel, "send", lambda self, message, known: right(self, message, self.incarnation)
    )


def hear_of_links_first(patch: pytest.MonkeyPatch) -> None:
    """A router hears that a link has gone down before it handles what had come over it."""
    right = node.Node.arrive

    def arrive(self: Any, message: Any, source: Link, incarnation: int = 0) -> None:
        right(self, message, source, incarnation)
        if isinstance(message, LinkDown) and self._queue:
            self._queue.appendleft(self._queue.pop())

    patch.setattr(node.Node, "arrive", arrive)


def forget_a_member(patch: pytest.MonkeyPatch) -> None:
    """What a block is told as leaves one of its members out."""
    right = aggregation.told_as
    patch.setattr(aggregation, "told_as", lambda parts, blocks, bits: right(sorted(parts)[:-1], blocks, bits))


def release_whole_blocks(patch: pytest.MonkeyPatch) -> None:
    """When a member of a block leaves, the merger is withdrawn, and those that stay are not told again."""
    right = aggregation._Members.change

    def change(self: Any, removed: Sequence[Any], added: Sequence[Any]) -> None:
        right(self, removed, added)
        if removed:
            self.told = []

    patch.setattr(aggregation._Members, "change", change)


def forget_what_an_advertisement_covered(patch: pytest.MonkeyPatch) -> None:
    """When an advertisement leaves, those that only it covered are not told."""
    patch.setattr(policy.Uncovered, "uncovered", lambda self, told, candidates: [])
    patch.setattr(
        subscriptions.SubscriptionStrategy,
        "uncovered",
        lambda self, link, gone: [
            item
            for item in maximal(self._covered(link, gone.filter))
            if not self._told[link].cover(item.filter)
        ],
    )


def withdraw_shared_advertisements(patch: pytest.MonkeyPatch) -> None:
    """An advertisement is withdrawn though another producer has an equal one."""
    patch.setattr(advertisements._Holders, "held", lambda self, filter, *, not_by: False)


def hide_behind_equal_advertisements(patch: pytest.MonkeyPatch) -> None:
    """The first advertisement told quenches all later ones, whatever they are."""
    patch.setattr(
        advertisements.ByPolicy,
        "came",
        lambda self, key, one: Announcement([], []) if self._told else _right_came(self, key, one),
    )


_right_came = advertisements.ByPolicy.came


MUTANTS: list[tuple[str, Patch, bool]] = [
    ("covering", withdraw_first, False),
    ("covering", uncover_nothing, False),
    ("covering", replace_nothing, False),
    ("covering", stand_for_oneself, False),
    ("covering", quench_by_the_table, False),
    ("covering", ignore_new_advertisements, False),
    ("covering", ignore_revocations, False),
    ("covering", withdraw_all_on_revocation, False),
    ("covering", keep_what_a_lost_link_said, True),
    ("covering", trust_memory, True),
    ("covering", forget_what_an_advertisement_covered, False),
    ("identity", withdraw_shared_advertisements, False),
    ("simple", hide_behind_equal_advertisements, False),
    ("trees", deliver_every_copy, False),
    ("trees", one_table_for_all_trees, False),
    ("trees", group_by_key, False),
    ("regions", reduce_between_homes, False),
    ("regions", enter_nothing_again, False),
    ("regions", carry_by_another_tree, False),
    ("regions", keep_entries_that_hide, False),
    ("covering", lose_unadvertised_events, False),
    ("covering", echo_at_once, False),
    ("covering", move_in_one_jump, False),
    ("covering", forget_what_was_delivered, False),
    ("covering", send_over_the_next_link, True),
    ("simple", send_over_the_next_link, True),
    ("merging", send_over_the_next_link, True),
    ("covering", hear_of_links_first, True),
    ("aggregation", forget_a_member, False),
    ("aggregation", release_whole_blocks, False),
]


@pytest.mark.parametrize(
    ("strategy", "mutate", "faults"), MUTANTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_trials_notice_a_wrong_rule(
    strategy: str, mutate: Patch, faults: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    overlays = [topology for topology in TOPOLOGIES if applies(strategy, topology)]
    for seed in range(SEEDS):
        try:
            outcome = Trial(strategy, True, overlays[seed % len(overlays)], seed, faults).run()
        except (KeyError, AssertionError, ValueError):
            return  # it did not even run
        if outcome.findings:
            return
    pytest.fail(f"{mutate.__name__} went unnoticed in {SEEDS} trials: {mutate.__doc__}")
