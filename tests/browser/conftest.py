"""What browser tests share: one network of brokers, each a process, one dashboard, and one browser."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.helpers.nursery import Nursery, Process
from tests.e2e.helpers.running import free_port
from tests.tools import tool

import covey
from covey.broker.config import AdminConfig, BrokerConfig, LinkConfig
from covey.broker.security import hash_token
from covey.broker.warming import warm_up

TOKEN = "the-token-of-the-test"
ONLY_LOOKING = "the-token-for-looking"
# As a user without rights has no namespaces for Chromium's own sandbox, it is off: the pages are ours.
CHROMIUM = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
LINKS = (("paris", "lyon"), ("paris", "lille"), ("lyon", "nice"), ("lille", "nice"))
BROKERS = ("lille", "lyon", "nice", "paris")


@dataclass
class Network:
    """Brokers, where they are, and their links."""

    ports: dict[str, int]
    admin_ports: dict[str, int]
    links: Sequence[tuple[str, str]]
    processes: dict[str, Process] = field(default_factory=dict)

    def url(self, name: str) -> str:
        return f"covey://127.0.0.1:{self.ports[name]}"

    def pages(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.admin_ports.values()]

    def config(self, name: str) -> BrokerConfig:
        links = []
        for a, b in self.links:
            if name == a:
                links.append(LinkConfig(b))
            elif name == b:
                links.append(LinkConfig(a, "127.0.0.1", self.ports[a]))
        admin = AdminConfig(port=self.admin_ports[name], token=hash_token(TOKEN))
        return BrokerConfig(name, port=self.ports[name], links=tuple(links), admin=admin)

    def start(self, nursery: Nursery) -> None:
        """Start all brokers, and return when all links are there."""
        for name in self.ports:
            self.processes[name] = nursery.start(self.config(name))
        for process in self.processes.values():
            process.wait("linked")


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    tool("chromium", "Debian's package chromium")  # before anything is started
    warm_up()
    with Nursery() as nursery:
        ports = {name: free_port() for name in BROKERS}
        found = Network(ports, {name: free_port() for name in BROKERS}, LINKS)
        found.start(nursery)
        yield found


@pytest.fixture(scope="session")
def clients(network: Network) -> Iterator[dict[str, Any]]:
    """A client at each broker; those at nice and lille have subscribed."""
    with ExitStack() as stack:
        found = {
            name: stack.enter_context(covey.connect_sync(network.url(name), name=f"client-{name}"))
            for name in BROKERS
        }
        found["paris"].advertise("price > 0")
        for name, texts in {"nice": ("price < 100", "price < 10"), "lille": ("symbol = 'SAP'",)}.items():
            for text in texts:
                stack.enter_context(found[name].subscribe(text))
        for client in found.values():
            client.flush()
        yield found


@pytest.fixture(scope="session")
def dashboard(network: Network, clients: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the dashboard of the network."""
    with dashboard_of(network, tmp_path_factory.mktemp("dashboard")) as url:
        yield url


@contextmanager
def dashboard_of(network: Network, folder: Path) -> Iterator[str]:
    """Give the address of a dashboard, which is a process as people run it; the folder gets its tokens."""
    (folder / "token").write_text(TOKEN + "\n")
    (folder / "looking").write_text(ONLY_LOOKING)
    command = [sys.executable, "-m", "covey", "dashboard", *network.pages(), "--port", "0"]
    files = ["--token-file", str(folder / "token"), "--view-token-file", str(folder / "looking")]
    process = subprocess.Popen([*command, *files], stdout=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    try:
        word, url = process.stdout.readline().split()
        assert (word, "#" in url) == ("dashboard", False)  # a token that people have is not printed
        yield url
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def browser(dashboard: str) -> Iterator[Any]:
    """Chromium; it ends with the module, as other tests want an event loop of their own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=tool("chromium", "Debian's package chromium"), args=list(CHROMIUM)
        )
        yield found
        found.close()


class Watched:
    """A page of which everything that goes wrong is noted: what the console says, and requests to elsewhere."""

    def __init__(self, browser: Any, url: str, **settings: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **settings})
        self.context.set_default_timeout(30_000)
        self.page = self.context.new_page()
        self.url = url
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def log_in(self, token: str = TOKEN) -> Any:
        self.page.goto(self.url)
        self.page.fill("#token", token)
        self.page.click("#login-form button")
        self.page.wait_for_selector("#top:not([hidden])")
        return self.page

    def open(self, name: str) -> Any:
        self.page.click(f"nav a[href='#{name}']")
        self.page.wait_for_selector(f"#page-{name}:not([hidden])")
        return self.page

    def check(self) -> None:
        """Nothing went wrong, and nothing was asked of another machine."""
        assert self.problems == []
        assert [url for url in self.requests if not url.startswith(self.url)] == []


@pytest.fixture
def watched(browser: Any, dashboard: str) -> Iterator[Watched]:
    found = Watched(browser, dashboard)
    yield found
    found.check()
    found.context.close()
