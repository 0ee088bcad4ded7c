"""Faults of a scenario, as arrivals of the simulator: each begins at its time and is over at another.

Faults may overlap. A link is up again when the last fault that cut it is over, a broker when the last crash is; slow
links multiply. Whatever has no end lasts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod

from covey.sim.network import Network
from covey.sim.scripted import CRASH, LINK_DOWN, SLOW, Fault

Pair = tuple[str, str]


class Faults:
    """Counts what holds a link or a broker down, and remembers what slows a link."""

    def __init__(self, net: Network, faults: Iterable[Fault]) -> None:
        self._net = net
        self._cut: Counter[frozenset[str]] = Counter()
        self._crashed: Counter[str] = Counter()
        self._factors: dict[frozenset[str], list[float]] = {}
        self.begun = 0
        for fault in faults:
            net.at(fault.at_s, self._begin, fault)
            if fault.until_s is not None:
                net.at(fault.until_s, self._end, fault)

    def _begin(self, fault: Fault) -> None:
        self.begun += 1
        if fault.kind == CRASH:
            for broker in fault.brokers:
                self._crashed[broker] += 1
                if self._crashed[broker] == 1:
                    self._net.crash(broker)
        elif fault.kind == SLOW:
            self._factors.setdefault(_link(fault), []).append(fault.factor)
            self._slow(fault)
        else:
            for a, b in self._links(fault):
                self._cut[frozenset((a, b))] += 1
                self._net.link_down(a, b)

    def _end(self, fault: Fault) -> None:
        if fault.kind == CRASH:
            for broker in fault.brokers:
                self._crashed[broker] -= 1
                if not self._crashed[broker]:
                    self._net.restart(broker)
        elif fault.kind == SLOW:
            self._factors[_link(fault)].remove(fault.factor)
            self._slow(fault)
        else:
            for a, b in self._links(fault):
                self._cut[frozenset((a, b))] -= 1
                if not self._cut[frozenset((a, b))]:
                    self._net.link_up(a, b)

    def _links(self, fault: Fault) -> list[Pair]:
        """Return the links that a fault cuts: one, or all between its brokers and the others."""
        if fault.kind == LINK_DOWN:
            assert fault.link is not None
            return [fault.link]
        inside = set(fault.brokers)
        return [(a, b) for a, b in self._net.overlay.links if (a in inside) != (b in inside)]

    def _slow(self, fault: Fault) -> None:
        a, b = sorted(_link(fault))
        self._net.slow_down(a, b, prod(self._factors[_link(fault)]))


def _link(fault: Fault) -> frozenset[str]:
    assert fault.link is not None
    return frozenset(fault.link)
