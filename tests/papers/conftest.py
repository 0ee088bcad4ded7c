"""What a module computes once: its `rows`, and all claims are judged by them."""

from __future__ import annotations

import pytest

from covey.lab.experiment import Results, Row


@pytest.fixture(scope="module")
def results(rows: dict[str, list[Row]]) -> Results:
    return Results(rows)
