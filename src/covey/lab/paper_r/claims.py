"""Claims R1 to R6: what the paper says exactly, judged exactly, on the topology and sizes of the rows themselves.

A bound or a limit is written as the paper's formula, with the number of brokers and symbols of the row, so that it is
judged at either scale. Numbers that belong to 107 brokers are read from the cells of the published size.
"""

from __future__ import annotations

from fractions import Fraction

from covey.lab.claim import Claim, Criterion, Verdict
from covey.lab.experiment import Results, Row, Value
from covey.lab.paper_r.figures import OVERHEAD, TABLES, factors
from covey.lab.paper_r.numbers import at_sizes, number, rises, whole

PATHS = "r-paths"
NOT_MEASURED = Verdict("not measured", holds=False, reason="rows are missing")


def _published(results: Results, experiment: str, advertisements: bool) -> list[Row]:
    return results.rows(
        experiment, purpose="published size", strategy="simple", advertisements=advertisements
    )


def judge_paths(results: Results) -> Verdict:
    """R1: the mean distance to the source, its own broker included."""
    found = {
        row["source"]: Fraction(whole(row, "path_sum"), whole(row, "local")) for row in results.rows(PATHS)
    }
    if len(found) < 2:
        return NOT_MEASURED
    root, leaf = found["root"], found["leaf"]
    holds = root == Fraction(250, 67) and round(float(leaf), 2) == 6.78
    return Verdict(
        f"{root} = {float(root):.2f} from the root, {leaf} = {float(leaf):.2f} from a leaf's local broker",
        holds,
        "The mean for the leaf includes the source's own local broker, at distance 0.",
    )


def judge_simple(results: Results) -> Verdict:
    """R2: without advertisements every other broker knows and hears of every subscription.

    Rows that were given in proportion would agree by themselves: only simulated ones count.
    """
    tables = results.rows(TABLES, strategy="simple", advertisements=False, extrapolated=False)
    changes = results.rows(OVERHEAD, strategy="simple", advertisements=False, extrapolated=False)
    if not tables or not changes:
        return NOT_MEASURED
    exact = all(whole(row, "entries") == (whole(row, "brokers") - 1) * whole(row, "x") for row in tables)
    exact &= all(
        whole(row, "messages") == (whole(row, "brokers") - 1) * whole(row, "changes") for row in changes
    )
    published = _published(results, OVERHEAD, False)
    full = max(_published(results, TABLES, False), key=lambda row: number(row, "x"))
    measured = (
        f"ΣR = {whole(full, 'entries'):,} for x = {whole(full, 'x')} on 107 brokers, "
        f"FFO = {number(published[0], 'overhead'):g}; {'exact' if exact else 'not exact'} in all"
        f" {len(tables) + len(changes)} simulated rows"
    )
    return Verdict(measured, exact and number(published[0], "overhead") == 106)


def judge_simple_advertised(results: Results) -> Verdict:
    """R3: with advertisements only brokers on the way to the source do."""
    tables = results.rows(TABLES, strategy="simple", advertisements=True, extrapolated=False)
    changes = results.rows(OVERHEAD, strategy="simple", advertisements=True, extrapolated=False)
    if not tables or not changes:
        return NOT_MEASURED

    def on_paths(row: Row, what: str, of: str) -> bool:
        return whole(row, what) * whole(row, "homes") == whole(row, "path_sum") * whole(row, of)

    exact = all(on_paths(row, "entries", "x") for row in tables)
    exact &= all(on_paths(row, "messages", "changes") for row in changes)
    row = max(_published(results, TABLES, True), key=lambda found: number(found, "x"))
    shares = [round(number(row, f"level_{level}") / number(row, "x"), 2) for level in range(1, 5)]
    mean = whole(row, "entries") / whole(row, "x")
    factor = 106 / mean
    overhead = number(_published(results, OVERHEAD, True)[0], "overhead")
    return Verdict(
        f"ΣR = {mean:.2f}·x, FFO = {overhead:.2f}, factor {factor:.1f}; shares {', '.join(map(str, shares))}",
        exact and round(mean, 2) == 3.73 and round(factor, 1) == 28.4 and shares == [1.0, 0.33, 0.1, 0.03],
        "FFO is exact because each round of toggling goes once through all local brokers.",
    )


