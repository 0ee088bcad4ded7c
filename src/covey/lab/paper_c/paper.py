"""Paper C: all that the lab computes for it."""

from __future__ import annotations

from covey.lab.figure import Paper
from covey.lab.paper_c.claims import CLAIMS
from covey.lab.paper_c.experiments_burst import BURST
from covey.lab.paper_c.experiments_churn import MOVING, WORKFLOW
from covey.lab.paper_c.experiments_costs import COSTS
from covey.lab.paper_c.experiments_roots import ROOTS
from covey.lab.paper_c.experiments_similarity import SIMILARITY
from covey.lab.paper_c.figures import FIGURES

PAPER = Paper(
    "C",
    "M. Chen, S. Hu, V. Muthusamy and H.-A. Jacobsen: Congestion Avoidance with Incremental Filter Aggregation in "
    "Content-Based Routing Networks",
    (BURST, COSTS, MOVING, ROOTS, WORKFLOW, SIMILARITY),
    FIGURES,
    CLAIMS,
)
