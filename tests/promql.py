"""Queries in PromQL held against the metrics that brokers expose, without running them.

`labels_of` walks a query as Prometheus evaluates it and returns the labels of the result. Everything that the metrics
do not allow is an error: a name or a label that no broker exposes, a rate of something that is no counter, or an
operation between vectors that never match because their labels differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import promql_parser as promql

from covey.broker.metrics import COUNTER, GAUGE, METRICS

TARGET: Final = frozenset({"job", "instance"})  # what Prometheus adds to all that it scrapes
KINDS: Final = {metric.name: metric.kind for metric in METRICS} | {"up": GAUGE, "ALERTS": GAUGE}
LABELS: Final = {metric.name: TARGET | set(metric.labels) for metric in METRICS} | {
    "up": TARGET,
    "ALERTS": TARGET | {"alertname", "alertstate", "severity", "link"},
}
OF_COUNTERS: Final = {"rate", "irate", "increase"}
SET_OPERATIONS: Final = {"and", "or", "unless"}
SELECTING: Final = {"topk", "bottomk"}  # aggregations that keep the labels of what they select


class QueryError(AssertionError):
    """A query that cannot mean what its author thought."""


def labels_of(query: str) -> frozenset[str] | None:
    """Return the labels of a query's result, None if it is a number; QueryError, or ValueError if it is not PromQL."""
    return _labels(promql.parse(query))


def selectors(query: str) -> Iterator[Any]:
    """Return everything that a query reads: selectors with a name and matchers."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, promql.VectorSelector):
            found.append(node)
        elif isinstance(node, promql.MatrixSelector):
            found.append(node.vector_selector)

    promql.walk(promql.parse(query), visit)
    yield from {id(one): one for one in found}.values()


def _labels(node: Any) -> frozenset[str] | None:
    match node:
        case promql.VectorSelector():
            return _selected(node)
        case promql.MatrixSelector():
            return _selected(node.vector_selector)
        case promql.ParenExpr() | promql.UnaryExpr():
            return _labels(node.expr)
        case promql.NumberLiteral() | promql.StringLiteral():
            return None
        case promql.AggregateExpr():
            return _aggregated(node)
        case promql.BinaryExpr():
            return _combined(node)
        case promql.Call():
            return _called(node)
    raise QueryError(f"{type(node).__name__} is not known here")


def _selected(node: Any) -> frozenset[str]:
    if node.name not in LABELS:
        raise QueryError(f"no broker exposes {node.name}")
    known = frozenset(LABELS[node.name])
    asked = {matcher.name for matcher in node.matchers.matchers}
    if not asked <= known:
        raise QueryError(f"{node.name} has no label {', '.join(sorted(asked - known))}")
    return known


def _aggregated(node: Any) -> frozenset[str]:
    inner = _labels(node.expr)
    if inner is None:
        raise QueryError(f"{node.op} of a number")
    if str(node.op) in SELECTING:
        return inner
    if node.modifier is None:
        return frozenset()
    named = frozenset(node.modifier.labels)
    if not named <= inner:
        raise QueryError(f"{node.op} over labels that are not there: {', '.join(sorted(named - inner))}")
    return named if node.modifier.type == promql.AggModifierType.By else inner - named


def _combined(node: Any) -> frozenset[str] | None:
    left, right = _labels(node.lhs), _labels(node.rhs)
    if left is None or right is None:
        return right if left is None else left
    if node.modifier is not None and node.modifier.matching is not None:
        raise QueryError("on and ignoring are not used here; teach this module what they do")
    if str(node.op) in SET_OPERATIONS:
        return left & right if str(node.op) == "or" else left
    if left != right:
        raise QueryError(f"never match: {', '.join(sorted(left ^ right))} is only at one side of {node.op}")
    return left


def _called(node: Any) -> frozenset[str] | None:
    name = node.func.name
    if name == "vector":
        return frozenset()
    found = [_labels(argument) for argument in node.args]
    if name in OF_COUNTERS:
        metric = node.args[0].vector_selector.name
        if KINDS[metric] != COUNTER:
            raise QueryError(f"{name} of {metric}, which is a {KINDS[metric]}")
    elif name != "resets":
        raise QueryError(f"{name}() is not used here; teach this module what it does")
    return found[0]
