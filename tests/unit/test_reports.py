"""The reports are one family: one style sheet, the result first, a table to copy, nothing from outside."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from jinja2 import UndefinedError
from tests.toy_paper import PAPER
from tests.unit.test_advisor_pictures import assert_follows, assert_readable
from tests.unit.test_advisor_report import contents
from tests.unit.test_demo import found
from tests.unit.test_whatif import ring

from covey.advisor.report import report as plan_report
from covey.advisor.rounds import rounds_page
from covey.advisor.whatif import Changes, what_if
from covey.advisor.whatif_report import whatif_page
from covey.demo import pictures
from covey.demo.report import report as demo_report
from covey.demo.scene import CITIES
from covey.lab.report import report as lab_report
from covey.lab.runner import HERE, run, tasks
from covey.lab.store import Store
from covey.reports import drawing
from covey.reports.page import page

TEMPLATES = Path(drawing.__file__).parent / "templates"


def rounds() -> str:
    common = {"at_s": 0.0, "reason": "x"}
    return rounds_page(
        [
            {"number": 1, "action": "keep", "measured": 3.0, **common},
            {"number": 2, "action": "install", "measured": 2.0, **common},
        ]
    )


def lab(folder: Path) -> str:
    store = Store(folder)
    run(store, tasks(store, PAPER.experiments, "small"), HERE)
    return lab_report([PAPER], store)


MADE: dict[str, tuple[Callable[[Path], str], str]] = {
    "plan": (
        lambda _: plan_report(contents(trees=2)),
        r"Stay with `covering` with advertisements: nothing that was replayed does better\.",
    ),
    "advisor": (
        lambda _: whatif_page(what_if(ring(), Changes(added=[("a", "e", 1.0)]), methods=["single"])),
        r"After the change an event needs .* traffic.*\.",
    ),
    "coordinator": (
        lambda _: rounds(),
        r"An event crosses 2\.00 links now and crossed 3\.00 at first: 33% less traffic\. .*",
    ),
    "demo": (
        lambda _: demo_report(found()),
        r"The plan needs 33% less traffic, for 2\.0 times the table entries\.",
    ),
    "lab": (lab, r"Of 2 claims: 1 as printed, 1 contradicted\."),
}


@cache
def made(name: str, folder: Path) -> str:
    return MADE[name][0](folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab")


def between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


class Structure(HTMLParser):
    """What a page loads, and whether its elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href", "action", "style")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", MADE)
def test_the_first_sentence_tells_the_result(name: str, folder: Path) -> None:
    text = made(name, folder)
    lead = between(text, '<section class="lead">', "</section>")
    first = unescape(re.sub("</?code>", "`", between(lead, "<p>", "</p>")))
    assert re.fullmatch(MADE[name][1], first), first
    assert text.index("<h1>") < text.index('<section class="lead">') < text.index("<h2")


@pytest.mark.parametrize("name", MADE)
def test_a_report_needs_nothing_runs_nothing_and_has_a_table_to_copy(name: str, folder: Path) -> None:
    text = made(name, folder)
    found = Structure(text)
    assert found.open == []
    assert set(found.tags).isdisjoint({"script", "link", "iframe", "object", "form"})
    assert all(one.startswith(("data:image/", "#")) for one in found.addresses)
    assert "url(" not in text
    assert "@import" not in text
    copied = unescape(between(text, "to copy</summary><pre>", "</pre>")).splitlines()
    assert len(copied) > 1
    assert len({line.count("\t") for line in copied}) == 1
    pictures = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', text)
    assert pictures
    for picture in pictures:
        assert_follows(b64decode(picture).decode())


def test_all_reports_have_one_style_sheet(folder: Path) -> None:
    styles = {between(made(name, folder), "<style>", "</style>") for name in MADE}
    assert len(styles) == 1
    (style,) = styles
    for rule in ("prefers-color-scheme: dark", "@media print", "@media (max-width: 40rem)"):
        assert rule in style


@pytest.mark.parametrize("name", MADE)
def test_classes_of_reports_are_those_of_the_style_sheet(name: str, folder: Path) -> None:
    style = between(made(name, folder), "<style>", "</style>")
    used = {one for value in re.findall(r'class="([^"]+)"', made(name, folder)) for one in value.split()}
    unknown = {one for one in used if not re.search(rf"\.{re.escape(one)}\b", style)}
    assert unknown == set()


def test_every_template_escapes() -> None:
    files = list(TEMPLATES.glob("*.html"))
    assert len(files) > len(MADE)
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape", text), file


def test_a_value_that_a_template_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        page("rounds.html", "title")


# -- the demonstration's pictures ----------------------------------------------------------------------------


def test_cities_can_be_read_and_the_legend_has_what_is_drawn() -> None:
    with mpl.rc_context(drawing.STYLE):
        sheet = drawing.sheet_of(pictures.NETWORK, constrained=False)
        caption = pictures._draw_before(sheet, found())
        sheet.canvas.draw()
    (axes,) = sheet.axes
    assert_readable(axes, axes.texts)
    assert {text.get_text() for text in axes.texts} == set(CITIES)
    assert caption == "The busiest link, london–newyork, carries 3.00 messages for each event."
    entries = {text.get_text() for text in sheet.legends[0].get_texts()}
    assert entries == {pictures.IDLE_LINK, pictures.USED_LINK}


def test_widths_of_links_are_of_one_scale() -> None:
    def widths(draw: Any) -> Any:
        with mpl.rc_context(drawing.STYLE):
            sheet = drawing.sheet_of(pictures.NETWORK, constrained=False)
            draw(sheet, found())
        (axes,) = sheet.axes
        return next(one.get_linewidths() for one in axes.collections if one.get_label() == pictures.USED_LINK)

    assert list(widths(pictures._draw_before)) == [pictures.WIDEST]
    assert list(widths(pictures._draw_after)) == pytest.approx([pictures.WIDEST / 3] * 2)
