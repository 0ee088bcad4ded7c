"""The report of a plan: one HTML page with everything, pictures and all, that needs no other file and no network.

What is computed is here and in the modules of its sections; what it looks like is the template `plan.html`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from covey.advisor.comparison import advice_section, alternatives_section, curve_section
from covey.advisor.contents import Contents
from covey.advisor.merging import merging_section
from covey.advisor.network import group_sizes, largest, network, trees
from covey.advisor.prices import front_section, price_section
from covey.advisor.summary import for_entries, saved, saving_text
from covey.pipeline.request import failure_lines, first_line
from covey.reports.page import Content, Table, page
from covey.reports.words import counted

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
    first, *rest = lead(contents)
    return page(
        "plan.html",
        f"A plan for {counted(len(plan.brokers), 'broker')}",
        origin=f"method {plan.method}, seed {plan.seed}",
        first=first,
        rest=rest,
        cards=cards(contents),
        warnings=[*warnings(contents), *stopped_lines(contents), *failure_lines(plan)],
        network=network_section(contents),
        alternatives=alternatives_section(contents),
        prices=price_section(contents),
        front=front_section(contents),
        curve=curve_section(contents),
        merging=merging_section(contents),
        advice=advice_section(contents.advice),
        data=data_section(contents),
        making=making_section(contents),
    )


# -- sections ------------------------------------------------------------------------------------------------


def cards(contents: Contents) -> list[tuple[str, str]]:
    """Return the figures that say most, each with what it is."""
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
    return shown


def predicted(contents: Contents) -> tuple[str, str]:
    """Return what the plan is predicted to save, and by which measure; a replay measures the same otherwise."""
    summary = contents.summary
    saving = saved(summary)
    by = f"traffic than {summary.now}, predicted on {dict(summary.parts)[summary.judged]}"
    if saving is None:
        return "unknown", "how much traffic the plan saves"
    return saving_text(abs(saving)), f"{'less' if saving >= 0 else 'more'} {by}"


def lead(contents: Contents) -> list[str]:
    """Return what to do, in a few sentences: the result first."""
    made = contents.explain.splitlines()[0] if contents.explain else first_line(contents.plan)
    if contents.advice is not None:
        return [contents.advice.headline, contents.advice.figures, made]
    return [*expected(contents), made, "Nothing was replayed: strategies were not compared."]


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


def network_section(contents: Contents) -> dict[str, Any]:
    """Return the network drawn, its trees, and a table of the largest."""
    plan = contents.plan
    sizes = group_sizes(plan)
    order = largest(plan)[:MOST_TREES]
    rows: list[list[Content]] = [[tree, plan.trees[tree].root, sizes[tree]] for tree in order]
    return {
        "pictures": [network(plan, contents.hosted), *([trees(plan)] if len(plan.trees) > 1 else [])],
        "table": Table(["tree", "root", "filters"], rows),
        "more": len(plan.trees) - len(order),
    }


def data_section(contents: Contents) -> dict[str, Any]:
    """Return what the plan was made from, and what could not be used."""
    basis = contents.plan.basis
    facts: list[list[Content]] = [
        [
            FACTS.get(str(key), str(key).replace("_", " ")),
            value if isinstance(value, int | float) else str(value),
        ]
        for key, value in basis.items()
        if key not in ("reason", "quarantined", "curve", "offers", "prices", "stopped")
    ]
    hosts = sorted((count, name) for name, count in contents.hosted.items() if count)
    if hosts:
        facts.append(["brokers that host subscriptions", len(hosts)])
        facts.append(["most subscriptions at a broker", f"{hosts[-1][0]:,} at {hosts[-1][1]}"])
    bad: list[list[Content]] = [
        [name, reason, rows]
        for name, reasons in contents.quarantined.items()
        for reason, rows in list(reasons.items())[:MOST_REASONS]
    ]
    return {"facts": Table(["", ""], facts), "bad": Table(["table", "reason", "rows"], bad) if bad else None}


def making_section(contents: Contents) -> dict[str, Any]:
    """Return why this plan, how long each stage took, with which parameters, and the checksum of the file."""
    stages: list[list[Content]] = [[name, round(seconds, 2)] for name, seconds in contents.stages.items()]
    asked: list[list[Content]] = [[str(key), str(value)] for key, value in contents.parameters.items()]
    return {
        "explain": contents.explain,
        "stages": Table(["stage", "seconds"], stages) if stages else None,
        "parameters": Table(["parameter", "value"], asked) if asked else None,
        "digest": blake2b(contents.plan.encode(), digest_size=16).hexdigest(),
    }
