"""AA, all aggregation: a broker merges all of its inputs or none.

A baseline of paper W, after M. Chen et al.: the broker whose inputs are most alike, by their mean Jaccard similarity,
is switched on first, then the next, until theta. It overshoots, since a broker is the smallest step.
"""

from __future__ import annotations

import numpy as np

from covey.planning.aggregation.model import Block, Partition, Problem, Propagation, induced
from covey.planning.aggregation.model import gain_of as gain_of_plan
from covey.planning.aggregation.sample import Sample, similarity


def aa(problem: Problem, theta: int) -> tuple[Partition, ...]:
    tree, on = problem.tree, np.zeros(problem.tree.brokers, bool)
    partitions = _plan(problem, on)
    scores = np.array([_alikeness(tree, problem.compact, on, broker) for broker in range(tree.brokers)])
    while gain_of_plan(tree, partitions) < theta:
        broker = int(np.argmax(scores))
        on[broker] = True
        while broker >= 0:
            scores[broker] = _alikeness(tree, problem.compact, on, broker)
            broker = int(tree.parents[broker])
        partitions = _plan(problem, on)
    return partitions


def _blocks(tree: Propagation, on: np.typing.NDArray[np.bool_], broker: int) -> list[Block]:
    """Return what a broker forwards."""
    if on[broker]:
        return [tree.below[broker]] if tree.below[broker] else []
    return _inputs(tree, on, broker)


def _inputs(tree: Propagation, on: np.typing.NDArray[np.bool_], broker: int) -> list[Block]:
    own: list[Block] = [(s,) for s in tree.below[broker] if tree.access[s] == broker]
    return sorted(own + [block for child in tree.children[broker] for block in _blocks(tree, on, child)])


def _alikeness(tree: Propagation, sample: Sample, on: np.typing.NDArray[np.bool_], broker: int) -> float:
    """Return the mean similarity of a broker's inputs, below any similarity if there is nothing to switch on."""
    inputs = _inputs(tree, on, broker)
    if on[broker] or len(inputs) < 2:
        return -1.0
    rows = np.array([sample.matches[list(block)].any(axis=0) for block in inputs])
    pairs = np.triu_indices(len(inputs), 1)
    return float(similarity(rows, sample.weights)[pairs].mean())


def _plan(problem: Problem, on: np.typing.NDArray[np.bool_]) -> tuple[Partition, ...]:
    """Return the nested plan; under top, where merging early is free, that of its final blocks."""
    tree = problem.tree
    if problem.accounting == "top":
        return induced(tree, _blocks(tree, on, tree.root))
    return tuple(tuple(_blocks(tree, on, broker)) for broker in range(tree.brokers))
