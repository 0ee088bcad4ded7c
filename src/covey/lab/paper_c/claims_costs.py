"""Claim C8: what covering costs and saves (Table II), with indexed tables as ours are, and with scanned ones."""

from __future__ import annotations

from collections.abc import Mapping

from covey.lab.claim import Claim, Criterion, Reading, Verdict
from covey.lab.experiment import Results
from covey.lab.paper_c.driving import number

STRATEGIES = {"active": "covering", "lazy": "covering-lazy", "none": "simple"}
HALF = 0.6  # of lazy's and of none's; in print 0.48 and 0.38
TENFOLD = 5.0  # at least; in print 15, of matching with active covering, or 7.5, of matching without


def _by_name(results: Results, kind: str, key: str) -> dict[str, float]:
    """Return a column by strategy, the mean over seeds."""
    found = {}
    for name, strategy in STRATEGIES.items():
        values = [number(row, key) for row in results.rows("c-costs", strategy=strategy, kind=kind)]
        found[name] = sum(values) / len(values)
    return found


def _halves(event: Mapping[str, float]) -> bool:
    return all(event["active"] <= HALF * event[name] for name in ("lazy", "none"))


def _listed(times_ms: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {time:.3g}" for name, time in times_ms.items())


def judge_costs(results: Results) -> Verdict:
    """Compare times of the same kind of table: those of Router.handle, or those of a scan."""
    scanned = results.reading.get("tables", "scanned") == "scanned"
    column = "scan_ms" if scanned else "mean_ms"
    event, told = _by_name(results, "publish", column), _by_name(results, "subscribe", column)
    tables = _by_name(results, "publish", "table_max")
    if scanned:
        matching = _by_name(results, "subscribe", "matching_ms")["none"]
        detection = told["active"] / matching
    else:
        matching = told["none"]
        detection = (told["active"] - matching) / matching
    halves = {name: event["active"] / event[name] for name in ("lazy", "none")}
    measured = (
        f"ms an event {_listed(event)}; ms to match a subscription {matching:.3g}, detecting covering {detection:.1f} "
        "times that"
    )
    reason = (
        f"Processor time on this machine, in Python; tables of at most {tables['active']:,.0f} entries with active "
        f"covering, {tables['none']:,.0f} without. An event costs {halves['lazy']:.2f} and {halves['none']:.2f} of "
        f"what "
        "it costs with lazy and without covering (print 0.48, 0.38), detection 7.5 to 15 times matching in print."
    )
    values = {
        "active / lazy": halves["lazy"],
        "active / none": halves["none"],
        "detection / matching": detection,
    }
    return Verdict(measured, _halves(event) and detection >= TENFOLD, reason, values)


TABLES = (
    Reading(
        "scanned tables",
        "The time of a message grows with the routing table (V-A1, Table II): tables are gone through.",
        {"tables": "scanned"},
    ),
    Reading(
        "indexed tables, as ours are",
        "The text does not say how tables are searched; matching is said to be fast (II).",
        {"tables": "indexed"},
    ),
)
COST_CLAIMS: tuple[Claim, ...] = (
    Claim(
        "C8",
        "C",
        "An event costs about half under active covering of what it costs under lazy or none; detecting "
        "covering costs ten times what matching a subscription costs.",
        ("c-costs",),
        judge_costs,
        Criterion(
            "about half is at most 0.6 of both; an order of magnitude is at least 5 times; both of one kind of table.",
            "V-A1, table II",
        ),
        TABLES,
        by_seed=True,
    ),
)
