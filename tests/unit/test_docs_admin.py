"""docs/admin.md lists the pages, metrics and log events that there are."""

from __future__ import annotations

import re
from pathlib import Path

from covey.broker.http.admin import ENDPOINTS
from covey.broker.metrics import METRICS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "admin.md").read_text()
SOURCES = "\n".join(file.read_text() for file in sorted((ROOT / "src/covey/broker").rglob("*.py")))


def rows(first: str) -> list[str]:
    """Return the rows of tables whose first cells look like this."""
    return [line for line in TEXT.splitlines() if re.match(rf"\| {first}", line)]


def test_pages() -> None:
    expected = [f"| {one.method} | `{one.path}` | {one.takes} | {one.meaning} |" for one in ENDPOINTS]
    assert rows("(GET|POST|DELETE) ") == expected


def test_metrics() -> None:
    expected = [f"| `{m.name}` | {m.kind} | {', '.join(m.labels)} | {m.meaning} |" for m in METRICS]
    assert rows("`covey_") == expected


def test_names_of_metrics_keep_prometheus_rules() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch(r"covey_[a-z_]+", metric.name)
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name


def test_help_texts_are_sentences() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"[A-Z1].{10,}\.", metric.meaning), metric


def test_log_events() -> None:
    table = TEXT.partition("| event | level | when |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    documented = {name for cell in cells for name in re.findall(r"`([a-z ]+)`", cell)}
    said = set(
        re.findall(r'\b_?[sS]ay(?:_damage)?\(\s*(?:log,\s*)?(?:logging\.\w+|level),\s*"([a-z ]+)"', SOURCES)
    )
    assert documented == said
