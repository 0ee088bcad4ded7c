"""Table II of paper C: processing time by kind of message, the print's beside ours."""

from __future__ import annotations

from covey.lab.experiment import Results
from covey.lab.figure import Figure, Grid
from covey.lab.paper_c.driving import number

# Milliseconds of a message in print: active, lazy, none; and the totals in seconds.
PRINTED: dict[str, tuple[tuple[float, float], ...]] = {
    "Sub matching": ((14.5, 0.81), (28.8, 1.6), (33.7, 1.6)),
    "Sub covering": ((216.0, 12.0), (486.0, 27.0), (0.0, 0.0)),
    "Unsub": ((11.7, 1.4), (0.0, 0.0), (0.0, 0.0)),
    "Pub": ((600.0, 3.0), (1240.0, 6.2), (1580.0, 7.9)),
}
COST_STRATEGIES = ("covering", "covering-lazy", "simple")
SCANNED = {"Sub covering, scanned": "subscribe", "Pub, scanned": "publish"}


def _cost(results: Results, strategy: str, kind: str) -> tuple[float, float]:
    [row] = results.rows("c-costs", strategy=strategy, kind=kind)
    return float(number(row, "total_s")), float(number(row, "mean_ms"))


def table_2(results: Results) -> Grid:
    """Return seconds in all and milliseconds a message, the print's and ours, of the first seed."""
    results = results.under({"seed": 1})
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in PRINTED}
    _, plain_ms = _cost(results, "simple", "subscribe")
    for strategy in COST_STRATEGIES:
        total_s, mean_ms = _cost(results, strategy, "subscribe")
        [row] = results.rows("c-costs", strategy=strategy, kind="subscribe")
        matching_ms = min(plain_ms, mean_ms)
        matching_s = matching_ms * number(row, "messages") / 1_000
        measured["Sub matching"].append((matching_s, matching_ms))
        measured["Sub covering"].append((total_s - matching_s, mean_ms - matching_ms))
        measured["Unsub"].append(_cost(results, strategy, "unsubscribe"))
        measured["Pub"].append(_cost(results, strategy, "publish"))
    columns = ["work"]
    for name in ("active", "lazy", "none"):
        columns += [f"{name}: print s (ms)", f"{name}: ours s (ms)"]
    rows: list[tuple[str | float, ...]] = []
    for name, printed in PRINTED.items():
        texts = [name]
        for (print_s, print_ms), (our_s, our_ms) in zip(printed, measured[name], strict=True):
            texts += [f"{print_s:g} ({print_ms:g})", f"{our_s:.3g} ({our_ms:.3g})"]
        rows.append(tuple(texts))
    totals = ["Total"]
    for place in range(len(COST_STRATEGIES)):
        totals.append(f"{sum(printed[place][0] for printed in PRINTED.values()):g}")
        totals.append(f"{sum(ours[place][0] for ours in measured.values()):.3g}")
    scans = [_scanned(results, name, kind) for name, kind in SCANNED.items()]
    return Grid(tuple(columns), [*rows, tuple(totals), *scans])


def _scanned(results: Results, name: str, kind: str) -> tuple[str, ...]:
    """Return a row with the time of a scan; the print has none of its own."""
    texts = [name]
    for strategy in COST_STRATEGIES:
        [row] = results.rows("c-costs", strategy=strategy, kind=kind)
        texts += ["", f"({number(row, 'scan_ms'):.3g})"]
    return tuple(texts)


TABLE_2 = Figure(
    "C",
    "Table II",
    "Processing time by kind of message, without unsubscriptions",
    "Seconds in all brokers and, in brackets, milliseconds a message: the print's beside ours, in Router.handle on "
    "this machine, with indexed tables. 42,000 subscriptions and 200,000 events at paper scale, 2,400 and 2,000 at "
    "small. Covering is what a subscription costs beyond what it costs without covering; unsubscriptions are "
    "retractions. Below, milliseconds to hold one against the same tables filter by filter: a sample of messages.",
    ("c-costs",),
    table=table_2,
)
