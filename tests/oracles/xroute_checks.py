"""What must be true of every network that routes by XROUTE, in either form: after each message, and at rest.

`check_instances` looks inside brokers and holds at every moment. `check_rest` compares neighbours with each other and
with what the simulation knows of everyone: it holds when nothing is under way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from covey.core.filter import Filter
from covey.sim import Network
from covey.strategies.xroute.counted import XRoute
from covey.strategies.xroute.instance import Instance
from covey.strategies.xroute.table import is_above


def strategy_of(net: Network, broker: str) -> Any:
    """Return the strategy of a broker."""
    return net.nodes[broker].router.trees[0].strategy


# -- at every moment -------------------------------------------------------------------------------------------


def check_instances(net: Network) -> None:
    """Check each broker by itself."""
    for broker in net.brokers:
        strategy = strategy_of(net, broker)
        for link in strategy.site.neighbours():
            check_link(strategy, link)
            if isinstance(strategy, XRoute):
                check_instance(strategy, link, strategy.instances[link])


def check_link(strategy: Any, link: str) -> None:
    """Of what a neighbour let us know, none is above another, and counts are counts."""
    entries = strategy.table.of_link(link)
    for entry in entries:
        assert entry.own > 0
        assert entry.others >= 0
        assert not any(is_above(entry.filter, other.filter) for other in entries), (link, entry.filter)


def check_instance(strategy: XRoute, link: str, instance: Instance) -> None:
    """Check the rules of an instance, Property 5 among them, and that it has what the neighbour wants and no more."""
    wanted = {f for f in strategy.table.filters(not_of=link) if strategy.site.wanted(link, f)}
    assert set(instance.entries) == wanted, "an instance has other filters than are wanted"
    tops = list(instance.tops.values())
    assert set(tops) == {entry for entry in instance.entries.values() if entry.above is None}
    for top in tops:
        assert not any(is_above(top.filter, other.filter) for other in tops), "a top is above a top"
    for entry in instance.entries.values():
        own, others = strategy.table.counts(entry.filter, not_of=link)
        assert entry.own == own > 0, f"{entry.filter} is counted {entry.own}, not {own}"
        others += sum(lower.own + lower.others for lower in entry.below)
        assert entry.others == others, f"{entry.filter} stands for {entry.others}, not {others} (Property 5)"
        for lower in entry.below:
            assert lower.above is entry
            assert instance.entries.get(lower.filter) is lower
            assert is_above(entry.filter, lower.filter)
        if entry.above is not None:
            assert entry in entry.above.below
            assert instance.entries.get(entry.above.filter) is entry.above, "below an entry that is gone"


# -- at rest -----------------------------------------------------------------------------------------------------


def check_rest(net: Network, events: Sequence[Any]) -> None:
    """Check each link, and where each event goes from each broker that may publish it."""
    for broker in net.brokers:
        for link in net.overlay.neighbours[broker]:
            check_mirror(net, broker, link)
            check_known(net, broker, link)
    check_population(net)
    for broker in net.brokers:
        for event in events:
            if may_publish(net, broker, event):
                assert route(net, broker, event) == wanted_route(net, broker, event), (broker, event)


def check_mirror(net: Network, broker: str, link: str) -> None:
    """Property 6: what we have of a neighbour is what it says it told us, with both counts."""
    told, heard = strategy_of(net, link).told(broker), strategy_of(net, broker).heard(link)
    assert {(f.filter, f.counts) for f in told} == {(f.filter, f.counts) for f in heard}, "Property 6"
    assert len(told) == len(heard)


def check_known(net: Network, broker: str, link: str) -> None:
    """What is known of a neighbour is the maximal ones of what is wanted behind it, each with its own count."""
    there = behind(net, broker, link)
    here = set(net.brokers) - there
    subscribed = Counter(
        subscription.filter
        for subscription in net.subscriptions.values()
        if subscription.broker in there and addressed(net, here, subscription.filter)
    )
    expected = {f: n for f, n in subscribed.items() if not any(is_above(other, f) for other in subscribed)}
    facts = strategy_of(net, broker).heard(link)
    assert {fact.filter for fact in facts} == set(expected)
    if isinstance(strategy_of(net, broker), XRoute):
        assert {fact.filter: fact.counts[0] for fact in facts} == expected


def check_population(net: Network) -> None:
    """Both counts of all tops together are the subscriptions that there are, as far as they are addressed."""
    for broker in net.brokers:
        strategy = strategy_of(net, broker)
        if not isinstance(strategy, XRoute):
            return
        for link, instance in strategy.instances.items():
            counted = sum(top.own + top.others for top in instance.tops.values())
            there = behind(net, broker, link)
            here = [s.filter for s in net.subscriptions.values() if s.broker not in there]
            if net.advertisements:
                # What stands for a filter counts it even towards producers that do not serve that one.
                assert sum(addressed(net, there, f) for f in here) <= counted <= len(here)
            else:
                assert counted == len(here)


def check_empty(net: Network) -> None:
    """Nothing is left in any broker."""
    for broker in net.brokers:
        strategy = strategy_of(net, broker)
        assert len(strategy.table) == 0
        for link in strategy.site.neighbours():
            assert strategy.told(link) == []
            if isinstance(strategy, XRoute):
                assert not strategy.instances[link].entries


# -- what the simulation knows -----------------------------------------------------------------------------------


def behind(net: Network, broker: str, link: str) -> set[str]:
    """Return the brokers on the far side of a link."""
    found, todo = {link}, [link]
    while todo:
        for other in net.overlay.neighbours[todo.pop()]:
            if other != broker and other not in found:
                found.add(other)
                todo.append(other)
    return found


def addressed(net: Network, brokers: Iterable[str], filter: Filter) -> bool:
    """Return whether a producer at one of the brokers may publish what the filter matches."""
    if not net.advertisements:
        return True
    among = set(brokers)
    return any(ad.broker in among and ad.filter.overlaps(filter) for ad in net.live_advertisements())


def may_publish(net: Network, broker: str, event: Any) -> bool:
    """Return whether a producer at the broker has announced the event."""
    if not net.advertisements:
        return True
    return any(ad.broker == broker and ad.filter.matches(event) for ad in net.live_advertisements())


def route(net: Network, broker: str, event: Any) -> set[tuple[str, str]]:
    """Return the links that an event takes from a broker on, by the brokers' tables."""
    taken: set[tuple[str, str]] = set()
    todo = [(broker, "")]
    while todo:
        here, source = todo.pop()
        strategy = strategy_of(net, here)
        for link in strategy.ordered(strategy.table.links(event), source):
            taken.add((here, link))
            todo.append((link, here))
    return taken


def wanted_route(net: Network, broker: str, event: Any) -> set[tuple[str, str]]:
    """Return the links that it must take: those on the ways to whoever wants it."""
    homes = {s.broker for s in net.subscriptions.values() if s.filter.matches(event)}
    taken: set[tuple[str, str]] = set()
    todo = [(broker, "")]
    while todo:
        here, source = todo.pop()
        for link in net.overlay.neighbours[here]:
            if link != source and behind(net, here, link) & homes:
                taken.add((here, link))
                todo.append((link, here))
    return taken
