"""A plan: which filters share a tree, what the trees are, and what that is said to cost; as a value and as a file.

The pipeline writes plans and whoever runs a network installs them. A plan stands alone: it names brokers, holds the
overlay it was made for, and filters in their wire form. One that exists can be used, whoever made it: every tree spans
the overlay on links that it has, and whatever is named is there.

The file is JSON: {"format": "covey-plan", "version": …, "checksum": …, "plan": …}. The version is 2 if brokers are to
merge filters or to send events over backup trees, which those before cannot, else 1. Trees are in it as numbers of
links. The checksum is over the plan's canonical bytes (keys sorted, no spaces, floats as Python writes them), so the
same plan is always the same file, and a file that was indented by hand is still good.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

from covey.core.filter import Filter
from covey.errors import PlanError
from covey.planning.aggregation.installed import PlannedMerging
from covey.planning.joining import MOST_WITNESSES, Joining, Witness, check_witness
from covey.routing.carrying import RULES
from covey.routing.plan import OneCopy, TreePlan

FORMAT = "covey-plan"
VERSION = 2
FIRST = 1  # of plans that merge nothing and have no backup trees in use, which brokers of before can install
MOST_BYTES = 1 << 30
MOST_BROKERS = 1 << 20

Links = tuple[tuple[str, str, float], ...]


class PlannedTree(NamedTuple):
    """A tree that spans the overlay: its root, and its links, sorted, each with the smaller name first."""

    root: str
    links: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Plan:
    """A plan that can be used; PlanError in one line for what is none.

    brokers      their names, sorted
    links        the overlay: (a, b, cost), a < b, sorted
    trees        at least one
    one_copy     None: an event travels on the tree of each group that wants it. "nearest": on one tree only, the one
                 whose root has the least sum of distances to the brokers that want it, the first of equals.
                 "cheapest": on one tree only, the one on which it crosses least, the first of equals. With either,
                 every tree serves all subscriptions
    groups       the tree of each (broker, filter in its wire form) that the planner knew
    home         the tree of filters that it did not know, by broker; 0 where nothing is said
    aggregation  what is merged where, a row for each; may be empty
    predictions  for each alternative that was looked at, numbers by name
    basis        what the plan was made from: counts, seed, a digest of the input
    witnesses    some sampled events, by which filters that the planner did not know find the group to join (`joining`);
                 may be empty: then they go home
    merging      which of that brokers do, with the filters themselves (`PlannedMerging`); None if nothing
    backups      trees beside `trees`, so that some tree joins all others whichever link or broker fails; may be empty.
                 With one copy, brokers send on over them what a failure is in the way of
    """

    method: str
    seed: int
    brokers: tuple[str, ...]
    links: Links
    trees: tuple[PlannedTree, ...]
    one_copy: str | None = None
    groups: Mapping[tuple[str, bytes], int] = field(default_factory=dict)
    home: Mapping[str, int] = field(default_factory=dict)
    aggregation: tuple[Mapping[str, Any], ...] = ()
    predictions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    basis: Mapping[str, Any] = field(default_factory=dict)
    witnesses: tuple[Witness, ...] = ()
    backups: tuple[PlannedTree, ...] = ()
    merging: PlannedMerging | None = None

    def __post_init__(self) -> None:
        known = _check_overlay(self.brokers, self.links)
        if not self.trees:
            raise PlanError("a plan has at least one tree")
        overlay = {(a, b) for a, b, _ in self.links}
        for number, tree in enumerate((*self.trees, *self.backups)):
            _check_tree(number, tree, known, overlay)
        if self.one_copy not in (None, *RULES):
            raise PlanError(
                f"a plan has no rule {self.one_copy!r:.40} for the only copy (hint: one of {', '.join(RULES)})"
            )
        uses = [
            *((broker, tree) for (broker, _), tree in self.groups.items()),
            *self.home.items(),
            *((row.get("broker", self.brokers[0]), row.get("tree", 0)) for row in self.aggregation),
        ]
        for broker, number in uses:
            if broker not in known:
                raise PlanError(f"the plan names a broker {broker!r:.80} that its overlay does not have")
            if type(number) is not int or not 0 <= number < len(self.trees):
                raise PlanError(f"the plan names tree {number!r:.40} and has {len(self.trees)}")
        if len(self.witnesses) > MOST_WITNESSES:
            raise PlanError(f"the plan has {len(self.witnesses)} witnesses; {MOST_WITNESSES} are the most")
        for witness in self.witnesses:
            check_witness(witness, known, len(self.trees))
        if self.merging is not None:
            if self.one_copy is not None:
                raise PlanError(
                    "a plan for one copy merges nothing: its brokers must know who wants an event"
                )
            self.merging.check([set(tree.links) for tree in self.trees])

    def tree_of(self, broker: str, filter: Filter) -> int:
        """Return the tree of a filter at a broker, also of one that the planner did not know."""
        known = self.groups.get((broker, filter.encode()))
        if known is not None:
            return known
        usual = self.home.get(broker, 0)
        return self._joining.choose(broker, filter, usual) if self.witnesses else usual

    @cached_property
    def _joining(self) -> Joining:
        costs = {(a, b): cost for a, b, cost in self.links}
        return Joining([tree.links for tree in self.trees], costs, self.witnesses)

    def to_tree_plan(self) -> TreePlan:
        """Return the plan as routers take it; its `strategy` names the one to follow it with."""
        trees = [tree.links for tree in self.trees]
        if self.one_copy is None:
            aggregation = None if self.merging is None else self.merging.aggregation
            return TreePlan(trees, self.tree_of, aggregation=aggregation)
        costs = {(a, b): cost for a, b, cost in self.links}
        roots = [tree.root for tree in (*self.trees, *self.backups)]
        rule = OneCopy(self.one_copy, roots, costs, spare=len(self.backups))
        return TreePlan([*trees, *(tree.links for tree in self.backups)], one_copy=rule)

    def encode(self) -> bytes:
        """Return the plan's file; equal plans give equal bytes."""
        number = {(a, b): place for place, (a, b, _) in enumerate(self.links)}
        groups: dict[str, dict[str, int]] = {}
        for (broker, encoded), tree in self.groups.items():
            groups.setdefault(broker, {})[b64encode(encoded).decode()] = tree
        plan = {
            "method": self.method,
            "seed": self.seed,
            "brokers": list(self.brokers),
            "links": [[a, b, float(cost)] for a, b, cost in self.links],
            "trees": [
                {"root": tree.root, "links": [number[link] for link in tree.links]} for tree in self.trees
            ],
            "one_copy": self.one_copy,
            "groups": groups,
            "home": dict(self.home),
            "aggregation": [dict(row) for row in self.aggregation],
            "witnesses": [
                {**one._asdict(), "wanted": {str(tree): list(wanted) for tree, wanted in one.wanted.items()}}
                for one in self.witnesses
            ],
            "predictions": {
                name: {what: float(value) for what, value in numbers.items()}
                for name, numbers in self.predictions.items()
            },
            "basis": dict(self.basis),
        }
        if self.backups:
            plan["backups"] = [
                {"root": tree.root, "links": [number[link] for link in tree.links]} for tree in self.backups
            ]
        if self.merging is not None:
            plan["merging"] = self.merging.as_dict()
        is_plain = self.merging is None and not (self.backups and self.one_copy)
        version = FIRST if is_plain else VERSION
        file = {"format": FORMAT, "version": version, "checksum": _checksum(plan), "plan": plan}
        return _canonical(file) + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Plan:
        """Return the plan of a file; PlanError in one line if it is none, damaged, or of a newer version."""
        plan = _read(data)
        try:
            links = tuple(
                (_typed(a, str, "link"), _typed(b, str, "link"), float(cost)) for a, b, cost in plan["links"]
            )
            return cls(
                method=_typed(plan["method"], str, "method"),
                seed=_typed(plan["seed"], int, "seed"),
                brokers=tuple(_typed(name, str, "broker") for name in plan["brokers"]),
                links=links,
                trees=tuple(
                    PlannedTree(tree["root"], _picked(links, tree["links"])) for tree in plan["trees"]
                ),
                one_copy=plan["one_copy"],
                groups={
                    (broker, b64decode(encoded, validate=True)): tree
                    for broker, mine in plan["groups"].items()
                    for encoded, tree in mine.items()
                },
                home=_typed(plan["home"], dict, "home"),
                aggregation=tuple(_typed(row, dict, "aggregation") for row in plan["aggregation"]),
                backups=tuple(
                    PlannedTree(tree["root"], _picked(links, tree["links"]))
                    for tree in plan.get("backups", ())
                ),
                merging=PlannedMerging.read(plan["merging"]) if "merging" in plan else None,
                # Plans of before have none.
                witnesses=tuple(_witness(row) for row in plan.get("witnesses", ())),
                predictions={
                    name: {what: float(value) for what, value in numbers.items()}
                    for name, numbers in plan["predictions"].items()
                },
                basis=_typed(plan["basis"], dict, "basis"),
            )
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise PlanError(f"the plan cannot be read: {' '.join(reason.split())[:200]}") from None


