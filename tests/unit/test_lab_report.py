"""The report and the drawings: one page that needs nothing else, in which every text is only text."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.toy_paper import FIGURES, FRACTIONS, PAPER, SQUARES, TROUBLES
from tests.unit.test_advisor_pictures import assert_follows

from covey.lab.drawing import cell_text, file_name, markdown, page_picture, picture, write_figure
from covey.lab.figure import Grid
from covey.lab.report import report
from covey.lab.runner import HERE, run, tasks
from covey.lab.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "results")
    run(store, tasks(store, PAPER.experiments, "small"), HERE)
    return store


class Page(HTMLParser):
    """Finds tags that are not closed in order, the addresses a page uses, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_has_everything_and_needs_nothing(store: Store) -> None:
    page = Page(report([PAPER], store))
    assert page.open == []
    for part in (
        "T: A toy & its <figures>",
        "Squares <never> shrink",
        "up to 4",
        "a third is less than a half",
        "Of 2 claims: 1 as printed, 1 contradicted.",
        "Proof that it cannot hold: 1/3 < 1/2.",
        "Figure 1. Squares & more.",
        "Squares <grow>.",
        "Table I",
        "0.3333",
        "seed",
        "Squares <of> numbers",
    ):
        assert part in page.text
    assert page.tags.isdisjoint({"script", "link", "iframe", "grow", "of", "never"})
    assert {address.partition(":")[0] for address in page.addresses} == {"#T", "data"}
    (data,) = [address for address in page.addresses if address.startswith("data:image/svg+xml;base64,")]
    picture = ElementTree.fromstring(b64decode(data.partition(",")[2]))
    assert picture.tag.endswith("svg")


def test_figures_of_the_page_follow_light_and_dark(store: Store) -> None:
    text = page_picture(FIGURES[0], store.results(PAPER.experiments, "small")).decode()
    assert_follows(text)
    assert "var(--series-0)" in text
    assert text.encode() == page_picture(FIGURES[0], store.results(PAPER.experiments, "small"))


def test_gaps_and_failures_are_said(tmp_path: Path) -> None:
    store = Store(tmp_path)
    some = replace(TROUBLES, cells=lambda scale: [{"how": "raise"}])
    run(store, tasks(store, [some], "small"), HERE)
    page = Page(report([PAPER._replace(experiments=(SQUARES, FRACTIONS, some))], store))
    assert "Not drawn: 3 of its cells are missing" in page.text
    assert "Cells that failed" in page.text
    assert "how=raise" in page.text
    assert "ValueError: no such thing" in page.text


def test_pictures_repeat_to_the_byte(store: Store) -> None:
    results = store.results(PAPER.experiments, "small")
    for kind in ("png", "svg"):
        one, other = (picture(FIGURES[0], results, kind) for _ in range(2))
        assert one == other
    assert picture(FIGURES[0], results, "png").startswith(b"\x89PNG")


def test_figures_are_written_to_files(store: Store, tmp_path: Path) -> None:
    results = store.results(PAPER.experiments, "small")
    drawn = [write_figure(figure, results, tmp_path / "new" / "figures", "svg") for figure in FIGURES]
    assert [path.name for path in drawn] == ["t-figure-1.svg", "t-table-i.md"]
    table = (tmp_path / "new" / "figures" / "t-table-i.md").read_text()
    assert table.startswith("| kind | value |\n| --- | --- |\n| half | 0.5 |\n| half | 1 |\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (12345.0, "12,345"),
        (12345.6, "12,346"),
        (0.123456, "0.1235"),
        ("a", "a"),
        (None, ""),
        (True, "True"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_in_tables(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_markdown_keeps_columns_apart() -> None:
    assert markdown(Grid(("a|b",), [("c|d",)])) == "| a\\|b |\n| --- |\n| c\\|d |\n"
    assert file_name(replace(FIGURES[0], number="6(a)"), "png") == "t-figure-6-a.png"
