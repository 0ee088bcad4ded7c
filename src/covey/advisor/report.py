"""The report of a plan: one HTML page with everything, pictures and all, that needs no other file and no network.

Every text that comes from the input (names of brokers, reasons, methods) is escaped.
"""

from __future__ import annotations

from hashlib import blake2b
from html import escape

from covey import __version__
from covey.advisor import pictures
from covey.advisor.comparison import advice_section, alternatives_section, curve_section
from covey.advisor.contents import Contents
from covey.advisor.merging import merging_section
from covey.advisor.page import STYLE, figure, number, table
from covey.advisor.summary import saved, saving_text

__all__ = ["Contents", "report"]

MOST_REASONS = 40
MOST_TREES = 200


def report(contents: Contents) -> str:
    """Return the page."""
    plan = contents.plan
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>A plan for {len(plan.brokers):,} brokers</title><style>{STYLE}</style></head><body><main>",
        f"<h1>A plan for {len(plan.brokers):,} brokers</h1>",
        f'<p class="fine">Covey {escape(__version__)}. Method <b>{escape(plan.method)}</b>, seed {plan.seed}.</p>',
        cards(contents),
        lead(contents),
        warnings_section(contents),
        network_section(contents),
        alternatives_section(contents),
        curve_section(contents),
        merging_section(contents),
        advice_section(contents.advice),
        data_section(contents),
        making_section(contents),
        "</main></body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


# -- sections ------------------------------------------------------------------------------------------------


def cards(contents: Contents) -> str:
    """Return the figures that say most."""
    plan, basis = contents.plan, contents.plan.basis
    shown: list[tuple[str, str]] = [
        (saving_text(saved(contents.summary)) or "unknown", "less traffic than what runs now"),
        (f"{len(plan.trees):,}", "tree" if len(plan.trees) == 1 else "trees"),
        (f"{len(plan.brokers):,} / {len(plan.links):,}", "brokers / links"),
    ]
    for key, title in (("subscriptions", "subscriptions"), ("interests", "different filters at a broker")):
        if isinstance(basis.get(key), int):
            shown.append((f"{basis[key]:,}", title))
    if isinstance(basis.get("events"), int):
        sampled = basis.get("sampled")
        of = f", {sampled:,} sampled" if isinstance(sampled, int) and sampled != basis["events"] else ""
        shown.append((f"{basis['events']:,}", f"events{of}"))
    boxes = "".join(f'<div class="card"><b>{value}</b><span>{title}</span></div>' for value, title in shown)
    return f'<div class="cards">{boxes}</div>'


def lead(contents: Contents) -> str:
    """Return what to do, in a sentence or two."""
    advice = contents.advice
    said = contents.explain.splitlines()[0] if contents.explain else f"{contents.plan.method} was planned."
    if advice is None:
        return f'<section class="lead"><h2>In short</h2><p>{escape(said)} Nothing was replayed.</p></section>'
    return (
        f'<section class="lead"><h2>In short</h2><p>{escape(advice.sentence)}</p>'
        f'<p class="fine">{escape(said)}</p></section>'
    )


def warnings_section(contents: Contents) -> str:
    """Return what may be wrong with the data or the plan, if anything may."""
    found = warnings(contents)
    if not found:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in found)
    return f'<section class="warning"><h2>To know</h2><ul>{items}</ul></section>'


def warnings(contents: Contents) -> list[str]:
    """Return what may be wrong with the data or the plan, a sentence each."""
    basis, found = contents.plan.basis, []
    for name, reasons in contents.quarantined.items():
        rows = sum(reasons.values())
        if rows:
            found.append(f"{rows:,} rows of the table {name} could not be used and were set aside.")
    if not basis.get("fresh"):
        found.append(
            "There were too few events to keep some fresh: the figures are of events that chose the plan."
        )
    saving = saved(contents.summary)
    if saving is not None and saving <= 0:
        found.append("The plan saves nothing against one tree: nothing need be installed.")
    if not any(contents.hosted.values()):
        found.append("No broker hosts a subscription.")
    return found


def network_section(contents: Contents) -> str:
    """Return the network drawn, its trees, and a table of them."""
    plan = contents.plan
    sizes = pictures.group_sizes(plan)
    caption = (
        "The main tree around its root, brokers by their number of links from it; larger ones host more "
        "subscriptions. Grey links are not on this tree. "
    )
    if len(plan.trees) > 1:
        caption += "Darker links are on more trees. A star is a root."
    figures = [figure(pictures.network(plan, contents.hosted, "the network"), caption)]
    if len(plan.trees) > 1:
        shown = min(len(plan.trees), pictures.MOST_PANELS)
        which = "All trees" if shown == len(plan.trees) else f"The {shown} trees with the most filters"
        caption = f"{which}, each around its own root; dots are brokers whose filters belong to the tree."
        if plan.one_copy is not None:
            caption += " Every tree serves all subscriptions: an event travels on one of them."
        figures.append(figure(pictures.trees(plan, sizes, "trees"), caption))
    order = sorted(range(len(plan.trees)), key=lambda tree: (-sizes[tree], tree))[:MOST_TREES]
    rows = [[number(tree), escape(plan.trees[tree].root), number(sizes[tree])] for tree in order]
    more = len(plan.trees) - len(order)
    note = f'<p class="fine">and {more:,} more</p>' if more else ""
    trees = f"<details><summary>Trees</summary>{table(['tree', 'root', 'filters'], rows)}{note}</details>"
    return f"<section><h2>The network</h2>{''.join(figures)}{trees}</section>"


def data_section(contents: Contents) -> str:
    """Return what the plan was made from, and what could not be used."""
    basis = contents.plan.basis
    facts = [
        [
            escape(str(key).replace("_", " ")),
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
