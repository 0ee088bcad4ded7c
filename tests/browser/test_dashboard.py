"""The dashboard in Chromium: what people do with it, on real brokers. The tests are in the order of a visit."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from tests.browser.conftest import BROKERS, LINKS, ONLY_LOOKING, TOKEN, Network, Watched

from covey.planning.plan import Plan, PlannedTree


def wait_for(page: Any, expression: str) -> None:
    """Return once an expression is true in the page.

    Playwright's own way evaluates text in the page, which the page does not allow.
    """
    until_s = time.monotonic() + 30
    while not page.evaluate(expression):
        assert time.monotonic() < until_s, f"not true: {expression}"
        page.wait_for_timeout(50)


def test_nothing_is_shown_without_a_token(browser: Any, dashboard: str) -> None:
    one = Watched(browser, dashboard)
    one.page.goto(dashboard)
    one.page.wait_for_selector("#login:not([hidden])")
    assert not one.page.is_visible("#top")
    one.page.fill("#token", "a-wrong-token")
    one.page.click("#login-form button")
    one.page.wait_for_selector("#login-error:not(:empty)")
    assert one.page.text_content("#login-error") == "this token is not known here"
    assert one.page.evaluate("fetch('/api/clients').then((answer) => answer.status)") == 401
    # The console tells of refused requests, and of nothing else.
    assert all("401" in problem for problem in one.problems), one.problems
    one.context.close()


def test_the_session_is_out_of_reach_of_scripts_and_other_sites(watched: Watched) -> None:
    watched.log_in()
    (cookie,) = watched.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert watched.page.evaluate("document.cookie") == ""
    watched.page.reload()
    watched.page.wait_for_selector("#top:not([hidden])")  # it lasts
    watched.page.click("#logout")
    watched.page.wait_for_selector("#login:not([hidden])")
    assert watched.context.cookies() == []


def asked(url: str, headers: dict[str, str], body: bytes | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error


def test_requests_of_other_sites_reach_nothing(dashboard: str) -> None:
    login = json.dumps({"token": TOKEN}).encode()
    as_json = {"Content-Type": "application/json"}
    assert asked(dashboard, {"Host": "evil.example"})[0] == 421
    assert asked(f"{dashboard}api/login", {**as_json, "Origin": "https://evil.example"}, login)[0] == 403
    assert asked(f"{dashboard}api/login", {"Content-Type": "text/plain"}, login)[0] == 400
    status, answer = asked(f"{dashboard}api/login", as_json, login)
    assert status == 200
    cookie = {"Cookie": answer.headers["Set-Cookie"].split(";")[0]}
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    for path in ("api/table?what=nothing", "api/history?broker=%00", "api/map"):
        assert asked(f"{dashboard}{path}", cookie)[0] in (200, 400), path
    assert asked(f"{dashboard}static/..%2fserver.py", {})[0] == 404
    for body in (b"", b"[]", b"{", b"[" * 10_000, b'{"content": 1, "start": "paris"}'):
        assert asked(f"{dashboard}api/explain", {**as_json, **cookie}, body)[0] == 400
    # Whoever may only look changes nothing.
    _, answer = asked(f"{dashboard}api/login", as_json, json.dumps({"token": ONLY_LOOKING}).encode())
    cookie = {"Cookie": answer.headers["Set-Cookie"].split(";")[0]}
    for path in ("api/install?broker=paris", "api/rollback?broker=paris", "api/end"):
        assert asked(f"{dashboard}{path}", {**as_json, **cookie}, b"{}")[0] == 403, path


def test_the_map_shows_brokers_and_links(watched: Watched, clients: dict[str, Any]) -> None:
    page = watched.log_in()
    page.wait_for_selector("#map .broker.up >> nth=3")
    assert sorted(one.get_attribute("data-broker") for one in page.query_selector_all("#map .broker")) == [
        *BROKERS
    ]
    assert sorted(
        one.get_attribute("data-link") for one in page.query_selector_all(".link[data-link]")
    ) == sorted("|".join(sorted(pair)) for pair in LINKS)
    assert sorted(one.text_content() for one in page.query_selector_all("text.label")) == [*BROKERS]
    # A broker opens its details, by the keyboard too.
    page.focus("[data-broker=nice]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#details:not([hidden])")
    assert "nice" in page.text_content("#details h3")
    wait_for(page, "document.querySelector('#details dl').textContent.includes('covering')")
    # Traffic is seen, and the link that carries it is wider.
    for _ in range(200):
        clients["paris"].publish({"price": 5, "symbol": "IBM"})
    clients["paris"].flush()
    wait_for(
        page,
        "[...document.querySelectorAll('.link[data-link]')].some((one) =>"
        " Number(one.getAttribute('stroke-width')) > 2)",
    )
    page.fill("#find", "LILL")
    page.keyboard.press("Enter")
    wait_for(page, "document.querySelector('#details h3').textContent === 'lille'")
    page.select_option("#tree", "0")
    wait_for(page, "document.querySelectorAll('.link.tree').length === 3")
    page.select_option("#tree", "")


def test_labels_do_not_touch(watched: Watched) -> None:
    page = watched.log_in()
    wanted: list[dict[str, Any]] = [
        {"text": f"broker {n}", "weight": n, "box": [n * 7 % 300, n * 13 % 200, 60, 14]} for n in range(200)
    ]
    kept = page.evaluate("(wanted) => placeLabels(wanted)", wanted)
    boxes = [one["box"] for one in kept]
    assert wanted[-1] in kept  # the one that matters most
    assert 10 < len(kept) < 100
    for place, (x, y, width, height) in enumerate(boxes):
        for a, b, c, d in boxes[:place]:
            assert not (x < a + c and a < x + width and y < b + d and b < y + height)
    for one in wanted:  # none is left out without a reason
        x, y, width, height = one["box"]
        assert any(x < a + c and a < x + width and y < b + d and b < y + height for a, b, c, d in boxes)


def test_who_gets_an_event_and_why_not_the_others(watched: Watched) -> None:
    page = watched.log_in()
    wait_for(page, "state.view && state.view.brokers.every((row) => row.state === 'up')")
    watched.open("tables")
    page.fill("#event", '{"price": 50, "symbol": "IBM"}')
    page.select_option("#start", "paris")
    page.click("#explain-form button.main")
    page.wait_for_selector("#receivers")
    rows = page.locator("#receivers tbody tr").all_inner_texts()
    assert len(rows) == 1
    assert "price < 100" in rows[0]
    assert "nice" in rows[0]
    others = page.locator("#others tbody tr").all_inner_texts()
    assert len(others) == 2
    assert "price < 10" in others[1]
    assert "price is 50" in others[1]
    assert "symbol = 'SAP'" in others[0]
    # Hop by hop on the map.
    page.click("#on-map")
    page.wait_for_selector(".link.way", state="attached")  # a level line has no height
    assert page.locator(".hop-number").all_text_contents() == ["1", "2"]
    assert page.locator(".broker.faded").count() == 1
    page.click("#details button")
    assert page.locator(".link.way").count() == 0
    watched.open("tables")
    page.fill("#event", "{price")
    page.click("#explain-form button.main")
    page.wait_for_selector("#explain-error:not(:empty)")


def test_tables_and_covering(watched: Watched) -> None:
    page = watched.log_in()
    wait_for(page, "state.view && state.view.brokers.every((row) => row.state === 'up')")
    watched.open("tables")
    page.fill("#search", "sap")
    page.click("#table-form button.main")
    page.wait_for_selector("#table tbody tr")
    assert page.text_content("#table-count") == "1 of 3 rows"
    assert "symbol = 'SAP'" in page.locator("#table tbody tr").inner_text()
    page.fill("#search", "")
    page.click("#covering")
    page.wait_for_selector("#covering-tree li")
    assert page.locator("#covering-tree ul ul code").all_inner_texts() == ["price < 10"]
    assert "nice client-nice" in page.locator("#covering-tree ul ul li").inner_text()
    assert "2 of 3 filters are covered by none" in page.text_content("#table-count")
    page.select_option("#what", "entries")
    page.click("#table-form button.main")
    wait_for(
        page,
        "document.querySelector('#table thead') && document.querySelector('#table thead').textContent.includes('Tree')",
    )


def test_traffic(watched: Watched, clients: dict[str, Any]) -> None:
    page = watched.log_in()
    watched.open("traffic")
    page.wait_for_selector("#charts figure >> nth=3")
    page.wait_for_selector("#brokers tbody tr >> nth=3")
    assert page.locator("#latency tbody tr").count() == 3
    assert "a hop" in page.locator("#latency tbody tr").first.inner_text()


def test_a_client_is_ended_by_click(watched: Watched, clients: dict[str, Any]) -> None:
    page = watched.log_in()
    wait_for(page, "state.view && state.view.brokers.every((row) => row.state === 'up')")
    watched.open("clients")
    row = page.locator("#clients tbody tr", has_text="client-lyon")
    row.wait_for()
    before = row.inner_text()
    row.locator("button").click()
    page.click("#confirm button[value=no]")  # asked, and not done
    page.wait_for_selector("#confirm", state="hidden")
    row.locator("button").click()
    page.click("#confirm-yes")
    others = "[...document.querySelectorAll('#clients tbody tr')].map((one) => one.innerText)"
    wait_for(
        page, f"{others}.some((one) => one.includes('client-lyon') && one !== {json.dumps(before)})"
    )  # it is back, from another port
    clients["lyon"].flush()


def plan() -> bytes:
    """Return a plan with two trees, and predictions."""
    overlay = tuple(sorted((min(pair), max(pair), 1.0) for pair in LINKS))
    links = [(a, b) for a, b, _ in overlay]
    trees = tuple(
        PlannedTree(root, tuple(one for one in links if one != without))
        for root, without in (("paris", links[0]), ("nice", links[-1]))
    )
    predictions = {
        "single": {"cost": 300.0, "table_entries": 9.0, "trees": 1.0},
        "mult": {"cost": 240.0, "table_entries": 12.0, "trees": 2.0},
        "opt": {"cost": 180.0},
    }
    return Plan(
        "mult", 1, tuple(sorted(BROKERS)), overlay, trees, predictions=predictions, basis={"sampled": 100}
    ).encode()


def test_a_plan_is_installed_and_taken_back_by_click(watched: Watched) -> None:
    page = watched.log_in()
    wait_for(page, "state.view && state.view.brokers.every((row) => row.state === 'up')")
    watched.open("plans")
    wait_for(page, "document.querySelector('#plan-sentence').textContent.startsWith('No plan is in use')")
    page.set_input_files(
        "#plan-file", {"name": "two.plan", "mimeType": "application/octet-stream", "buffer": plan()}
    )
    page.select_option("#plan-broker", "paris")
    page.click("#install-form button.main")
    page.wait_for_selector("#confirm[open]")  # once the file is read
    assert "two.plan" in page.text_content("#confirm-text")
    page.click("#confirm-yes")
    wait_for(
        page,
        "document.querySelector('#plan-sentence').textContent.includes('A plan by mult is in use: 2 trees')",
    )
    assert "Predicted: 2.40 links an event, 20.0% less than one tree" in page.text_content("#plan-sentence")
    page.wait_for_selector("#plan-chart circle.chosen")
    assert page.locator("#alternatives tbody tr").count() == 3
    watched.open("map")
    wait_for(page, "document.querySelectorAll('#tree option').length === 4")  # links, all trees, and two
    page.select_option("#tree", "1")
    wait_for(page, "document.querySelectorAll('.link.tree').length === 3")
    watched.open("plans")
    page.click("#roll-back")
    page.click("#confirm-yes")
    wait_for(page, "document.querySelector('#plan-sentence').textContent.startsWith('No plan is in use')")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (2560, "light")])
def test_pages_fit_narrow_and_wide_screens(browser: Any, dashboard: str, width: int, scheme: str) -> None:
    one = Watched(browser, dashboard, viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = one.log_in()
    page.wait_for_selector("#map .broker.up >> nth=3")
    for name in ("map", "traffic", "tables", "plans", "clients"):
        one.open(name)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(13, 17, 23)" if scheme == "dark" else "rgb(246, 248, 250)")
    one.check()
    one.context.close()


def test_everything_can_be_named_and_reached_by_keyboard(watched: Watched) -> None:
    page = watched.log_in()
    page.wait_for_selector("#map .broker.up >> nth=3")
    nameless = page.evaluate(
        "[...document.querySelectorAll('input, select, textarea, button, a, [role=button]')].filter((one) =>"
        " !(one.labels && one.labels.length) && !one.getAttribute('aria-label') && !one.textContent.trim())"
        ".map((one) => one.outerHTML)"
    )
    assert nameless == []
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.evaluate("[...document.querySelectorAll('[id]')].length") == page.evaluate(
        "new Set([...document.querySelectorAll('[id]')].map((one) => one.id)).size"
    )


# Notes when a broker gets the class "down", by the page's clock, in milliseconds since 1970.
NOTE_DOWN = """(name) => {
  window.downAt = null;
  const look = () => {
    if (window.downAt === null && document.querySelector(`[data-broker=${name}].down`)) window.downAt = Date.now();
  };
  const all = {attributes: true, childList: true, subtree: true};
  new MutationObserver(look).observe(document.querySelector("#map"), all);
}"""
PROMISED_S = 3.0
BUSY = 4  # times longer may it take where tests share the processors


def seconds_until_red(page: Any, name: str, process: Any) -> float:
    """Kill a broker; return how long its dot took to turn red on the page."""
    page.wait_for_selector(f"[data-broker={name}].up")
    page.evaluate(NOTE_DOWN, name)
    killed_s = time.time()
    process.kill()
    page.wait_for_selector(f"[data-broker={name}].down")
    at_ms: float = page.evaluate("window.downAt")
    return at_ms / 1_000 - killed_s


def test_a_broker_that_is_killed_turns_red(
    watched: Watched, network: Network, record_property: Callable[[str, object], None]
) -> None:
    """The last test: the broker does not come back."""
    page = watched.log_in()
    took_s = seconds_until_red(page, "lyon", network.processes["lyon"])
    record_property("seconds until red", took_s)
    assert took_s < BUSY * PROMISED_S
    wait_for(page, "document.querySelectorAll('.link.down[data-link]').length === 2")
    assert (
        page.evaluate("getComputedStyle(document.querySelector('[data-broker=lyon] circle')).fill")
        == "rgb(196, 19, 43)"
    )
    wait_for(page, "document.querySelector('#summary').textContent.includes('1 down')")
