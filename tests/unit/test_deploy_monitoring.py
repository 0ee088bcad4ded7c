"""Alert rules and the dashboard of deploy/: queries ask for what brokers expose, alerts have a page and a test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.promql import QueryError, labels_of
from tests.tools import run_tool, tool
from tests.unit.test_documents import anchors

from covey.broker.metrics import METRICS

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "helm" / "covey" / "files"
RULES = FILES / "covey.rules.yml"
RULE_TESTS = ROOT / "deploy" / "monitoring" / "rules.test.yml"
DASHBOARD = json.loads((FILES / "covey.dashboard.json").read_text(encoding="utf-8"))
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]


class Query(NamedTuple):
    """A query of the dashboard, with what it is shown as."""

    place: str
    expr: str
    legend: str


def queries() -> Iterator[Query]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield Query(
                f"{panel['title']}: {target['refId']}", _filled(target["expr"]), target["legendFormat"]
            )
    for one in DASHBOARD["annotations"]["list"]:
        yield Query(one["name"], _filled(one["expr"]), one["titleFormat"] + one["textFormat"])


def _filled(expr: str) -> str:
    """Return a query with a duration in place of Grafana's; other variables are within strings."""
    return re.sub(r"\$__(rate_)?interval", "5m", expr)


@pytest.mark.parametrize("query", list(queries()), ids=lambda query: query.place)
def test_the_dashboard_asks_for_what_there_is(query: Query) -> None:
    labels = labels_of(query.expr)
    assert labels is not None
    assert set(re.findall(r"{{(\w+)}}", query.legend)) <= labels


def test_variables_of_the_dashboard_are_defined_and_ask_for_what_there_is() -> None:
    defined = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD)))
    assert used == set(defined)
    asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", defined["instance"]["query"]["query"])
    assert asked is not None
    assert asked[2] in (labels_of(asked[1]) or ())


def test_panels_have_their_own_numbers_and_places_and_say_what_they_show() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith("."), panel["title"]


def test_no_metric_is_forgotten() -> None:
    """What is neither on the dashboard nor in a rule is named here, with the reason."""
    left_out = {
        "covey_client_queue_events",  # their bytes are there
        "covey_commit_seconds",  # `covey dashboard` draws these three
        "covey_hop_seconds",
        "covey_queue_seconds",
        "covey_connections_total",  # those that are open are there
        "covey_control_messages_received_total",  # the same messages as those sent
        "covey_inbox_longest_frames",  # since the start: it says nothing about now
        "covey_link_bytes_received_total",  # the other end has sent them
        "covey_link_queue_events",  # their bytes are there
        "covey_store_duplicates_total",  # confirmed again after a reconnection, as it should be
        "covey_store_is_sure",  # what comes of it is there: flooded events
        "covey_store_pending",  # their bytes are there
        "covey_store_subscriptions",  # grows by itself; their queues are there
    }
    asked = " ".join([query.expr for query in queries()] + [alert["expr"] for alert in ALERTS])
    names = set(re.findall(r"covey_\w+", asked))
    assert {metric.name for metric in METRICS} - names == left_out


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alerts_ask_for_what_there_is(alert: dict[str, Any]) -> None:
    labels = labels_of(alert["expr"])
    assert labels is not None
    said = json.dumps(alert["annotations"])
    assert set(re.findall(r"\$labels\.(\w+)", said)) <= labels
    assert alert["labels"].keys() == {"severity"}
    assert alert["labels"]["severity"] in ("critical", "warning")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alerts_have_a_page(alert: dict[str, Any]) -> None:
    path, _, anchor = alert["annotations"]["runbook"].partition("#")
    assert anchor == alert["alert"].lower()
    assert anchor in anchors(ROOT / path)


def test_the_page_has_no_alert_that_there_is_not() -> None:
    headings = re.findall(r"^### (Covey\w+)$", (ROOT / "docs/disaster.md").read_text(), re.MULTILINE)
    assert headings == [alert["alert"] for alert in ALERTS]


def test_each_alert_is_tried_firing_and_silent() -> None:
    tried = [
        (one["alertname"], bool(one["exp_alerts"]))
        for test in yaml.safe_load(RULE_TESTS.read_text(encoding="utf-8"))["tests"]
        for one in test["alert_rule_test"]
    ]
    assert sorted(tried) == sorted((alert["alert"], fires) for alert in ALERTS for fires in (False, True))


def test_series_of_these_tests_are_those_that_there_are() -> None:
    for test in yaml.safe_load(RULE_TESTS.read_text(encoding="utf-8"))["tests"]:
        for one in test["input_series"]:
            assert labels_of(one["series"]) is not None


@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", str(RULES)),
        ("test", "rules", str(RULE_TESTS)),
        ("check", "config", "--syntax-only", str(ROOT / "deploy/compose/prometheus.yml")),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_promtool_agrees(words: tuple[str, ...]) -> None:
    run_tool(tool("promtool", "Debian's package prometheus"), *words)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("covey_reddy == 0", "no broker exposes covey_reddy"),
        ('covey_link_up{neighbour="b"}', "covey_link_up has no label neighbour"),
        ("sum by (link) (covey_ready)", "sum over labels that are not there: link"),
        ("rate(covey_link_queue_bytes[5m])", "which is a gauge"),
        ("covey_link_up / covey_ready", "never match: link"),
        ("covey_ready and on (instance) up", "not used here"),
        ("absent(covey_ready)", "not used here"),
    ],
)
def test_what_cannot_be_asked_is_noticed(query: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        labels_of(query)


def test_what_is_no_promql_is_noticed() -> None:
    with pytest.raises(ValueError):
        labels_of("sum(covey_ready")
