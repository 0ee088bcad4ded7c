"""What figures and claims take from kept rows: mean costs by setting, orders of algorithms, gaps to the optimum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from covey.lab.experiment import Results, Row, Value
from covey.lab.paper_w import facebook, optimum, overlays, synthetic
from covey.lab.paper_w.rows import PRINTED

TIE = 0.05  # one that costs up to 5 % more still counts as no dearer
SETTINGS: dict[str, tuple[str, ...]] = {
    synthetic.NAME: ("distribution", "domain", "size", "depth", "degree", "f"),
    facebook.NAME: ("graph", "ids", "subscribers", "depth", "f"),
}


@dataclass
class Point:
    """One setting under one accounting: each algorithm's mean cost, and how often the printed order held."""

    experiment: str
    accounting: str
    setting: dict[str, Value]
    costs: dict[str, float] = field(default_factory=dict)
    kappa: float = 0.0
    networks: int = 0
    ordered: int = 0

    @property
    def is_drawn(self) -> bool:
        """Whether it is a point of the paper's figures, whatever the domain and whose numbers ranges span."""
        if self.experiment == facebook.NAME:
            return True
        return self.setting["f"] == synthetic.SHARE

    @property
    def name(self) -> str:
        """The setting in a few words."""
        if self.experiment == facebook.NAME:
            shape = f"depth {self.setting['depth']}" if self.setting["depth"] else "shortest paths"
            return (
                f"{GRAPHS[str(self.setting['graph'])]}, {self.setting['subscribers']} subscribers, {shape}, "
                f"numbers of {self.setting['ids']}"
            )
        return "{distribution}, size {size}, depth {depth}, degree {degree}".format(**self.setting)

    def follows(self, one: str, other: str) -> bool:
        """Tell whether one algorithm is no dearer than another."""
        return no_dearer(self.costs[one], self.costs[other])


GRAPHS = {"file": "ego-Facebook", "stand-in": "stand-in for Facebook"}


def no_dearer(one: float, other: float) -> bool:
    return one <= other * (1 + TIE) + 1e-9


def is_ordered(costs: dict[str, float], order: Sequence[str] = PRINTED) -> bool:
    """Tell whether each algorithm of an order is no dearer than the next."""
    return all(no_dearer(costs[a], costs[b]) for a, b in pairwise(order))


def points(results: Results, accounting: str) -> list[Point]:
    """Return all settings of Figures 5 to 7 and around them."""
    found: list[Point] = []
    for experiment, keys in SETTINGS.items():
        by_setting: dict[tuple[Value, ...], list[Row]] = defaultdict(list)
        for row in results.rows(experiment, accounting=accounting):
            by_setting[tuple(row[key] for key in keys)].append(row)
        for values, rows in by_setting.items():
            point = Point(experiment, accounting, dict(zip(keys, values, strict=True)))
            fill(point, rows)
            found.append(point)
    return found


def fill(point: Point, rows: Iterable[Row]) -> None:
    """Take means and counts from the rows of one setting."""
    costs: dict[str, list[float]] = defaultdict(list)
    networks: dict[tuple[Value, Value], dict[str, float]] = defaultdict(dict)
    kappas: list[float] = []
    for row in rows:
        costs[str(row["method"])].append(as_float(row["cost"]))
        networks[row["seed"], row["network"]][str(row["method"])] = as_float(row["cost"])
        kappas.append(as_float(row["kappa"]))
    point.costs = {method: mean(values) for method, values in costs.items()}
    point.kappa = mean(kappas)
    point.networks = len(networks)
    point.ordered = sum(is_ordered(one) for one in networks.values())


def graph_of(results: Results) -> str:
    """Return the network of friends to show: that of the file, if it was given."""
    return "file" if results.rows(facebook.NAME, graph="file") else "stand-in"


def saving(costs: dict[str, float], method: str, base: str) -> float:
    """Return how much less an algorithm costs than another, as a share."""
    return 1 - costs[method] / costs[base] if costs[base] else 0.0


def overlay_saving(results: Results, **where: Value) -> float:
    """Return how much less plans cost on SA than on SO, by their mean costs."""
    rows = results.rows(overlays.NAME, **where)
    return 1 - mean([as_float(row["sa"]) for row in rows]) / mean([as_float(row["so"]) for row in rows])


@dataclass(frozen=True)
class Gap:
    """How far an algorithm is from the optimum, over instances with a proved one."""

    method: str
    instances: int
    paid: int  # those whose optimum is above 0, of which the next are
    mean: float
    largest: float
    exact: int
    missed: int  # of the others: where it paid something
    total: float  # sum of costs by sum of optima


def gap(results: Results, method: str, **where: Value) -> Gap:
    """Return the gap of one algorithm."""
    rows = results.rows(optimum.NAME, method=method, proved=True, **where)
    pairs = [(as_float(row["cost"]), as_float(row["optimum"])) for row in rows]
    ratios = [cost / least - 1 for cost, least in pairs if least > 1e-9]
    return Gap(
        method=method,
        instances=len(pairs),
        paid=len(ratios),
        mean=mean(ratios),
        largest=max(ratios),
        exact=sum(ratio < 1e-6 for ratio in ratios),
        missed=sum(cost > 1e-9 for cost, least in pairs if least <= 1e-9),
        total=sum(cost for cost, _ in pairs) / sum(least for _, least in pairs),
    )


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def as_float(value: Value) -> float:
    assert isinstance(value, int | float)
    return float(value)
