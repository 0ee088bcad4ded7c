"""Pictures for the documents: the map, an event explained and a plan, of eleven brokers with live traffic.

COVEY_REWRITE_PICTURES=1 writes them. Otherwise they are compared loosely: a picture may be of another moment, but has
the same size, and most of it is alike.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from tests.browser.conftest import CHROMIUM, TOKEN, Network, Watched, dashboard_of
from tests.browser.test_dashboard import wait_for
from tests.e2e.helpers.nursery import Nursery
from tests.e2e.helpers.running import free_port
from tests.tools import tool

import covey
from covey.broker.warming import warm_up
from covey.planning.plan import Plan, PlannedTree

pytestmark = pytest.mark.long

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MOST_BYTES = 250_000
LINKS = (
    ("paris", "lyon"), ("paris", "lille"), ("paris", "brest"), ("lyon", "nice"), ("lyon", "geneva"),
    ("geneva", "milan"), ("lille", "brussels"), ("brussels", "cologne"), ("cologne", "berlin"),
    ("cologne", "zurich"), ("zurich", "milan"), ("zurich", "geneva"),
)  # fmt: skip
BROKERS = tuple(sorted({name for pair in LINKS for name in pair}))
SYMBOLS = ("IBM", "SAP", "AMD", "TSM", "ARM")


@contextmanager
def traffic(network: Network) -> Iterator[None]:
    """Subscriptions everywhere, and events from five brokers, until it is over."""
    random, over = Random(1), threading.Event()
    with ExitStack() as stack:
        clients = [
            stack.enter_context(covey.connect_sync(network.url(name), name=f"desk-{name}"))
            for name in BROKERS
        ]
        for client in clients:
            client.advertise("price >= 0")
            for symbol in random.sample(SYMBOLS, 2):
                for high in (50, 100):
                    stack.enter_context(client.subscribe(f"symbol = '{symbol}' and price < {high}"))
            client.flush()

        def publish() -> None:
            while not over.wait(0.02):
                for client in clients[:5]:
                    client.publish({"symbol": random.choice(SYMBOLS), "price": random.randrange(120)})

        publishing = threading.Thread(target=publish)
        publishing.start()
        try:
            yield
        finally:
            over.set()
            publishing.join()


def plan() -> bytes:
    """Return a plan with three trees, each without other links of the two circles."""
    links = sorted((min(pair), max(pair)) for pair in LINKS)
    without = (
        {("lyon", "paris"), ("milan", "zurich")},
        {("brussels", "cologne"), ("geneva", "zurich")},
        {("cologne", "zurich"), ("geneva", "milan")},
    )
    trees = tuple(
        PlannedTree(root, tuple(pair for pair in links if pair not in left))
        for root, left in zip(("cologne", "lyon", "paris"), without, strict=True)
    )
    costs = {
        "flooding": (1_000.0, None), "single": (610.0, 310.0), "spt": (655.0, 318.0), "mult": (505.0, 690.0),
        "hybrid": (512.0, 560.0), "regions": (472.0, 930.0), "unicast": (498.0, 1_720.0), "opt": (418.0, None),
    }  # fmt: skip
    predictions = {
        name: {"cost": cost, **({"table_entries": entries} if entries else {})}
        for name, (cost, entries) in costs.items()
    }
    overlay = tuple((a, b, 1.0) for a, b in links)
    return Plan(
        "regions", 1, BROKERS, overlay, trees, predictions=predictions, basis={"sampled": 100}
    ).encode()


def compared(picture: bytes, name: str) -> None:
    """Write a picture, or compare it with the one in the documents."""
    file = IMAGES / f"dashboard-{name}.png"
    assert len(picture) < MOST_BYTES
    if os.environ.get("COVEY_REWRITE_PICTURES"):
        file.write_bytes(picture)
    now, before = imread(io.BytesIO(picture), format="png"), imread(file, format="png")
    assert now.shape == before.shape
    assert float(np.mean(np.abs(now - before) > 0.1)) < 0.15, f"{name} looks different"


def test_pictures_of_the_documents(tmp_path: Path) -> None:
    chromium = tool("chromium", "Debian's package chromium")
    warm_up()
    with ExitStack() as stack:
        nursery = stack.enter_context(Nursery())
        network = Network(
            {name: free_port() for name in BROKERS}, {name: free_port() for name in BROKERS}, LINKS
        )
        network.start(nursery)
        stack.enter_context(traffic(network))
        url = stack.enter_context(dashboard_of(network, tmp_path))
        from playwright.sync_api import sync_playwright

        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM))
        _visit(browser, url)
        browser.close()


def _visit(browser: Any, url: str) -> None:
    one = Watched(browser, url, viewport={"width": 1200, "height": 760}, color_scheme="light")
    page = one.log_in(TOKEN)
    wait_for(
        page,
        f"state.view && state.view.brokers.filter((row) => row.state === 'up').length === {len(BROKERS)}",
    )
    wait_for(
        page, "state.view.totals.published > 20 && state.map.version > 0 && document.querySelector('.label')"
    )
    page.wait_for_timeout(3_000)  # until widths are those of steady traffic
    page.click("[data-broker=cologne]")
    page.wait_for_timeout(2_000)
    compared(page.screenshot(), "map")
    page.click("#details button")
    one.open("tables")
    page.fill("#event", '{"symbol": "IBM", "price": 12}')
    page.select_option("#start", "berlin")
    page.click("#explain-form button.main")
    page.wait_for_selector("#receivers")
    page.click("#on-map")
    page.wait_for_selector(".hop-number")
    page.wait_for_timeout(2_000)
    compared(page.screenshot(), "explain")
    one.open("plans")
    page.set_input_files(
        "#plan-file", {"name": "regions.plan", "mimeType": "application/octet-stream", "buffer": plan()}
    )
    page.click("#install-form button.main")
    page.click("#confirm-yes")
    wait_for(
        page, "document.querySelector('#plan-sentence').textContent.includes('A plan by regions is in use')"
    )
    page.wait_for_timeout(4_000)
    compared(page.screenshot(), "plan")
    one.check()
    one.context.close()
