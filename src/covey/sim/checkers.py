"""What must be true of a network at rest, whatever its strategy. Each check returns what is wrong, one line a finding.

    mirror      what a broker has from a neighbour is what that neighbour told it
    coverage    what a broker has from a neighbour covers all interest behind it that the broker's side may serve
    reduction   and is no more than the strategy's reduction of it, where there is one
    advertised  what a broker knows of advertisements is the reduction of what the neighbour has from others
    emptiness   when nobody wants or announces anything, nobody knows anything

They ask the brokers and the simulator's own knowledge of the clients, never the tables alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from covey.core.filter import Filter
from covey.routing.advertisements import Advertisement
from covey.routing.digest import Fact
from covey.routing.messages import Greet, Key, Link, Message, Pack, Subscribe, Sync, Tree, Unsubscribe
from covey.routing.strategy import registered
from covey.sim.network import Network
from covey.strategies.merging.reduction import merged
from covey.strategies.reductions import REDUCTIONS, Reduce, distinct, everything, uncovered

Finding = str


def check_all(net: Network) -> list[Finding]:
    """Return everything that is wrong with a network at rest."""
    return [*mirror(net), *coverage(net), *reduction(net), *advertised(net)]


def _up(net: Network) -> Iterator[tuple[Tree, str, str]]:
    """Yield tree, receiver and sender for each direction of each link that is up."""
    for (sender, receiver), channel in net.channels.items():
        if channel.is_up:
            for tree, part in net.nodes[receiver].router.trees.items():
                if sender in part.neighbours():
                    yield tree, receiver, sender


def _known(net: Network, broker: str, tree: Tree) -> Callable[[Link], list[Fact]]:
    return net.nodes[broker].router.trees[tree].strategy.heard


def mirror(net: Network) -> list[Finding]:
    """Return where a broker has something else from a neighbour than the neighbour told it."""
    findings = []
    for tree, receiver, sender in _up(net):
        heard = _facts(_known(net, receiver, tree)(sender))
        told = _facts(net.nodes[sender].router.trees[tree].strategy.told(receiver))
        if heard != told:
            only = sorted(map(_text, told - heard)) or sorted(map(_text, heard - told))
            findings.append(
                f"mirror: {receiver} and {sender} disagree on tree {tree}, for example about {only[0]}"
            )
    return findings


def mirror_under_way(net: Network) -> list[Finding]:
    """Return where a broker's entries, once all under way to it has arrived, would not be what it was told.

    At any moment, not only at rest; for strategies that exchange subscriptions under keys.
    """
    findings = []
    for tree, receiver, sender in _up(net):
        under_way = net.under_way(sender, receiver)
        open_there = receiver in net.nodes[sender].router.trees[tree].neighbours()
        if (
            under_way is None
            or not open_there
            or net.nodes[sender].router.is_busy(receiver)
            or net.nodes[receiver].router.is_busy(sender)
            or any(isinstance(message, Greet | Sync) for message in under_way)
        ):
            continue  # the link is just coming up
        entries = {fact.key: fact.filter for fact in _known(net, receiver, tree)(sender)}
        for message in under_way:
            if getattr(message, "tree", None) == tree:
                _apply(message, entries)
        told = {
            fact.key: fact.filter for fact in net.nodes[sender].router.trees[tree].strategy.told(receiver)
        }
        if entries != told:
            findings.append(f"mirror: what {sender} told {receiver} on tree {tree} is not what arrives there")
    return findings


def _apply(message: Message, entries: dict[Key, Filter]) -> None:
    """Do to the entries what the message will do."""
    match message:
        case Subscribe():
            entries[message.key] = message.filter
        case Unsubscribe():
            entries.pop(message.key, None)
        case Pack():
            for inner in message.messages:
                _apply(inner, entries)


def _facts(facts: list[Fact]) -> Counter[tuple[str, Filter, str, tuple[int, ...]]]:
    return Counter((fact.key, fact.filter, fact.owner, fact.counts) for fact in facts)


def _text(fact: tuple[str, Filter, str, tuple[int, ...]]) -> tuple[str, str, str, tuple[int, ...]]:
    key, filter, owner, counts = fact
    return key, str(filter), owner, counts


def interest_behind(
    net: Network, tree: Tree, receiver: str, sender: str, reduce_homes: Reduce | None = None
) -> list[Filter]:
    """Return the filters of clients behind the sender that producers on the receiver's side may serve.

    With `reduce_homes` the filters of each broker are reduced by themselves before it is asked who serves them.
    """
    behind = net.overlay.behind(tree, receiver, sender, net.is_link_up)
    ahead = net.overlay.behind(tree, sender, receiver, net.is_link_up)
    homes: dict[str, list[Filter]] = {}
    for subscription in net.subscriptions.values():
        if subscription.broker in behind and net.tree_of(subscription) == tree:
            home = subscription.broker if reduce_homes is not None else ""
            homes.setdefault(home, []).append(subscription.filter)
    wanted = [
        filter
        for filters in homes.values()
        for filter in (filters if reduce_homes is None else reduce_homes(filters))
    ]
    if not net.advertisements:
        return wanted
    announced = [ad.filter for ad in net.live_advertisements() if ad.broker in ahead]
    return [filter for filter in wanted if any(ad.overlaps(filter) for ad in announced)]


def coverage(net: Network) -> list[Finding]:
    """Return where interest behind a link is not covered by what came over it."""
    findings = []
    for tree, receiver, sender in _up(net):
        if REDUCTIONS.get(_strategy(net, sender)) is REDUCTIONS["flooding"]:
            continue
        heard = [fact.filter for fact in _known(net, receiver, tree)(sender)]
        findings += [
            f"coverage: {receiver} does not know that {filter} is wanted behind {sender}"
            for filter in dict.fromkeys(interest_behind(net, tree, receiver, sender))
            if not any(known.covers(filter) for known in heard)
        ]
    return findings


def reduction(net: Network) -> list[Finding]:
    """Return where what came over a link is not the reduction of the interest behind it."""
    findings = []
    for tree, receiver, sender in _up(net):
        spec = REDUCTIONS.get(_strategy(net, sender))
        if spec is None or len(set(net.overlay.strategy_of.values())) > 1:
            continue
        if spec.by_home:
            due = interest_behind(net, tree, receiver, sender, spec.reduce)
        elif spec.along_paths:
            due = spec.reduce(interest_behind(net, tree, receiver, sender))
        else:
            due = spec.reduce(_entries_for(net, tree, receiver, sender))
        expected = Counter(due)
        heard = Counter(fact.filter for fact in _known(net, receiver, tree)(sender))
        if heard != expected:
            findings.append(
                f"reduction: {receiver} has from {sender} {sorted(map(str, heard.elements()))} "
                f"and not {sorted(map(str, expected.elements()))}"
            )
    return findings


_ADVERTISED: Final[dict[str, Reduce]] = {
    "none": everything,
    "identity": distinct,
    "covering": uncovered,
    "merging": merged,
}


def advertised(net: Network) -> list[Finding]:
    """Return where advertisements known over a link are not the reduction of what the sender has from others."""
    if not net.advertisements:
        return []
    reduce, findings = _ADVERTISED[net.reduce_advertisements], []
    for tree, receiver, sender in _up(net):
        part = net.nodes[sender].router.trees[tree]
        by_publisher = registered(net.overlay.strategy_of[sender]).names_publishers
        due: dict[str, dict[Key, Filter]] = {}
        for place in part.advertised.not_of(receiver):
            one = part.advertised.of_link(place[0])[place[1]]
            due.setdefault(one.publisher if by_publisher else "", {})[place[1]] = one.filter
        expected = Counter(filter for some in due.values() for filter in reduce(list(some.values())))
        heard = Counter(one.filter for one in _advertised(net, receiver, tree, sender))
        if heard != expected:
            findings.append(
                f"advertisements: {receiver} has from {sender} {sorted(map(str, heard.elements()))} "
                f"and not {sorted(map(str, expected.elements()))}"
            )
    return findings


def _advertised(net: Network, receiver: str, tree: Tree, sender: str) -> list[Advertisement]:
    return list(net.nodes[receiver].router.trees[tree].advertised.of_link(sender).values())


def _entries_for(net: Network, tree: Tree, receiver: str, sender: str) -> list[Filter]:
    """Return what the sender's own table has that the receiver wants."""
    router = net.nodes[sender].router
    part = router.trees[tree]
    filters = [
        fact.filter for link in part.neighbours() if link != receiver for fact in part.strategy.heard(link)
    ]
    filters += [
        subscription.filter
        for subscription in net.subscriptions.values()
        if subscription.broker == sender and net.tree_of(subscription) == tree
    ]
    return [filter for filter in filters if part.wanted(receiver, filter)]


def _strategy(net: Network, broker: str) -> str:
    return registered(net.overlay.strategy_of[broker]).name


def emptiness(net: Network) -> list[Finding]:
    """Return who still knows something after everybody has left."""
    findings = []
    for broker, node in net.nodes.items():
        for tree, part in node.router.trees.items():
            for link in part.neighbours():
                for what, facts in (
                    ("knows from", part.strategy.heard(link)),
                    ("told", part.strategy.told(link)),
                ):
                    if facts:
                        findings.append(
                            f"emptiness: {broker} still {what} {link} {facts[0].filter}, tree {tree}"
                        )
                if part.advertised.of_link(link):
                    findings.append(f"emptiness: {broker} still has an advertisement from {link}")
        if any(node.router.local_subscriptions().values()):
            findings.append(f"emptiness: {broker} still has a client's subscription")
    return findings
