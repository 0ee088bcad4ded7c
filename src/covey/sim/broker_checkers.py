"""What must be true of whole brokers at rest, when nothing fails. Each check returns what is wrong, one line a finding.

    links       every link that can be is connected, and those of the overlay's tree are attached at both ends
    mirror      what a broker has from a neighbour is what that neighbour told it, in every epoch and tree
    coverage    what a broker has from a neighbour covers all interest behind it that the broker's side may serve
    reduction   and is no more than the strategy's reduction of it, where there is one
    bounds      nothing is left in memory of what has arrived: no outbox, no batch, no plan that is not in use
    memory      no more waits for a connection, of one or on a disk than the settings allow; at any time
    emptiness   when nobody wants or announces anything, nobody knows anything

`checkers` has the same for routers alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from covey.broker.durable.delivery import KIND as OUTBOX
from covey.broker.scheduling import HELD_AT
from covey.core.filter import Filter
from covey.protocol.events import ENVELOPE
from covey.protocol.outbox import BLOCK
from covey.routing.digest import Fact
from covey.routing.messages import Tree
from covey.routing.strategy import registered
from covey.routing.tree import TreePart
from covey.sim.brokers import BrokerNetwork
from covey.sim.disk import Disk
from covey.strategies.reductions import REDUCTIONS

LEAST_EVENT = ENVELOPE.size  # bytes
MOST_EPOCHS = 2  # at rest: the overlay's own, and a plan


class Interests(NamedTuple):
    """What clients want and announce, with the broker where they do."""

    subscriptions: Sequence[tuple[str, Filter]]
    advertisements: Sequence[tuple[str, Filter]]


def check_all(net: BrokerNetwork, interests: Interests) -> list[str]:
    """Return everything that is wrong with the links and tables of a network at rest."""
    return [*links(net), *mirror(net), *tables(net, interests)]


def links(net: BrokerNetwork) -> list[str]:
    """Return which links are not as they must be."""
    findings = []
    attached = 0
    for a, b in net.links:
        here, there = net.machines[a].core.neighbours, net.machines[b].core.neighbours
        if b not in here.connected or a not in there.connected:
            findings.append(f"links: {a} and {b} are not connected")
        if (b in here.attached) != (a in there.attached):
            findings.append(f"links: {a} and {b} disagree on whether their link is used")
        attached += b in here.attached
    if not findings and attached != len(net.brokers) - 1:
        findings.append(f"links: {attached} links are used, which is no tree of {len(net.brokers)} brokers")
    return findings


def _parts(net: BrokerNetwork) -> dict[tuple[int, Tree], dict[str, TreePart]]:
    """Return what each broker has of each tree of each epoch."""
    found: dict[tuple[int, Tree], dict[str, TreePart]] = {}
    for name, machine in net.machines.items():
        for epoch, router in machine.core.epochs.routers.items():
            for tree, part in router.trees.items():
                found.setdefault((epoch, tree), {})[name] = part
    return found


def mirror(net: BrokerNetwork) -> list[str]:
    """Return where a broker has something else from a neighbour than the neighbour told it."""
    findings = []
    for (epoch, tree), parts in _parts(net).items():
        for receiver, sender in _directions(parts):
            heard = _facts(parts[receiver].strategy.heard(sender))
            told = _facts(parts[sender].strategy.told(receiver))
            if heard != told:
                only = sorted(map(str, told - heard)) or sorted(map(str, heard - told))
                where = f"in epoch {epoch} on tree {tree}"
                findings.append(f"mirror: {receiver} and {sender} disagree {where} about {only[0]}")
    return findings


def _directions(parts: dict[str, TreePart]) -> Iterator[tuple[str, str]]:
    """Yield receiver and sender for each direction of each link of a tree."""
    for receiver, part in parts.items():
        for sender in sorted(part.neighbours()):
            if sender in parts and receiver in parts[sender].neighbours():
                yield receiver, sender


def _facts(facts: Sequence[Fact]) -> Counter[tuple[str, str, str, tuple[int, ...]]]:
    return Counter((fact.key, str(fact.filter), fact.owner, fact.counts) for fact in facts)


def tables(net: BrokerNetwork, interests: Interests) -> list[str]:
    """Return where the overlay's own tables do not cover the interest behind a link, or are not its reduction."""
    findings: list[str] = []
    for (epoch, _), parts in _parts(net).items():
        is_own = not any(machine.core.epochs.is_planned(epoch) for machine in net.machines.values())
        if (
            not is_own
            or set(parts) != set(net.brokers)
            or any(len(_trees(net, name, epoch)) > 1 for name in parts)
        ):
            continue
        for receiver, sender in _directions(parts):
            findings += _table(net, parts, receiver, sender, interests)
    return findings


def _trees(net: BrokerNetwork, broker: str, epoch: int) -> Mapping[Tree, TreePart]:
    return net.machines[broker].core.epochs.routers[epoch].trees


