"""Paper M: A. Majumder, N. Shrivastava, R. Rastogi and A. Srinivasan, *Scalable Content-Based Routing in Pub/Sub
Systems*."""

from __future__ import annotations

from covey.lab.figure import Paper
from covey.lab.paper_m import beyond, claims_costs, claims_trees, costs, steps
from covey.lab.paper_m.examples import EXAMPLES
from covey.lab.paper_m.figures import FIGURES
from covey.lab.paper_m.stretch import STRETCH

PAPER = Paper(
    "M",
    "Scalable Content-Based Routing in Pub/Sub Systems (Majumder, Shrivastava, Rastogi and Srinivasan)",
    (EXAMPLES, *costs.EXPERIMENTS, *steps.EXPERIMENTS, STRETCH, *beyond.EXPERIMENTS),
    FIGURES,
    (*claims_trees.CLAIMS, *claims_costs.CLAIMS, *claims_trees.MORE_CLAIMS),
)
