"""The dashboard's pages and all reports by axe-core's rules: WCAG 2.1 A and AA, in the light and in the dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.browser import axe
from tests.browser.conftest import Watched
from tests.browser.test_dashboard import wait_for
from tests.unit.test_reports import MADE

pytestmark = pytest.mark.long
PAGES = ("map", "traffic", "tables", "plans", "clients")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of axe-core."""
    return axe.fetch(tmp_path_factory.mktemp("axe"))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_dashboard(program: str, browser: Any, dashboard: str, width: int, scheme: str) -> None:
    one = Watched(browser, dashboard, viewport={"width": width, "height": 900}, color_scheme=scheme)
    one.page.goto(dashboard)
    one.page.wait_for_selector("#login:not([hidden])")
    found = {"login": axe.violations(one.page, program)}
    page = one.log_in()
    wait_for(page, "state.view && state.view.brokers.every((row) => row.state === 'up')")
    for name in PAGES:
        one.open(name)
        if name == "map":
            page.focus("[data-broker=nice]")
            page.keyboard.press("Enter")
            page.wait_for_selector("#details:not([hidden])")
        elif name == "traffic":
            page.wait_for_selector("#charts figure >> nth=3")
        elif name == "tables":
            page.fill("#event", '{"price": 50, "symbol": "IBM"}')
            page.select_option("#start", "paris")
            page.click("#explain-form button.main")
            page.wait_for_selector("#receivers")
            page.click("#covering")
            page.wait_for_selector("#covering-tree li")
        elif name == "clients":
            page.wait_for_selector("#clients tbody tr >> nth=2")
        else:
            page.wait_for_selector("#plan-sentence:not(:empty)")
        found[name] = axe.violations(page, program)
    assert {name: lines for name, lines in found.items() if lines} == {}
    one.check()
    one.context.close()


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_a_report(program: str, browser: Any, tmp_path: Path, name: str, width: int, scheme: str) -> None:
    file = tmp_path / "report.html"
    file.write_text(MADE[name][0](tmp_path / "lab"), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(file.as_uri())
    assert axe.violations(page, program) == []
    context.close()
