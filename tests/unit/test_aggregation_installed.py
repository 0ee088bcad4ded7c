"""Merging that brokers do: from what paper W's algorithms choose to tables, messages and delays in the simulator.

The forecast says beforehand what a network will do; the simulator does it; and the filters alone say what must arrive.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import DataObject, data, integers

import covey
from covey.advisor.forecast import forecast, measure
from covey.advisor.replay import Candidate, replay
from covey.advisor.traffic import Placed, Published, Traffic
from covey.core.filter import Filter
from covey.errors import PlanError
from covey.pipeline.merging import depths_of, merging_of
from covey.pipeline.request import MERGING, merging_lines
from covey.planning.aggregation.installed import PlannedBlock, PlannedMerging
from covey.planning.aggregation.many import merges
from covey.planning.aggregation.model import NONE
from covey.planning.aggregation.sample import Sample
from covey.planning.plan import Plan, PlannedTree
from covey.routing.aggregation import Aggregation, Block
from covey.routing.plan import OneCopy, TreePlan
from covey.sim import Network
from covey.sim.trial_material import material
from covey.strategies.aggregation import Blocks, PlannedNeeds, aggregated, block_of
from covey.strategies.merging.reduction import wire_form

ENTRY = "b00"


class Instance:
    """A random tree of brokers, filters of their clients, and events that come in at one broker."""

    def __init__(self, seed: int, *, boxes: bool, brokers: int = 13, subscribers: int = 24) -> None:
        random = Random(seed)
        self.names = [f"b{number:02}" for number in range(brokers)]
        self.parents = [NONE, *(random.randrange(max(0, child - 4), child) for child in range(1, brokers))]
        self.links = sorted(
            (min(a, b), max(a, b))
            for a, b in (
                (self.names[child], self.names[parent])
                for child, parent in enumerate(self.parents)
                if parent != NONE
            )
        )
        found: dict[tuple[str, bytes], Filter] = {}
        while len(found) < subscribers:
            filter = covey.parse(self._text(random, boxes))
            found[random.choice(self.names), filter.encode()] = filter
        self.interests = sorted(found)
        self.filters = [found[one] for one in self.interests]
        self.events: list[dict[str, Any]] = [
            {"x": random.randint(0, 99), "y": random.randint(0, 99)} for _ in range(120)
        ]

    @staticmethod
    def _text(random: Random, boxes: bool) -> str:
        low = random.randint(0, 80)
        text = f"x between {low} and {low + random.randint(5, 30)}"
        if boxes and random.random() < 0.7:
            low = random.randint(0, 70)
            text += f" and y between {low} and {low + random.randint(20, 60)}"
        return text

    def sample(self) -> Sample:
        return Sample(
            np.array([[filter.matches(event) for event in self.events] for filter in self.filters]),
            np.full(len(self.events), 1 / len(self.events)),
        )

    def rows(self, method: str, share: float = 0.6) -> list[dict[str, Any]]:
        access = [self.names.index(broker) for broker, _ in self.interests]
        found = merges(self.parents, access, self.sample(), share, method=method)
        return [
            {
                "tree": 0,
                "entry": ENTRY,
                "broker": self.names[one.broker],
                "towards": None if one.towards == NONE else self.names[one.towards],
                "block": number,
                "members": list(one.members),
                "gain": one.gain,
            }
            for number, one in enumerate(found)
        ]

    def plan(self, merging: PlannedMerging | None) -> Plan:
        return Plan(
            "single",
            1,
            tuple(self.names),
            tuple((a, b, 1.0) for a, b in self.links),
            (PlannedTree(ENTRY, tuple(self.links)),),
            merging=merging,
        )

    def merged(self, method: str, excess: float = 0.0) -> Plan:
        witnesses = [
            {"language": "attributes", "content": f'{{"x": {event["x"]}, "y": {event["y"]}}}'}
            for event in self.events
        ]
        trees = (PlannedTree(ENTRY, tuple(self.links)),)
        return self.plan(
            merging_of(self.rows(method), self.interests, trees, witnesses, method=method, excess=excess)
        )

    def traffic(self) -> Traffic:
        placed = tuple(
            Placed(broker, filter) for (broker, _), filter in zip(self.interests, self.filters, strict=True)
        )
        events = tuple(Published(ENTRY, event) for event in self.events[:60])
        return Traffic(
            tuple(self.names),
            tuple((a, b, 1.0) for a, b in self.links),
            placed,
            (Placed(ENTRY, covey.parse("x >= 0")),),
            events,
        )


@pytest.mark.parametrize("method", MERGING)
@pytest.mark.parametrize("boxes", [False, True], ids=["ranges", "boxes"])
def test_exact_merging_does_what_was_forecast(method: str, boxes: bool) -> None:
    instance = Instance(len(method) + 7 * boxes, boxes=boxes)
    traffic = instance.traffic()
    plan = instance.merged(method)
    assert plan.merging is not None
    assert plan.merging.blocks
    said, done = forecast(plan, traffic), measure(plan, traffic)
    assert said == done
    assert said.for_nobody == 0
    plain = measure(instance.plan(PlannedMerging("none", ())), traffic)
    # Boxes that differ in two attributes have no exact merge.
    assert done.entries <= plain.entries if boxes else done.entries < plain.entries


@pytest.mark.parametrize("excess", [0.02, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_loose_merging_does_what_was_forecast_and_clients_notice_nothing(seed: int, excess: float) -> None:
    instance = Instance(seed, boxes=True)
    traffic = instance.traffic()
    exact, plan = instance.merged("mefa+"), instance.merged("mefa+", excess)
    said, done = forecast(plan, traffic), measure(plan, traffic)
    assert (said.entries, said.for_nobody) == (done.entries, done.for_nobody)
    # What replaces a filter can be wider than it, and is then passed on before the filter goes.
    assert said.departure <= done.departure <= 1.5 * said.departure
    assert done.entries <= measure(exact, traffic).entries
    for advertisements in (True, False):
        # Raises an error if anything is delivered but what filters ask for.
        replay(traffic, Candidate("merged", "aggregation", advertisements, plan))


def test_the_excess_is_kept_on_the_sampled_events() -> None:
    loose = {0.0: 0, 0.01: 0, 0.05: 0, 0.3: 0}  # blocks of several inputs that are told as one filter
    for seed in range(6):
        instance = Instance(seed, boxes=True)
        for excess in loose:
            merging = instance.merged("mefa+", excess).merging
            assert merging is not None
            aggregation = merging.aggregation
            for place in aggregation.places:
                for block in aggregation.blocks(*place):
                    wasted = sum(
                        any(one.matches(event) for one in block.told)
                        and not any(one.matches(event) for one in block.inputs)
                        for event in aggregation.events
                    )
                    assert wasted <= excess * len(aggregation.events)
                    loose[excess] += len(block.told) == 1 < len(block.inputs)
    assert loose[0.0] < loose[0.05] < loose[0.3]


def test_a_member_that_leaves_is_released_before_anything_else_and_others_miss_nothing() -> None:
    """a – b – c, and clients at a: what they want leaves a as one."""
    low, high = covey.parse("x >= 0 and x < 10"), covey.parse("x >= 10 and x < 20")
    block = block_of([low, high], [], 0.0)
    assert [str(one) for one in block.told] == ["x >= 0 AND x < 20"]
    plan = TreePlan(
        [[("a", "b"), ("b", "c")]],
        aggregation=Aggregation({(0, "a", "b"): [block]}),
    )
    net = Network([("a", "b"), ("b", "c")], plan.strategy, trees=plan, advertisements=False)
    first, second = net.subscribe("a", low), net.subscribe("a", high)
    net.settle()
    assert [str(filter) for _, filter in net.tables["c"]] == ["x >= 0 AND x < 20"]
    said: list[str] = []
    net.observer = lambda sender, receiver, message: said.append(
        f"{sender} {receiver} {type(message).__name__}"
    )
    net.unsubscribe(first)
    for value in range(10, 20):
        net.publish("c", {"x": value})
    net.settle()
    assert [one for one in said if one.endswith("scribe")] == [
        "a b Subscribe",
        "a b Unsubscribe",
        "b c Subscribe",
        "b c Unsubscribe",
    ]
    assert [str(filter) for _, filter in net.tables["c"]] == ["x >= 10 AND x < 20"]
    assert [event["x"] for subscription, event in net.deliveries if subscription is second] == list(
        range(10, 20)
    )
    net.subscribe("a", low)
    net.settle()
    assert [str(filter) for _, filter in net.tables["c"]] == ["x >= 0 AND x < 20"]


@given(data())
def test_needs_follow_what_comes_and_goes(drawn: DataObject) -> None:
    """Step by step, what a neighbour is told is the pure function of what it must know, and covers all of it."""
    number = drawn.draw(integers(0, 10_000))
    random = Random(number)
    made = material(random)
    events = [made.event() for _ in range(random.choice((0, 10)))]
    excess = random.choice((0.0, 0.2, 1.0))
    planned = [
        block_of([made.filter() for _ in range(random.randint(1, 6))], events, excess) for _ in range(3)
    ]
    needs = PlannedNeeds(Blocks(planned, Aggregation({}, events, excess)))
    told: dict[str, Filter] = {}
    for _ in range(12):
        removed = [filter for filter in needs.filters if random.random() < 0.3]
        added = [
            filter
            for filter in dict.fromkeys(made.filter() for _ in range(random.randint(0, 4)))
            if filter not in needs.filters
        ]
        changes = needs.change(removed, added)
        for item in changes.entered:
            assert item.key not in told
            told[item.key] = item.filter
        for filter in needs.filters:
            assert any(one.covers(filter) for one in told.values())  # before anything is withdrawn
        for item in changes.left:
            assert told.pop(item.key) == item.filter
        blocks = Blocks(planned, Aggregation({}, events, excess))
        assert sorted(told.values(), key=wire_form) == aggregated(needs.filters, blocks)


def test_others_join_the_block_that_covers_them_and_the_smallest_input_decides() -> None:
    wide, narrow = covey.parse("x between 0 and 50"), covey.parse("x between 10 and 20")
    wide_block = block_of([wide, covey.parse("x between 50 and 60")], [], 0.0)
    narrow_block = block_of([narrow, covey.parse("x between 30 and 40")], [], 0.0)
    blocks = Blocks([wide_block, narrow_block], Aggregation({}))
    assert blocks.block_of(wide) == 0
    assert blocks.block_of(narrow) == 1
    assert blocks.block_of(covey.parse("x between 12 and 15")) == 1
    assert blocks.block_of(covey.parse("x between 22 and 25")) == 0
    assert blocks.block_of(covey.parse("x between 45 and 55")) == 0  # no input covers it, the merger does
    assert blocks.block_of(covey.parse("x between 45 and 70")) is None
    assert aggregated([], blocks) == []


def test_plans_with_merging_are_read_as_they_were_written() -> None:
    plan = Instance(3, boxes=True).merged("spa", 0.1)
    again = Plan.decode(plan.encode())
    assert again.merging == plan.merging
    assert again.encode() == plan.encode()
    assert again.to_tree_plan().strategy == "aggregation"
    assert Plan.decode(Instance(3, boxes=True).plan(None).encode()).to_tree_plan().strategy == "trees"


@pytest.mark.parametrize(
    ("blocks", "more", "reason"),
    [
        ((PlannedBlock(1, "b00", "b01", (), ()),), {}, "on tree 1 and there are 1"),
        ((PlannedBlock(0, "b00", "b99", (), ()),), {}, "no link of its tree"),
        ((PlannedBlock(0, "b00", "b01", (b"A",), ()),), {}, "cannot be read"),
        ((), {"excess": 1.5}, "a share from 0 to 1"),
        ((), {"events": (("attributes", "{"),)}, "cannot be read"),
        ((), {"events": (("attributes", "{}"),) * 129}, "128 are the most"),
    ],
)
def test_what_cannot_be_merged_is_no_plan(blocks: Any, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        Instance(3, boxes=False).plan(PlannedMerging("mefa", blocks, **more))


def test_one_copy_merges_nothing() -> None:
    instance = Instance(3, boxes=False)
    with pytest.raises(PlanError, match="one copy merges nothing"):
        Plan(
            "regions",
            1,
            tuple(instance.names),
            tuple((a, b, 1.0) for a, b in instance.links),
            (PlannedTree(ENTRY, tuple(instance.links)),),
            "nearest",
            merging=PlannedMerging("mefa", ()),
        )
    with pytest.raises(PlanError, match="one copy merges nothing"):
        TreePlan([[("a", "b")]], one_copy=OneCopy("nearest", ["a"]), aggregation=Aggregation({}))
    with pytest.raises(PlanError, match="share from 0 to 1"):
        Aggregation({}, excess=2.0)
    with pytest.raises(PlanError, match="are the most"):
        Aggregation({}, [{}] * 129)


def test_the_explanation_says_whether_brokers_merge() -> None:
    instance = Instance(3, boxes=True)
    (line,) = merging_lines(instance.merged("mefa+", 0.05))
    assert "letting in up to 0.05 of sampled events" in line
    (line,) = merging_lines(instance.merged("aa"))
    assert "exactly" in line
    assert "method aa" in line
    assert merging_lines(instance.plan(None)) == []
    asked = replace(instance.plan(None), one_copy="nearest", basis={"aggregation": {"method": "aa"}})
    (line,) = merging_lines(asked)
    assert "Brokers merge nothing: single sends one copy" in line


def test_depths_are_counted_from_the_entry() -> None:
    assert depths_of([("a", "b"), ("b", "c"), ("b", "d")], "c") == {"c": 0, "b": 1, "a": 2, "d": 2}
    assert Block((), ()) == block_of([], [], 0.0)
