"""The ways of grouping by name, all with one signature.

single, spt, flooding, unicast, opt   what groups are measured against (`baselines`)
mult, overlap                         by likeness of documents: Jaccard's measure, or overlap over the smaller set
mult2, hybrid                         by what merging saves; the hybrid begins by likeness
held-out                              by likeness, as many as cost least on documents held out, or one
semcast …                             channels, merged or split, with and without filtering inside
regions, regions-cheapest             one copy of each document, on the tree of the region where it is wanted
mixed                                 one tree for most, and more trees for documents that gain
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from covey.errors import PlanError
from covey.planning.groups.baselines import flooding, opt, single, spt, unicast
from covey.planning.groups.mixed import mixed
from covey.planning.groups.model import Grouping, Problem
from covey.planning.groups.mult import held_out, mult
from covey.planning.groups.mult2 import hybrid, mult2
from covey.planning.groups.regions import regions
from covey.planning.groups.semcast import CHANGES, semcast

Method: TypeAlias = Callable[[Problem], Grouping]

REGIONAL: Mapping[str, str] = {"regions": "nearest", "regions-cheapest": "cheapest"}  # with their rules
METHODS: Mapping[str, Method] = {
    "single": single,
    "spt": spt,
    "flooding": flooding,
    "unicast": unicast,
    "opt": opt,
    "mult": mult,
    "overlap": partial(mult, measure="overlap"),
    "mult2": mult2,
    "hybrid": hybrid,
    "held-out": held_out,
    **{f"semcast {changes}": partial(semcast, changes=changes) for changes in CHANGES},
    **{
        f"semcast {changes} filtered": partial(semcast, changes=changes, filtering=True)
        for changes in CHANGES
    },
    **{name: partial(regions, rule=rule) for name, rule in REGIONAL.items()},
    "mixed": mixed,
}


def group(problem: Problem, method: str = "held-out") -> Grouping:
    """Group by one of METHODS; PlanError if there is none of that name."""
    if method not in METHODS:
        raise PlanError(f"no grouping {method!r} (hint: one of {', '.join(METHODS)})")
    return METHODS[method](problem)
