"""A claim of a paper: what it says, the readings of the text under which it is judged, and what each comes to.

A paper's text rarely fixes everything that its numbers depend on. A *reading* fills in what it leaves open: it names
values of dimensions (parameters of cells, columns of rows, or switches of the judge). The claim's judge is applied to
every reading in turn, and sees the rows of that reading alone.

    printed     everything that the text says is taken literally
    supported   a sentence of the text speaks for it
    probe       nothing in the text speaks for it; it shows how far the verdict depends on the parameter

A claim holds *as printed*, or *under a reading* that the text supports, or it is *contradicted*; a probe decides
nothing. A claim that is contradicted is shown as such, with the shortest proof known that it cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from covey.lab.experiment import Choice, Results

Kind = Literal["printed", "supported", "probe"]


class Verdict(NamedTuple):
    """What was measured under one reading, in a few words with numbers; whether the claim holds there; and why.

    `values` are the numbers that decide, by name. Their spread over seeds is shown.
    """

    measured: str
    holds: bool
    reason: str = ""
    values: Mapping[str, float] = {}


@dataclass(frozen=True)
class Reading:
    """One way to read what a claim leaves open.

    `rests_on` is the sentence of the text that supports it, in our words; a probe has none. `where` has the values of
    the dimensions. A value that is a tuple lets in each of its members.
    """

    name: str
    rests_on: str
    where: Mapping[str, Choice] = field(default_factory=dict)
    kind: Kind = "supported"

    def __post_init__(self) -> None:
        assert bool(self.rests_on) == (self.kind != "probe"), (
            f"{self.name}: a reading rests on the text, a probe does not"
        )


PRINTED = Reading("as printed", "The text fixes all that the claim depends on.", kind="printed")


@dataclass(frozen=True)
class Criterion:
    """When the claim counts as true: the page's words in ours, as numbers. `after_looking` says that results were
    known when it was written down."""

    text: str
    page: str  # where the paper says it: a section, a figure, a table
    after_looking: bool = False


@dataclass(frozen=True)
class Claim:
    """One row of the scoreboard. `judge` computes the verdict from kept results of `experiments` under a reading.

    The first of the readings is the one that the text supports best. `proof` says in the shortest way why the claim
    cannot hold, and is shown if it holds under none of them.
    """

    id: str  # R1, C7 …
    paper: str  # R, C, X
    says: str  # in our own words
    experiments: tuple[str, ...]
    judge: Callable[[Results], Verdict]
    criterion: Criterion
    readings: tuple[Reading, ...] = (PRINTED,)
    proof: str = ""
    by_seed: bool = (
        False  # whether each seed's rows can be judged alone, which gives the spread of the values
    )
