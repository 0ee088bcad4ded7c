"""The claims that must hold exactly: C1 to C4, and C12's promise to clients.

They are counts of violations in random networks: one violation anywhere and the claim does not hold.
"""

from __future__ import annotations

from covey.lab.claim import Claim, Criterion, Verdict
from covey.lab.experiment import Results
from covey.lab.paper_c.driving import number


def _sum(results: Results, check: str, key: str) -> int:
    return int(sum(number(row, key) for row in results.rows("c-similarity", check=check)))


def _networks(results: Results, check: str) -> int:
    return len(results.rows("c-similarity", check=check))


def judge_paths(results: Results) -> Verdict:
    """Count covered subscriptions that are known beyond a path, and uncovered ones beyond their tree."""
    covered, wrong, trees, branching = (
        _sum(results, "propagation", key) for key in ("covered", "no_path", "trees_wrong", "branching")
    )
    measured = (
        f"{covered} covered subscriptions in {_networks(results, 'propagation')} networks: {wrong} known off "
        f"the path; "
        f"without covering {trees} known off the tree to the publishers, and {branching} of these trees branch"
    )
    reason = "One subscription covers all others; the path of each of them leads towards it."
    return Verdict(measured, wrong == 0 and trees == 0 and covered > 0 and branching > 0, reason)


def judge_growth(results: Results) -> Verdict:
    """Count brokers at which similarity is less than at the one before."""
    points, falls = (_sum(results, "similarity", key) for key in ("points", "falls"))
    measured = f"{falls} falls at {points} brokers of paths in {_networks(results, 'similarity')} networks"
    reason = (
        "To all live subscriptions behind a broker, quenched ones too; to its own table alone it can fall."
    )
    return Verdict(measured, falls == 0 and points > 0, reason)


def judge_table_i(results: Results) -> Verdict:
    """Compare similarity and critical distances of five events with the print."""
    [row] = results.rows("c-similarity", check="table-i")
    phi, far, farther = number(row, "phi_2"), number(row, "critical_80"), number(row, "critical_90")
    measured = f"φ(2) = {phi:g}; critical distance {far:g} for 80%, {farther:g} for 90%"
    return Verdict(
        measured, phi == 0.6 and far == 5, "For 90% the print says 10; all five events are within 7."
    )


def judge_estimate(results: Results) -> Verdict:
    """Count brokers at which recorded distances do not give the similarity of the definition."""
    points, differs = (_sum(results, "similarity", key) for key in ("points", "differs"))
    measured = (
        f"{differs} differences at {points} brokers of paths in {_networks(results, 'similarity')} networks"
    )
    reason = (
        "With an exact rule for distances: subscriptions count, not links; the link an event came from does "
        "not; and there is "
        "no distance before a second subscription wants the event."
    )
    return Verdict(measured, differs == 0 and points > 0, reason)


def judge_false_positives(results: Results) -> Verdict:
    """Check the bound at each decision, the share in the burst, and that clients see none."""
    rows = results.rows("c-burst", kind="total", strategy="incremental", overlap=8, placement="random")
    unasked = sum(int(number(row, "unasked")) for row in results.rows("c-burst", kind="total"))
    unasked += _sum(results, "bound", "unasked")
    shares = {
        str(row["service"]): number(row, "false_positives") / max(1, number(row, "forwarded"))
        for row in rows
        if row["triggered_each"] == 2_100
        and row["seed"] == 1
        and row["remembered"] == 300
        and row["coverage"] == 0.95
    }
    kept, beyond = _sum(results, "bound", "kept"), _sum(results, "bound", "beyond")
    worst = max(number(row, "share_max") for row in results.rows("c-similarity", check="bound"))
    burst = ", ".join(f"{share:.2%} ({service})" for service, share in shares.items())
    measured = (
        f"burst: {burst} of transmissions; {kept} kept in random networks: {beyond} beyond 10% of their events, at "
        f"most {worst:.1%}; {unasked} unasked deliveries"
    )
    reason = (
        "A bound of the decision: of the events of what is kept, on the link into the broker that keeps it, "
        "for traffic as "
        "before. Several kept ones add up, and it is the owner's own count that keeps the bound over time."
    )
    holds = unasked == 0 and beyond == 0 and kept > 0 and max(shares.values()) <= 0.1
    return Verdict(measured, holds, reason)


EXACT: tuple[Claim, ...] = (
    Claim(
        "C1",
        "C",
        "With covering a covered subscription travels along a path, without it along a tree (Property 2).",
        ("c-similarity",),
        judge_paths,
        Criterion("no violation in any random network.", "III, property 2"),
    ),
    Claim(
        "C2",
        "C",
        "Similarity does not fall from the subscriber's broker to the publisher's (Property 3).",
        ("c-similarity",),
        judge_growth,
        Criterion("no fall at any broker of any random network.", "III, property 3"),
    ),
    Claim(
        "C3",
        "C",
        "Table I: similarity at 2 hops is 0.6, and the critical distance for 80% is 5.",
        ("c-similarity",),
        judge_table_i,
        Criterion("both numbers exactly.", "III, table I"),
    ),
    Claim(
        "C4",
        "C",
        "Similarity from recorded distances (eq. 3) is that of the definition (eqs. 1 and 2) at every broker "
        "of the path.",
        ("c-similarity",),
        judge_estimate,
        Criterion("no difference at any broker of any random network.", "III, equations 1 to 3"),
    ),
    Claim(
        "C12",
        "C",
        "False positives at a threshold of 90% stay within 10%, and never reach a client.",
        ("c-burst", "c-similarity"),
        judge_false_positives,
        Criterion(
            "at most 10% of transmissions in the burst and of the events of each kept one; no unasked delivery.",
            "IV",
        ),
    ),
)