def _table(
    net: BrokerNetwork, parts: dict[str, TreePart], receiver: str, sender: str, interests: Interests
) -> list[str]:
    strategy = registered(net.machines[sender].config.strategy).name
    spec = REDUCTIONS.get(strategy)
    if spec is REDUCTIONS["flooding"]:
        return []
    behind, ahead = _side(parts, sender, receiver), _side(parts, receiver, sender)
    wanted = [filter for broker, filter in interests.subscriptions if broker in behind]
    if net.machines[sender].config.advertisements:
        announced = [filter for broker, filter in interests.advertisements if broker in ahead]
        wanted = [filter for filter in wanted if any(one.overlaps(filter) for one in announced)]
    heard = [fact.filter for fact in parts[receiver].strategy.heard(sender)]
    findings = [
        f"coverage: {receiver} does not know that {filter} is wanted behind {sender}"
        for filter in dict.fromkeys(wanted)
        if not any(known.covers(filter) for known in heard)
    ]
    if spec is not None and spec.along_paths and not spec.by_home and not findings:
        due = Counter(spec.reduce(wanted))
        if Counter(heard) != due:
            findings.append(
                f"reduction: {receiver} has from {sender} {sorted(map(str, heard))} "
                f"and not {sorted(map(str, due.elements()))}"
            )
    return findings


def _side(parts: dict[str, TreePart], first: str, other: str) -> set[str]:
    """Return the brokers on the side of the first, if its link to the other is taken away."""
    found, new = {first}, [first]
    while new:
        one = new.pop()
        for name in parts[one].neighbours():
            if name in parts and name not in found and (one, name) != (first, other):
                found.add(name)
                new.append(name)
    return found


def bounds(net: BrokerNetwork) -> list[str]:
    """Return what brokers hold in memory although all is done, beside what is on their disks."""
    findings = []
    for name, machine in net.machines.items():
        core = machine.core
        report = core.durable.report()
        left = {
            "batches that the disk has not answered": report.get("pending", 0),
            "input of connections": core.scheduler.count,
            "frames in outboxes": sum(one.connection.outbox.count for one in core.peers.values()),
            "events for neighbours": report.get("outbox_events", 0) - _stored_for_neighbours(machine.disk),
        }
        findings += [f"bounds: {name} holds {count:g} {what}" for what, count in left.items() if count]
        epochs = core.epochs
        if len(epochs.routers) > MOST_EPOCHS + len(epochs.state.plans):
            findings.append(f"bounds: {name} has routers of {len(epochs.routers)} epochs")
        clients = sum(one.is_greeted and one.broker == name for one in net.clients.values())
        if len(core.clients) != clients:
            findings.append(f"bounds: {name} has {len(core.clients)} clients, and {clients} are connected")
    return findings


def _stored_for_neighbours(disk: Disk) -> int:
    """Return how many events wait for neighbours on a disk, which may be for a good reason."""
    owners = disk.owners
    return sum(
        len(waiting)
        for owner, waiting in disk.queues.items()
        if owner in owners and owners[owner].kind == OUTBOX
    )


def memory(net: BrokerNetwork) -> list[str]:
    """Return where more waits than the settings of a broker allow; cheap, and true at any time."""
    findings = []
    for name, machine in net.machines.items():
        if not machine.is_up:
            continue
        peers = machine.core.peers
        # Those who fill a queue that blocks them are not read any longer; what was read of them is taken.
        beyond = (len(peers) - 1) * net.stream_bytes
        for peer in peers.values():
            outbox = peer.connection.outbox
            bounds, is_blocking = outbox.bounds, outbox.bounds.policy == BLOCK
            if outbox.count > bounds.events + (beyond // LEAST_EVENT if is_blocking else 0):
                findings.append(f"memory: {outbox.count} events wait at {name}, and {bounds.events} may")
            if outbox.size > bounds.bytes + bounds.control_bytes + (beyond if is_blocking else 0):
                findings.append(f"memory: {outbox.size} bytes wait at {name}, and {bounds.bytes} may")
        used, most = machine.used_bytes, machine.config.max_store_bytes
        if used > most:
            findings.append(f"memory: {used} bytes are on the disk of {name}, and {most} may be")
        if machine.core.scheduler.count > len(peers) * HELD_AT:
            findings.append(f"memory: {machine.core.scheduler.count} frames wait to be handled at {name}")
    return findings


def emptiness(net: BrokerNetwork) -> list[str]:
    """Return who still knows something after everybody has left."""
    findings = []
    for (epoch, tree), parts in _parts(net).items():
        for name, part in parts.items():
            for link in sorted(part.neighbours()):
                for what, facts in (
                    ("knows from", part.strategy.heard(link)),
                    ("told", part.strategy.told(link)),
                ):
                    if facts:
                        where = f"in epoch {epoch} on tree {tree}"
                        findings.append(f"emptiness: {name} still {what} {link} {facts[0].filter} {where}")
                if part.advertised.of_link(link):
                    findings.append(f"emptiness: {name} still has an advertisement from {link}")
    for name, machine in net.machines.items():
        waiting = sum(map(len, machine.disk.queues.values()))
        if waiting:
            findings.append(f"emptiness: {waiting} events are on the disk of {name}")
        kept = [one for one in machine.disk.owners.values() if one.kind == "subscription"]
        if kept:
            findings.append(
                f"emptiness: the durable subscription of {kept[0].client} is on the disk of {name}"
            )
    return findings