def _check_overlay(brokers: Sequence[str], links: Links) -> set[str]:
    if not 1 <= len(brokers) <= MOST_BROKERS:
        raise PlanError(f"a plan is for 1 to {MOST_BROKERS} brokers, not {len(brokers)}")
    if not brokers[0] or any(before >= after for before, after in pairwise(brokers)):
        raise PlanError("the brokers of a plan must have names, sorted and distinct")
    known = set(brokers)
    for a, b, cost in links:
        if a not in known or b not in known:
            raise PlanError(f"the link {a}–{b} has an end that is no broker of the plan"[:200])
        if not 0 < cost < math.inf:
            raise PlanError(f"the link {a}–{b} costs {cost}; a cost is positive and finite"[:200])
        if a >= b:
            raise PlanError(f"the link {a}–{b} must name the smaller broker first"[:200])
    if any(before[:2] >= after[:2] for before, after in pairwise(links)):
        raise PlanError("the links of a plan must be sorted and distinct")
    return known


def _check_tree(number: int, tree: PlannedTree, known: set[str], overlay: set[tuple[str, str]]) -> None:
    if tree.root not in known:
        raise PlanError(f"the root {tree.root!r:.80} of tree {number} is no broker of the plan")
    if any(before >= after for before, after in pairwise(tree.links)):
        raise PlanError(f"the links of tree {number} must be sorted and distinct")
    above: dict[str, str] = {}

    def top(broker: str) -> str:
        while (higher := above.setdefault(broker, broker)) != broker:
            above[broker] = broker = above.setdefault(higher, higher)
        return broker

    for link in tree.links:
        if link not in overlay:
            raise PlanError(f"tree {number} uses a link {link[0]}–{link[1]} that is not in the overlay"[:200])
        first, second = map(top, link)
        if first == second:
            raise PlanError(f"tree {number} has a cycle over the link {link[0]}–{link[1]}"[:200])
        above[first] = second
    if len(tree.links) != len(known) - 1:
        raise PlanError(
            f"tree {number} does not span the overlay: {len(tree.links)} links cannot join {len(known)} brokers"
        )


