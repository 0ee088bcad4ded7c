"""Paper R: G. Mühl, L. Fiege, F. C. Gärtner and A. Buchmann, *Evaluating Advanced Routing Algorithms for Content-Based
Publish/Subscribe Systems* (2002)."""

from __future__ import annotations

from covey.lab.figure import Paper
from covey.lab.paper_r.claims import EXACT_CLAIMS
from covey.lab.paper_r.experiments import EXPERIMENTS
from covey.lab.paper_r.figures import FIGURES
from covey.lab.paper_r.trends import TREND_CLAIMS

PAPER = Paper(
    "R",
    "Evaluating Advanced Routing Algorithms for Content-Based Publish/Subscribe Systems (Mühl et al., 2002)",
    EXPERIMENTS,
    FIGURES,
    (*EXACT_CLAIMS, *TREND_CLAIMS),
)
