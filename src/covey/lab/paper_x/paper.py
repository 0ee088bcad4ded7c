"""Paper X: XROUTE, perfect routing with tables that stay small."""

from __future__ import annotations

from covey.lab.figure import Paper
from covey.lab.paper_x.claims import CLAIMS
from covey.lab.paper_x.example import EXAMPLE
from covey.lab.paper_x.figures import FIGURES
from covey.lab.paper_x.properties import PROPERTIES
from covey.lab.paper_x.tables import TABLES

PAPER = Paper(
    "X",
    "R. Chand and P. A. Felber, A Scalable Protocol for Content-Based Routing in Overlay Networks (2003)",
    (TABLES, PROPERTIES, EXAMPLE),
    FIGURES,
    CLAIMS,
)