# -- the file --------------------------------------------------------------------------------------------------


def _read(data: bytes) -> dict[str, Any]:
    """Return what the file says is the plan, once format, version and checksum are right."""
    if len(data) > MOST_BYTES:
        raise PlanError(f"a plan of {len(data)} bytes is not read; {MOST_BYTES} are the most")
    try:
        file = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"this is no plan, as it is not JSON: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(file, dict) or file.get("format") != FORMAT:
        raise PlanError(f"this is no plan: its format is not {FORMAT}")
    version, plan = file.get("version"), file.get("plan")
    if type(version) is not int or version < 1:
        raise PlanError(f"the plan's version is {version!r:.40} and not a number from 1 on")
    if version > VERSION:
        raise PlanError(
            f"the plan is of version {version}, and {VERSION} is the newest that is known (hint: a newer Covey)"
        )
    if not isinstance(plan, dict) or file.get("checksum") != _checksum(plan):
        raise PlanError(
            "the plan is damaged: its checksum is wrong (hint: plan again, or fetch the file again)"
        )
    return plan


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")


def _canonical(value: object) -> bytes:
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise PlanError(f"the plan cannot be written: {' '.join(str(error).split())[:200]}") from None


def _checksum(plan: Mapping[str, Any]) -> str:
    return blake2b(_canonical(plan), digest_size=32).hexdigest()


def _typed(value: Any, kind: type, what: str) -> Any:
    if type(value) is not kind:
        raise TypeError(f"its {what} is a {type(value).__name__} and not a {kind.__name__}")
    return value


def _witness(row: Mapping[str, Any]) -> Witness:
    wanted = {
        int(tree): tuple(_typed(broker, str, "witness") for broker in brokers)
        for tree, brokers in row["wanted"].items()
    }
    publisher, language, content = (
        _typed(row[name], str, "witness") for name in ("publisher", "language", "content")
    )
    return Witness(publisher, language, content, wanted)


def _picked(links: Links, numbers: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    found = []
    for number in numbers:
        if type(number) is not int or not 0 <= number < len(links):
            raise ValueError(f"a tree uses link {number!r:.40} and there are {len(links)}")
        found.append(links[number][:2])
    return tuple(found)
