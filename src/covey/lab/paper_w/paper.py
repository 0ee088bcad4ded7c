"""Paper W: what aggregating subscriptions costs when subscribers leave."""

from __future__ import annotations

from covey.lab.figure import Paper
from covey.lab.paper_w.claims import CLAIMS
from covey.lab.paper_w.examples import EXAMPLES
from covey.lab.paper_w.facebook import FACEBOOK
from covey.lab.paper_w.figures import FIGURES
from covey.lab.paper_w.optimum import OPTIMUM
from covey.lab.paper_w.overlays import OVERLAYS
from covey.lab.paper_w.synthetic import SYNTHETIC

PAPER = Paper(
    "W",
    "N. Wang and J. Wu, Minimizing the Subscription Aggregation Cost in the Content-based Pub/Sub System",
    (SYNTHETIC, FACEBOOK, OVERLAYS, OPTIMUM, EXAMPLES),
    FIGURES,
    CLAIMS,
)
