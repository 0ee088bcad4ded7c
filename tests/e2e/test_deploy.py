"""A broker with the compose file's configuration, asked as Prometheus, a health check and Grafana ask it."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import aiohttp
from tests.e2e.helpers.pairs import admin_url
from tests.e2e.helpers.running import run
from tests.promql import LABELS, selectors
from tests.unit.test_deploy_monitoring import ALERTS, queries

from covey.broker.config import config_of
from covey.broker.metrics import METRICS
from covey.broker.security import hash_token
from covey.broker.server import Broker

ROOT = Path(__file__).parents[2]
CONFIGURE = runpy.run_path(str(ROOT / "deploy" / "compose" / "configure.py"))
SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? \S+")
PART = re.compile(r"_(bucket|sum|count)$")  # of a histogram's samples
HISTOGRAMS = {metric.name for metric in METRICS if metric.kind == "histogram"}
# Only there once something has happened.
RARE = {
    "covey_control_messages_received_total",
    "covey_control_messages_sent_total",
    "covey_refused_total",
    "covey_requests_total",
    "covey_slow_consumer_events",
}


async def scraped(folder: Path) -> str:
    """Return what Prometheus gets of the broker paris, of which only the places are others."""
    values = tomllib.loads(
        CONFIGURE["configuration"](
            "paris", hash_token("secret"), hash_token("view"), hash_token("client"), "x" * 20
        )
    )
    values |= {"port": 0, "host": "127.0.0.1", "data_dir": str(folder / "data")}
    values["admin"] |= {"port": 0, "host": "127.0.0.1"}
    async with Broker(config_of(values, "paris.toml")) as broker, aiohttp.ClientSession() as session:
        as_named = {"Host": f"paris:{CONFIGURE['ADMIN_PORT']}"}  # by which Prometheus calls it
        for page in ("/healthz", "/readyz"):  # without a token
            async with session.get(admin_url(broker) + page) as answer:
                assert answer.status in (200, 503)
        async with session.get(admin_url(broker) + "/metrics", headers=as_named) as answer:
            assert answer.status == 401
        as_named["Authorization"] = "Bearer view"  # as Prometheus has it
        async with session.get(admin_url(broker) + "/metrics", headers=as_named) as answer:
            assert answer.status == 200
            return await answer.text()


def test_a_real_broker_exposes_what_the_dashboard_and_the_rules_ask_for(tmp_path: Path) -> None:
    text = run(scraped(tmp_path))
    found: dict[str, list[dict[str, str]]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            name = PART.sub("", sample[1]) if PART.sub("", sample[1]) in HISTOGRAMS else sample[1]
            found.setdefault(name, []).append(dict(re.findall(r'(\w+)="([^"]*)"', sample[2] or "")))
    assert {metric.name for metric in METRICS} - found.keys() <= RARE
    for name, samples in found.items():
        more = {"le"} if name in HISTOGRAMS else set()
        assert all(set(labels) <= LABELS[name] | more for labels in samples)
    for query in [*(one.expr for one in queries()), *(alert["expr"] for alert in ALERTS)]:
        for asked in selectors(query):
            if not asked.name.startswith("covey_") or asked.name in RARE:
                continue
            wanted = {m.name: m.value for m in asked.matchers.matchers if m.name not in ("job", "instance")}
            assert any(wanted.items() <= labels.items() for labels in found[asked.name]), f"{query}: {wanted}"
