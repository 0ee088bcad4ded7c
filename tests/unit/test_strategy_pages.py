"""Every registered strategy has a page: sections in order, options as the code has them, numbers as they come."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import covey
from covey import cli
from covey.errors import ConfigError
from covey.routing.strategy import registered
from covey.sim import Network
from covey.strategies.incremental.settings import Settings
from covey.strategies.reductions import REDUCTIONS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "strategies"
INDEX = FOLDER / "README.md"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path != INDEX)
SECTIONS = [
    "The idea",
    "Where it comes from",
    "Messages",
    "Tables",
    "Costs",
    "When to choose it",
    "Options",
]


def strategies_of(page: Path) -> list[str]:
    """Return the strategies that a page is about: its title."""
    title = page.read_text(encoding="utf-8").partition("\n")[0]
    return title.removeprefix("# ").split(", ")


def section(page: Path, heading: str) -> str:
    return re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[
        1 + SECTIONS.index(heading)
    ]


def rows(text: str) -> dict[str, str]:
    """Return the lines of tables that begin with a name, by name."""
    return {found[1]: found[0] for found in re.finditer(r"^\| `([\w-]+)` \|.*$", text, re.MULTILINE)}


def test_every_strategy_has_one_page_and_the_index_leads_there() -> None:
    named = [name for page in PAGES for name in strategies_of(page)]
    assert sorted(named) == sorted(covey.strategies())
    text = INDEX.read_text(encoding="utf-8")
    for page in PAGES:
        for name in strategies_of(page):
            assert f"[`{name}`]({page.name})" in text


def test_the_page_on_trees_quotes_the_figures_of_the_papers() -> None:
    papers = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    figure = papers.partition("### M Ours 1:")[2].partition("\n### ")[0]
    cells = [
        (float(mean), float(worst))
        for mean, worst in re.findall(r"\|[^|]+\|[^|]+\| ([\d.]+) \(([\d.]+)\) \|", figure)
    ]
    assert len(cells) > 10
    means, worsts = zip(*cells, strict=True)
    text = " ".join((FOLDER / "trees.md").read_text(encoding="utf-8").split())
    assert f"between {min(means)} and {max(means)} of what they cost on one planned tree" in text
    assert f"and {max(worsts)} at worst" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_sections_in_order(page: Path) -> None:
    assert re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE) == SECTIONS
    played = re.findall(
        r"^```transcript\n> (?:options .*\n(?:.*\n)*?> )?network ([\w-]+)", section(page, "Messages"), re.M
    )
    assert played == strategies_of(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_whether_there_is_a_reduction(page: Path) -> None:
    text = " ".join(section(page, "Tables").split())
    names = strategies_of(page)
    assert ("The reduction" in text) == any(name in REDUCTIONS for name in names)
    assert ("no reduction" in text) == any(name not in REDUCTIONS for name in names)


def test_the_index_says_which_strategies_are_exact_and_what_else_they_are_called() -> None:
    choices = section_of_index("Which one")
    for line in re.findall(r"^\| \[`.*$", choices, re.MULTILINE):
        name = re.findall(r"`([\w-]+)`", line)[0]
        assert (line.split(" | ")[2] == "yes") == registered(name).perfect or name == "incremental", line
        for alias in re.findall(r"\((?:alias )?`([\w-]+)`\)", line):
            assert registered(alias).name == name


def section_of_index(heading: str) -> str:
    text = INDEX.read_text(encoding="utf-8")
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_the_table_of_the_common_run_is_what_the_example_prints() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "compare_strategies.py")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout in INDEX.read_text(encoding="utf-8")
    printed = rows(done.stdout)
    assert list(printed) == covey.strategies()
    for page in PAGES:
        text = section(page, "Costs")
        head, rule = done.stdout.splitlines()[:2]
        table = text.partition(f"{head}\n{rule}\n")[2].partition("\n\n")[0]
        shown = rows(table)
        assert set(strategies_of(page)) <= set(shown)
        assert shown == {name: printed[name] for name in shown}


RUNS = {
    # what a page calls it -> the line of `covey sim --compare`
    "entries at the end": "remote entries",
    "entries": "remote entries",
    "largest table": "remote entries, largest",
    "control messages": "control messages",
    "triggered": "triggered subscriptions",
    "events forwarded": "events forwarded",
    "events forwarded for nobody": "false positives",
    "delivered": "events delivered",
    "recognised as second copies": "duplicates suppressed",
    "longest queue": "longest queue",
    "mean delay": "delay s, mean",
}


@pytest.mark.long
@pytest.mark.parametrize("page", ["covering", "trees"])
def test_the_numbers_of_a_run_that_a_page_names_are_what_it_prints(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = section(FOLDER / f"{page}.md", "Costs")
    command = re.search(r"`covey (sim [^`]+ --compare [^`]+)`", text)
    assert command is not None
    assert cli.run(command[1].split()) == 0
    lines = [re.split(r"[│┃]", line) for line in capsys.readouterr().out.splitlines()]
    printed = {line[1].strip(): [cell.strip() for cell in line[2:-1]] for line in lines if len(line) > 2}
    strategies = command[1].rpartition(" ")[2].split(",")
    table = [
        [cell.strip().strip("`").removesuffix(" s") for cell in line.strip("|").split("|")]
        for line in text[command.end() :].partition("\n| |")[2].partition("\n\n")[0].splitlines()
    ]
    if [row[0] for row in table[2:]] == strategies:  # a row is a strategy: turn it round
        table = [list(column) for column in zip(["", *table[0]], *table[2:], strict=True)]
    else:
        table[0] = ["", *table[0]]
        del table[1]
    assert table[0][1:] == strategies
    assert len(table) > 5
    for name, *values in table[1:]:
        assert values == printed[RUNS[name]], name


def options_of(name: str) -> dict[str, object]:
    """Return the options of a strategy with their defaults, from the code."""
    if name == "incremental":
        return {field.name: field.default for field in dataclasses.fields(Settings)}
    parameters = inspect.signature(registered(name).make).parameters.values()
    return {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_options_of_a_page_are_those_of_the_code(page: Path) -> None:
    text = section(page, "Options")
    values = {name: row.split(" | ")[1].strip("`") for name, row in rows(text).items()}
    shown = {name: re.sub(r"(?<=\d),(?=\d{3}\b)", "", value) for name, value in values.items()}
    for name in strategies_of(page):
        options = options_of(name)
        assert list(shown) == list(options)
        for option, default in options.items():
            assert eval(shown[option], {}) == default, option
        if not options:
            assert text.removeprefix("Options\n\n").startswith("None.")
            with pytest.raises(ConfigError):
                Network([("a", "b")], name, options={"budget": 1})
