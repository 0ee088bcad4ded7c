"""Kept rows as CSV, for other tools: a column for each parameter of the cells and each value of the rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from covey.lab.outcome import Outcome


def as_csv(outcomes: Iterable[Outcome]) -> str:
    """Return the rows of outcomes with the parameters of their cells; what a row does not have is empty.

    Parameters come first, in the order in which they appear. Outcomes that failed have no rows.
    """
    done = [outcome for outcome in outcomes if outcome.error is None]
    parameters = dict.fromkeys(key for outcome in done for key in outcome.cell)
    values = dict.fromkeys(key for outcome in done for row in outcome.rows for key in row)
    columns = list(parameters | values)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for outcome in done:
        writer.writerows({**outcome.cell, **row} for row in outcome.rows)
    return text.getvalue()