def _identity(results: Results, advertisements: bool, links_told: int) -> tuple[bool, str]:
    """Judge identity's bound, rise and end: so many entries a symbol and link."""
    where: dict[str, Value] = {"strategy": "identity", "kind": "quotes", "advertisements": advertisements}
    curve = at_sizes(results, TABLES, "entries", **where)
    rows = results.rows(TABLES, **where)
    full = results.rows(TABLES, **{**where, "purpose": "saturation"})
    if not curve or not full:
        return False, "not measured"
    bounds = [links_told * whole(row, "symbols") * (whole(row, "brokers") - 1) for row in rows]
    bounded = all(whole(row, "entries") <= bound for row, bound in zip(rows, bounds, strict=True))
    bounded &= all(number(row, "fullest_share") <= 1 for row in rows)
    limit = links_told * whole(full[0], "symbols") * (whole(full[0], "brokers") - 1)
    exact = whole(full[0], "entries") == limit
    largest = max(results.rows(TABLES, **{**where, "purpose": "curve"}), key=lambda row: number(row, "x"))
    share = number(largest, "entries") / (
        links_told * number(largest, "symbols") * (number(largest, "brokers") - 1)
    )
    text = (
        f"{share:.1%} of the limit at x = {whole(largest, 'x'):,}; {whole(full[0], 'entries'):,} of {limit:,} on"
        f" {whole(full[0], 'brokers')} brokers when every symbol is asked for everywhere"
    )
    return bounded and exact and rises(list(curve.values())), text


def judge_identity(results: Results) -> Verdict:
    """R4: identity's tables end at two entries a symbol and link."""
    holds, text = _identity(results, False, 2)
    shares = [
        number(row, "fullest_share") for row in results.rows(TABLES, strategy="identity", kind="quotes")
    ]
    return Verdict(f"{text}; fullest table {max(shares, default=0):.2f} of m·|N_B|", holds)


def judge_identity_advertised(results: Results) -> Verdict:
    """R5: with advertisements at one, so that they help by a factor that falls to two."""
    holds, text = _identity(results, True, 1)
    _, gains = factors(results, TABLES, "entries", ("identity", "quotes"))
    full, few = (_entries_by_advertisements(results, purpose) for purpose in ("saturation", "published size"))
    if len(gains) < 2 or len(full) < 2 or len(few) < 2:
        return NOT_MEASURED
    first, last = few[False] / few[True], full[False] / full[True]
    return Verdict(
        f"{text}; gain {first:.1f} for 67 subscriptions on 107 brokers, {gains[0]:.1f} to {gains[-1]:.2f} on the"
        f" curve, {last:g} at the end",
        holds and rises(gains[::-1]) and 0.95 * 28.4 < first < 28.5 and last == 2,
    )


def _entries_by_advertisements(results: Results, purpose: str) -> dict[Value, int]:
    rows = results.rows(TABLES, purpose=purpose, strategy="identity")
    return {row["advertisements"]: whole(row, "entries") for row in rows}


def judge_covering_of_quotes(results: Results) -> Verdict:
    """R6: covering does what identity does when filters are equal or disjoint."""
    differences = compared = 0
    for experiment, measure in ((TABLES, "entries"), (OVERHEAD, "messages")):
        for advertisements in (True, False):
            where: dict[str, Value] = {"purpose": "curve", "kind": "quotes", "advertisements": advertisements}
            identity = at_sizes(results, experiment, measure, strategy="identity", **where)
            covering = at_sizes(results, experiment, measure, strategy="covering", **where)
            compared += len(identity)
            differences += sum(covering.get(size) != value for size, value in identity.items())
    return Verdict(f"{differences} differences in {compared} pairs of rows", compared > 0 and not differences)


_BOTH = (TABLES, OVERHEAD)
EXACT_CLAIMS = (
    Claim(
        "R1",
        "R",
        "A consumer is 3.73 links from a source at the root on average (250/67), 6.78 from one at a leaf's local"
        " broker.",
        (PATHS,),
        judge_paths,
        Criterion("both means exactly, as fractions.", "5.1"),
    ),
    Claim(
        "R2",
        "R",
        "Simple routing without advertisements: ΣR = (|V|-1)·x and FFO = |V|-1 = 106, exactly.",
        _BOTH,
        judge_simple,
        Criterion("exactly, in every simulated row.", "5.2, figures 2 and 5"),
    ),
    Claim(
        "R3",
        "R",
        "With advertisements: ΣR = 3.73·x and FFO = 3.73, 28.4 times less; tables by level are 1.00, 0.33, 0.10 and"
        " 0.03 of x.",
        _BOTH,
        judge_simple_advertised,
        Criterion("exactly, in every simulated row, and the printed digits.", "5.2, table 3"),
    ),
    Claim(
        "R4",
        "R",
        "Identity: ΣR converges to 2m(|V|-1), which is 212,000 for m = 1,000; no table exceeds m·|N_B|.",
        (TABLES,),
        judge_identity,
        Criterion(
            "the bound in every row, the limit exactly where every symbol is asked for everywhere.",
            "5.2, figure 2",
        ),
    ),
    Claim(
        "R5",
        "R",
        "Identity with advertisements: ΣR converges to m(|V|-1), which is 106,000; their gain falls from 28.4 to 2.",
        (TABLES,),
        judge_identity_advertised,
        Criterion("likewise; the gain falls with every size, from within 5 % of 28.4 to 2.", "5.2, figure 4"),
    ),
    Claim(
        "R6",
        "R",
        "Covering on quotes is identity on quotes, in RTS and FFO.",
        _BOTH,
        judge_covering_of_quotes,
        Criterion("no difference in any pair of rows.", "5.2"),
    ),
)
