"""Sections of the report about money: what each alternative is paid for, and what more table entries would buy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from covey.advisor import charts
from covey.advisor.contents import Contents
from covey.advisor.summary import COMPARED
from covey.errors import ConfigError
from covey.planning.objective import Objective, Offer, Step, front, steps
from covey.reports.page import Cell, Content, Kind, Table, Tag

PARTS = (  # of a price, and their titles
    ("price_traffic", "traffic"),
    ("price_publishing", "publishing"),
    ("price_tables", "entries"),
    ("price_memory", "memory"),
    ("price_trees", "trees"),
    ("price_migration", "change"),
)


def price_section(contents: Contents) -> dict[str, Any] | None:
    """Return what an event costs by each alternative, by what it is paid for; None if the plan does not say."""
    priced = [row for row in contents.summary.rows if "price" in row.numbers and row.name not in COMPARED]
    if not priced:
        return None
    rows: list[list[Content]] = []
    kinds: list[Kind] = []
    for row in sorted(priced, key=lambda one: (one.numbers["price"], one.name)):
        cells = [row.numbers.get(key) for key, _ in PARTS]
        rows.append([Cell(row.name, [Tag("chosen")] if row.chosen else []), row.numbers["price"], *cells])
        kinds.append("chosen" if row.chosen else "")
    heads = ["alternative", "price", *(title for _, title in PARTS)]
    return {"table": Table(heads, rows, kinds), "explanation": _prices(contents.plan.basis)}


def _prices(basis: Mapping[str, Any]) -> str:
    prices = basis.get("prices")
    if not isinstance(prices, dict):
        return ""
    told = {key: number_text(value) for key, value in prices.items() if isinstance(value, int | float)}
    limits = ""
    if "max_entries" in told:
        limits += f" At most {told['max_entries']} entries were allowed."
    if prices.get("min_saving"):
        limits += f" A plan had to save at least {prices['min_saving']:.1%} of the price of one tree."
    return (
        "The unit is one event over a link of cost 1. Paid by each event: the links that it crosses, "
        f"{told.get('copy')} for each copy that sets out, and {told.get('trial')} for each tree on which it is tried. "
        f"Paid once in {told.get('period')} events, of which the table has the share of one event: "
        f"{told.get('entry')} for an entry, {told.get('memory')} for a KiB of tables, {told.get('tree')} for a tree at "
        f"a broker, and {told.get('migration')} for an entry that is not there yet. `covey plan --price` sets others."
        f"{limits}"
    )


def number_text(value: float) -> str:
    """Return a price as people write it."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,g}"


def front_section(contents: Contents) -> dict[str, Any] | None:
    """Return traffic against entries of all that was tried, and what each step along the front exchanges.

    None if less than two plans were tried.
    """
    offers, chosen = offers_in(contents.plan.basis, contents.plan.method)
    if len(offers) < 2:
        return None
    along = front(offers)
    try:
        objective = Objective(**contents.plan.basis.get("prices", {}))
    except (TypeError, ConfigError):
        objective = Objective()
    return {
        "picture": charts.front(offers, along, chosen),
        "steps": [step_text(step, objective) for step in steps(objective, along)],
    }


def offers_in(basis: Mapping[str, Any], method: str) -> tuple[list[Offer], Offer | None]:
    """Return what the plan says was tried, and the one of these that was chosen."""
    found: list[Offer] = []
    chosen: Offer | None = None
    for row in basis.get("offers") or ():
        try:
            offer = Offer(
                str(row["name"]),
                float(row["cost"]),
                float(row["entries"]),
                int(row["trees"]),
                float(row["price"]),
            )
        except (TypeError, KeyError, ValueError):
            continue
        found.append(offer)
        if offer.name == method and (chosen is None or offer.price < chosen.price):
            chosen = offer
    return found, chosen


def named(offer: Offer) -> str:
    """Return an offer with its trees."""
    return f"{offer.name} with {offer.trees:,} tree{'s' * (offer.trees != 1)}"


def step_text(step: Step, objective: Objective) -> str:
    """Return what a step along the front exchanges, in a sentence."""
    paid = objective.entry + objective.migration
    share = f" ({step.saved / step.start.cost:.1%})" if step.start.cost else ""
    return (
        f"From {named(step.start)} to {named(step.end)}: {step.saved:,.3g} less traffic an event{share} for "
        f"{step.more:,.0f} more entries. That pays while an entry costs less than {step.worth:,.3g}; it costs "
        f"{paid:,g} without its memory."
    )


def front_lines(basis: Mapping[str, Any], method: str) -> Sequence[str]:
    """Return the steps along the front for a terminal."""
    objective = Objective(**basis["prices"]) if isinstance(basis.get("prices"), dict) else Objective()
    return [step_text(step, objective) for step in steps(objective, front(offers_in(basis, method)[0]))]
