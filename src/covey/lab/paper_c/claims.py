"""All claims of paper C, C1 to C12, in their order."""

from __future__ import annotations

from covey.lab.claim import Claim
from covey.lab.paper_c.claims_burst import BURST_CLAIMS
from covey.lab.paper_c.claims_churn import CHURN_CLAIMS
from covey.lab.paper_c.claims_costs import COST_CLAIMS
from covey.lab.paper_c.claims_exact import EXACT

CLAIMS: tuple[Claim, ...] = tuple(
    sorted(
        (*EXACT, *BURST_CLAIMS, *COST_CLAIMS, *CHURN_CLAIMS),
        key=lambda claim: int(claim.id.removeprefix("C")),
    )
)
