"""The report of a plan: one HTML page with everything, pictures and all, that needs no other file and no network.

Every text that comes from the input (names of brokers, reasons, methods) is escaped.
"""

from __future__ import annotations

from hashlib import blake2b
from html import escape

from covey import __version__
from covey.advisor.comparison import advice_section, alternatives_section, curve_section
from covey.advisor.contents import Contents
from covey.advisor.merging import merging_section
from covey.advisor.network import group_sizes, largest, network, trees
from covey.advisor.page import counted, number, page, said, table
from covey.advisor.prices import front_section, price_section
from covey.advisor.summary import for_entries, saved, saving_text
from covey.pipeline.request import failure_lines, first_line

__all__ = ["Contents", "report"]

MOST_REASONS = 40
MOST_TREES = 200
FACTS = {  # what the plan's basis says, in words
    "asked": "method asked for",
    "digest": "digest of the input",
    "fresh": "fresh events",
    "held_out": "events held out",
    "interests": "different filters, by broker",
    "matches": "matches of filters and events",
    "sample": "share of the events looked at",
    "sampled": "events looked at",
    "topology": "links",
    "training": "training events",
}


def report(contents: Contents) -> str:
    """Return the page."""
    plan = contents.plan
    parts = [
        f'<p class="fine">Covey {escape(__version__)}. Method <b>{escape(plan.method)}</b>, seed {plan.seed}.</p>',
        lead(contents),
        cards(contents),
        warnings_section(contents),
        network_section(contents),
        alternatives_section(contents),
        price_section(contents),
        front_section(contents),
        curve_section(contents),
        merging_section(contents),
        advice_section(contents.advice),
        data_section(contents),
        making_section(contents),
    ]
    return page(f"A plan for {counted(len(plan.brokers), 'broker')}", parts)


# -- sections ------------------------------------------------------------------------------------------------


def cards(contents: Contents) -> str:
    """Return the figures that say most."""
    plan, basis = contents.plan, contents.plan.basis
    shown: list[tuple[str, str]] = [
        predicted(contents),
        (f"{len(plan.trees):,}", "dissemination tree" if len(plan.trees) == 1 else "dissemination trees"),
        (f"{len(plan.brokers):,} / {len(plan.links):,}", "brokers / links"),
    ]
    for key, title in (("subscriptions", "subscriptions"), ("interests", "different filters, by broker")):
        if isinstance(basis.get(key), int):
            shown.append((f"{basis[key]:,}", title))
    if isinstance(basis.get("events"), int):
        share = basis.get("sample")
        of = f", a sample of {share:.3g}" if isinstance(share, int | float) and share < 1 else ""
        shown.append((f"{basis['events']:,}", f"events{of}"))
    boxes = "".join(f'<div class="card"><b>{value}</b><span>{title}</span></div>' for value, title in shown)
    return f'<div class="cards">{boxes}</div>'


def predicted(contents: Contents) -> tuple[str, str]:
    """Return what the plan is predicted to save, and by which measure; a replay measures the same otherwise."""
    summary = contents.summary
    saving = saved(summary)
    by = f"traffic than {summary.now}, predicted on {dict(summary.parts)[summary.judged]}"
    if saving is None:
        return "unknown", "how much traffic the plan saves"
    return saving_text(abs(saving)), f"{'less' if saving >= 0 else 'more'} {by}"


def lead(contents: Contents) -> str:
    """Return what to do, in a sentence or two: the result first."""
    made = contents.explain.splitlines()[0] if contents.explain else first_line(contents.plan)
    if contents.advice is not None:
        lines = [contents.advice.headline, contents.advice.figures, made]
    else:
        lines = [*expected(contents), made, "Nothing was replayed: strategies were not compared."]
    rest = "".join(f'<p class="fine">{said(line)}</p>' for line in lines[1:])
    return f'<section class="lead"><h2>In short</h2><p>{said(lines[0])}</p>{rest}</section>'


def expected(contents: Contents) -> list[str]:
    """Return in a sentence what the plan is predicted to save, if that is known."""
    value, of = predicted(contents)
    if saved(contents.summary) is None:
        return []
    if value == "0%":
        return ["The plan is not expected to save any traffic compared with one tree."]
    return [
        f"The plan `{contents.plan.method}` is expected to need {value} {of}{for_entries(contents.summary)}."
    ]


