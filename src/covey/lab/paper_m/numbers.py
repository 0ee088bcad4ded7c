"""Reading numbers out of rows: means over seeds, ratios of them, and the names of readings."""

from __future__ import annotations

from collections.abc import Iterable

from covey.lab.experiment import Results, Row, Value
from covey.lab.paper_m.world import JUDGED, real


def values(results: Results, experiment: str, column: str, **where: Value) -> list[float]:
    """Return a column under the results' reading, unless told otherwise; LookupError if there is no such row."""
    rows = results.rows(experiment, **dimensions(results, **where))
    found = [real(row, column) for row in rows if row.get(column) is not None]
    if not found:
        raise LookupError(f"{experiment} has no rows with {column} where {where}")
    return found


def dimensions(results: Results, **where: Value) -> dict[str, Value]:
    """Return the values of all dimensions under the results' reading: what figures show, unless it says another."""
    chosen = {
        key: value for key, value in results.reading.items() if key in JUDGED and not isinstance(value, tuple)
    }
    return {**JUDGED, **chosen, **where}


def mean(results: Results, experiment: str, column: str, **where: Value) -> float:
    """Return the mean over seeds of a column, likewise."""
    found = values(results, experiment, column, **where)
    return sum(found) / len(found)


def sizes(results: Results, experiment: str, **where: Value) -> list[int]:
    """Return the numbers of brokers, likewise."""
    rows = results.rows(experiment, **dimensions(results, **where))
    return sorted({int(real(row, "brokers")) for row in rows})


def readings(rows: Iterable[Row]) -> list[dict[str, Value]]:
    """Return the readings of rows, each once, in their order."""
    keys = tuple(JUDGED)
    return [dict(one) for one in dict.fromkeys(tuple((key, row[key]) for key in keys) for row in rows)]


def reading_name(reading: dict[str, Value]) -> str:
    """Return a reading in a few words."""
    near = "" if reading["near"] == 1 else f", near {reading['near']}"
    place = "" if reading["place"] == "anywhere" else ", published at the centre"
    return f"{reading['topology']}, a {reading['per']}'s, {reading['words']} words{near}{place}"


def listed(numbers: Iterable[float], form: str = ".2f") -> str:
    """Return numbers with spaces between."""
    return " ".join(format(number, form) for number in numbers)
