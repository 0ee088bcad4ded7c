"""Topologies: which brokers there are, which of them are linked, and what part each plays.

A topology is a value. Its brokers and links keep the order in which they were given, and every answer follows that
order, so that nothing depends on hashing. Links have no direction; there is one at most between two brokers, none from
a broker to itself. Roles name groups of brokers that experiments ask for: where producers and consumers sit, which
brokers are the core. Most strategies need a tree; `spanning_tree` makes one of any connected topology.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from covey.errors import ConfigError

Link = tuple[str, str]


@dataclass(frozen=True)
class Topology:
    """Brokers, the links between them and their roles; ConfigError for what cannot be one."""

    name: str
    links: tuple[Link, ...]
    brokers: tuple[str, ...]
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        known = set(self.brokers)
        if not known:
            raise ConfigError(f"topology {self.name!r} has no broker")
        if len(known) < len(self.brokers):
            twice = next(b for i, b in enumerate(self.brokers) if b in self.brokers[:i])
            raise ConfigError(f"topology {self.name!r} has the broker {twice!r} twice")
        seen: set[Link] = set()
        for a, b in self.links:
            problem = link_problem(a, b, seen, known)
            if problem:
                raise ConfigError(f"topology {self.name!r}: {problem}")
            seen.add(one_way(a, b))
        for role, brokers in self.roles.items():
            for broker in brokers:
                if broker not in known:
                    raise ConfigError(f"topology {self.name!r}: role {role} has unknown broker {broker!r}")

    def role(self, name: str) -> tuple[str, ...]:
        """Return the brokers that play this role; ConfigError that lists the roles when nobody does."""
        if not self.roles.get(name):
            known = ", ".join(self.roles) or "none"
            raise ConfigError(f"topology {self.name!r} has no role {name!r}; it has: {known}")
        return self.roles[name]

    @cached_property
    def neighbours(self) -> Mapping[str, tuple[str, ...]]:
        """The brokers linked to each broker, in the order of the links."""
        found: dict[str, list[str]] = {broker: [] for broker in self.brokers}
        for a, b in self.links:
            found[a].append(b)
            found[b].append(a)
        return {broker: tuple(others) for broker, others in found.items()}

    @property
    def is_connected(self) -> bool:
        """Whether every broker can be reached from every other."""
        return self._forest.components == 1

    @property
    def has_cycle(self) -> bool:
        """Whether two brokers are joined by more than one path."""
        return len(self.links) > len(self.brokers) - self._forest.components

    @property
    def is_tree(self) -> bool:
        """Whether exactly one path joins every two brokers."""
        return self.is_connected and not self.has_cycle

    def rings(self, root: str) -> Iterator[list[str]]:
        """Yield the brokers at distance 0, 1, 2 … from the root, as far as they can be reached."""
        self._check_known(root)
        seen = {root}
        ring = [root]
        while ring:
            yield ring
            following = []
            for broker in ring:
                for other in self.neighbours[broker]:
                    if other not in seen:
                        seen.add(other)
                        following.append(other)
            ring = following

    def distances(self, root: str) -> dict[str, int]:
        """Return how many links away each broker is that can be reached from the root, nearest first."""
        return {broker: hops for hops, ring in enumerate(self.rings(root)) for broker in ring}

    def path(self, a: str, b: str) -> tuple[str, ...]:
        """Return the brokers from a to b, both included; only for trees, where there is one path."""
        self._check_known(a)
        self._check_known(b)
        if not self.is_tree:
            raise ConfigError(f"topology {self.name!r} is not a tree: a path needs its spanning_tree()")
        parent, depth = self._forest.parent, self._forest.depth
        up, down = [a], [b]
        while up[-1] != down[-1]:
            side = up if depth[up[-1]] >= depth[down[-1]] else down
            above = parent[side[-1]]
            assert above is not None, "two brokers of a tree meet at its root at the latest"
            side.append(above)
        return (*up, *reversed(down[:-1]))

    def spanning_tree(self, root: str | None = None) -> Topology:
        """Return the tree of shortest paths from the root, the first broker unless told; ConfigError if unconnected."""
        if not self.is_connected:
            raise ConfigError(f"topology {self.name!r} is not connected and has no spanning tree")
        root = self.brokers[0] if root is None else root
        parents = self._forest.parent if root == self.brokers[0] else self._grow(root)
        kept = {one_way(broker, parent) for broker, parent in parents.items() if parent is not None}
        links = tuple(link for link in self.links if one_way(*link) in kept)
        return Topology(f"{self.name}-tree", links, self.brokers, self.roles)

    @cached_property
    def _forest(self) -> _Forest:
        parent: dict[str, str | None] = {}
        components = 0
        for root in self.brokers:
            if root not in parent:
                components += 1
                parent.update(self._grow(root))
        depth: dict[str, int] = {}
        for broker, above in parent.items():
            depth[broker] = 0 if above is None else depth[above] + 1
        return _Forest(components, parent, depth)

    def _grow(self, root: str) -> dict[str, str | None]:
        """Return the parent of each broker that can be reached from the root, parents before children."""
        parent: dict[str, str | None] = {root: None}
        for ring in self.rings(root):
            for broker in ring:
                for other in self.neighbours[broker]:
                    parent.setdefault(other, broker)
        return parent

    def _check_known(self, broker: str) -> None:
        if broker not in self.neighbours:
            raise ConfigError(f"topology {self.name!r} has no broker {broker!r:.60}")


@dataclass(frozen=True)
class _Forest:
    """A tree of shortest paths in each component, from its first broker."""

    components: int
    parent: Mapping[str, str | None]
    depth: Mapping[str, int]


def one_way(a: str, b: str) -> Link:
    """Return the link between two brokers, the same whichever is named first."""
    return (a, b) if a <= b else (b, a)


def link_problem(a: str, b: str, seen: set[Link], known: set[str] | None = None) -> str | None:
    """Return what is wrong with a link in one sentence, or None; `seen` has those before it, by `one_way`."""
    for broker in (a, b):
        if known is not None and broker not in known:
            return f"a link has the unknown broker {broker!r:.60}"
    if a == b:
        return f"the broker {a!r:.60} is linked to itself"
    if one_way(a, b) in seen:
        return f"the link between {a!r:.60} and {b!r:.60} is there twice"
    return None
