"""The reports in Chromium: on a narrow and a wide screen, in the light and in the dark, and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import CHROMIUM
from tests.tools import tool
from tests.unit.test_reports import MADE

from covey.reports.theme import DARK, LIGHT


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Chromium without a network of brokers."""
    from playwright.sync_api import sync_playwright

    path = tool("chromium", "Debian's package chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM))
        yield found
        found.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The five reports as files."""
    folder = tmp_path_factory.mktemp("reports")
    for name, (make, _) in MADE.items():
        (folder / f"{name}.html").write_text(make(folder / "lab"), encoding="utf-8")
    return folder


def rgb(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light"), (2560, "light")])
def test_a_report_fits_every_screen(chromium: Any, folder: Path, name: str, width: int, scheme: str) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    problems: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((folder / f"{name}.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("[...document.images].filter((one) => one.naturalWidth === 0).length") == 0
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == rgb((DARK if scheme == "dark" else LIGHT)["ground"])
    # Words of a table are not cut into letters: no cell of it is narrower than its longest short word.
    narrow = page.evaluate(
        "[...document.querySelectorAll('td')].filter((one) => one.innerText.length > 40 &&"
        " one.getBoundingClientRect().width < 100).map((one) => one.innerText)"
    )
    assert narrow == []
    assert problems == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    context.close()


@pytest.mark.parametrize("name", MADE)
def test_a_report_can_be_printed(chromium: Any, folder: Path, name: str) -> None:
    context = chromium.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto((folder / f"{name}.html").as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == rgb(LIGHT["ink"])
    assert page.evaluate("getComputedStyle(document.querySelector('.copy')).display") == "none"
    # A picture that is wider than the paper is made smaller, and not cut off.
    page.set_viewport_size({"width": 690, "height": 1000})  # A4 without its margins
    assert page.evaluate(
        "[...document.images].every((one) => one.getBoundingClientRect().right <= innerWidth)"
    )
    assert page.pdf(format="A4").startswith(b"%PDF")
    context.close()