def stopped_lines(contents: Contents) -> list[str]:
    """Return which methods did not come to their end, a sentence each."""
    stopped = contents.plan.basis.get("stopped")
    if not isinstance(stopped, dict):
        return []
    return [f"The method {name} {clause}." for name, clause in stopped.items()]


def warnings_section(contents: Contents) -> str:
    """Return what may be wrong with the data or the plan, if anything may."""
    found = [*warnings(contents), *stopped_lines(contents), *failure_lines(contents.plan)]
    if not found:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in found)
    return f'<section class="warning"><h2>Please note</h2><ul>{items}</ul></section>'


def warnings(contents: Contents) -> list[str]:
    """Return what may be wrong with the data or the plan, a sentence each."""
    basis, found = contents.plan.basis, []
    for name, reasons in contents.quarantined.items():
        rows = sum(reasons.values())
        if rows:
            found.append(f"{rows:,} rows of the table {name} could not be used and were set aside.")
    if not basis.get("fresh"):
        found.append(
            "There were too few events to set some aside for the prediction: it is made on events that chose the plan."
        )
    saving = saved(contents.summary)
    if saving is not None and saving <= 0:
        found.append("The plan saves nothing compared with one tree: there is no need to install it.")
    if not any(contents.hosted.values()):
        found.append("No broker hosts a subscription.")
    return found


def network_section(contents: Contents) -> str:
    """Return the network drawn, its trees, and a table of them."""
    plan = contents.plan
    sizes = group_sizes(plan)
    figures = [network(plan, contents.hosted), *([trees(plan)] if len(plan.trees) > 1 else [])]
    order = largest(plan)[:MOST_TREES]
    rows = [[number(tree), escape(plan.trees[tree].root), number(sizes[tree])] for tree in order]
    more = len(plan.trees) - len(order)
    note = f'<p class="fine">and {more:,} more</p>' if more else ""
    every = table(["tree", "root", "filters"], rows)
    listed = f"<details><summary>All trees, as a table</summary>{every}{note}</details>"
    return f"<section><h2>The network</h2>{''.join(figures)}{listed}</section>"


def data_section(contents: Contents) -> str:
    """Return what the plan was made from, and what could not be used."""
    basis = contents.plan.basis
    facts = [
        [
            escape(FACTS.get(str(key), str(key).replace("_", " "))),
            number(value) if isinstance(value, int | float) else escape(str(value)),
        ]
        for key, value in basis.items()
        if key not in ("reason", "quarantined", "curve")
    ]
    hosts = sorted((count, name) for name, count in contents.hosted.items() if count)
    if hosts:
        facts.append(["brokers that host subscriptions", number(len(hosts))])
        facts.append(["most subscriptions at a broker", f"{hosts[-1][0]:,} at {escape(hosts[-1][1])}"])
    bad = [
        [escape(name), escape(reason), number(rows)]
        for name, reasons in contents.quarantined.items()
        for reason, rows in list(reasons.items())[:MOST_REASONS]
    ]
    aside = (
        f"<h3>Set aside</h3>{table(['table', 'reason', 'rows'], bad)}"
        '<p class="fine">The rows, with file, line and source text, are in the directory quarantine beside it.</p>'
        if bad
        else '<p class="fine">No row was set aside.</p>'
    )
    return f"<section><h2>The data</h2>{table(['', ''], facts)}{aside}</section>"


def making_section(contents: Contents) -> str:
    """Return why this plan, how long each stage took, with which parameters, and the checksum of the file."""
    digest = blake2b(contents.plan.encode(), digest_size=16).hexdigest()
    stages = [[escape(name), number(round(seconds, 2))] for name, seconds in contents.stages.items()]
    asked = [[escape(str(key)), escape(str(value))] for key, value in contents.parameters.items()]
    explain = f"<pre>{escape(contents.explain)}</pre>" if contents.explain else ""
    return (
        f"<section><h2>How it was made</h2>{explain}"
        + (table(["stage", "seconds"], stages) if stages else "")
        + (table(["parameter", "value"], asked) if asked else "")
        + f'<p class="fine">Digest of plan.json: <code>{digest}</code></p></section>'
    )
