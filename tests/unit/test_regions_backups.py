"""Spare trees in use: whichever link or broker fails, events reach everybody whom the overlay still joins."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from covey.pipeline.request import failure_lines
from covey.planning.backup import backup_trees
from covey.planning.graph import Graph
from covey.planning.groups.costing import path_tree
from covey.planning.plan import Plan, PlannedTree
from covey.planning.tree import Tree
from covey.sim import Network
from covey.sim.topology import random_graph

FAILURES = 9


def planned(seed: int, rule: str) -> tuple[Plan, list[tuple[str, str]]]:
    """A plan of two trees with spare ones, for a random overlay with cycles."""
    overlay = random_graph(8, seed, degree=3.2)
    names = tuple(sorted(overlay.brokers))
    links = sorted((min(a, b), max(a, b)) for a, b in overlay.links)
    graph = Graph(
        len(names), np.array([[names.index(a), names.index(b)] for a, b in links]), np.ones(len(links))
    )
    trees = [path_tree(graph, 0), path_tree(graph, 3)]
    spare = backup_trees(graph, trees)

    def named(tree: Tree) -> PlannedTree:
        return PlannedTree(names[tree.root], tuple(links[link] for link in sorted(tree.links.tolist())))

    plan = Plan(
        "regions",
        1,
        names,
        tuple((a, b, 1.0) for a, b in links),
        tuple(map(named, trees)),
        rule,
        backups=tuple(map(named, spare.trees)),
    )
    return Plan.decode(plan.encode()), links


def joined(links: list[tuple[str, str]], start: str) -> set[str]:
    found = {start}
    while more := {end for link in links for end in link if found & set(link)} - found:
        found |= more
    return found


def missed(plan: Plan, links: list[tuple[str, str]], seed: int) -> int:
    """Let each link and each broker fail, and count what does not arrive though the overlay still leads there."""
    random, count = Random(seed), 0
    trees = plan.to_tree_plan()
    failures: list[tuple[str, ...]] = [*links, *((broker,) for broker in plan.brokers)]
    for failure in random.sample(failures, FAILURES):
        net = Network(links, "regions", trees=trees, advertisements=False)
        for broker in plan.brokers:
            net.subscribe(broker, "x >= 0")
        net.settle()
        if len(failure) == 2:
            net.link_down(*failure)
        else:
            net.crash(*failure)
        net.settle()
        alive = [broker for broker in plan.brokers if (broker,) != failure]
        left = [link for link in links if link != failure and not set(link) & set(plan.brokers) - set(alive)]
        for publisher in alive:
            net.clear_deliveries()
            net.publish(publisher, {"x": 1})
            net.settle()
            got = [subscription.broker for subscription, _ in net.deliveries]
            assert len(got) == len(set(got))
            assert set(got) <= set(alive)
            count += len(joined(left, publisher) - set(got))
    return count


@pytest.mark.parametrize("rule", ["nearest", "cheapest"])
@pytest.mark.parametrize("seed", range(3))
def test_no_single_failure_keeps_events_from_those_who_are_joined(seed: int, rule: str) -> None:
    plan, links = planned(seed, rule)
    assert missed(plan, links, seed) == 0


def test_the_explanation_says_whether_brokers_use_them() -> None:
    plan, _ = planned(0, "nearest")
    nothing: dict[str, dict[str, list[str]]] = {"unsurvived": {"links": [], "brokers": []}}
    (line,) = failure_lines(replace(plan, basis=nothing))
    assert "some tree is left whichever link or broker fails" in line
    told = failure_lines(replace(plan, one_copy=None, basis=nothing))
    assert "Brokers do not use them under regions" in told[1]
    # Brokers of before cannot, and refuse the file.
    assert json.loads(plan.encode())["version"] == 2
    assert json.loads(replace(plan, backups=()).encode())["version"] == 1


def test_without_spare_trees_some_are_missed() -> None:
    lost = 0
    for seed in range(3):
        plan, links = planned(seed, "nearest")
        alone = Plan(plan.method, 1, plan.brokers, plan.links, plan.trees[:1], plan.one_copy)
        lost += missed(alone, links, seed)
    assert lost > 0
