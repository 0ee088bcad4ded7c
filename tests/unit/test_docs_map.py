"""The newcomer's path: the map leads to every page, the examples' list to every example, the glossary to every word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.test_documents import DOCUMENTS, LINK, prose

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "README.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
EXAMPLES = ROOT / "examples"


def linked(document: Path) -> set[Path]:
    """Return the files that a document links to."""
    paths = {
        link.partition("#")[0] for link in LINK.findall(prose(document)) if not re.match(r"[a-z]+:", link)
    }
    return {(document.parent / path).resolve() for path in paths if path}


def reachable(start: Path, known: set[Path]) -> set[Path]:
    """Return those of the known documents to which links lead, from one to the next."""
    found, waiting = {start}, [start]
    while waiting:
        for target in linked(waiting.pop()) & known - found:
            found.add(target)
            waiting.append(target)
    return found


def test_every_page_is_reachable_from_the_map() -> None:
    pages = {path.resolve() for path in DOCUMENTS}
    missing = pages - reachable(MAP.resolve(), pages)
    assert sorted(map(str, missing)) == [], "link it from docs/README.md, under the kind of reader it is for"


def test_every_page_of_docs_has_a_place_on_the_map_itself() -> None:
    """Those in a folder are reached by the folder's own first page."""
    pages = {path.resolve() for path in MAP.parent.glob("*.md")} - {MAP.resolve()}
    folders = {path.resolve() for path in MAP.parent.glob("*/README.md")}
    assert sorted(map(str, (pages | folders) - linked(MAP))) == [], "link it from docs/README.md"


def test_a_page_that_nothing_leads_to_is_noticed(tmp_path: Path) -> None:
    first, second, lost = (tmp_path / f"{name}.md" for name in ("first", "second", "lost"))
    first.write_text("[on](second.md#there)\n```\n[not a link](lost.md)\n```\n")
    second.write_text("[back](first.md) [outside](https://example.org/lost.md)\n")
    lost.write_text("[home](first.md)\n")
    assert reachable(first, {first, second, lost}) == {first, second}


def test_the_first_page_leads_to_the_map_or_to_what_is_on_it() -> None:
    pages = {path.resolve() for path in DOCUMENTS}
    assert reachable((ROOT / "README.md").resolve(), pages) >= {MAP.resolve(), GLOSSARY.resolve()}


def test_every_example_is_on_the_list_of_examples() -> None:
    files = {path.resolve() for ending in ("py", "toml", "ipynb") for path in EXAMPLES.glob(f"**/*.{ending}")}
    assert sorted(map(str, files - linked(EXAMPLES / "README.md"))) == []


def words() -> list[tuple[str, str]]:
    """Return each word of the glossary with the cell that says where it is explained."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in GLOSSARY.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| word ")
    ]
    assert {len(row) for row in rows} == {4}
    return [(word, row[3]) for row in rows for word in row[0].split(" · ")]


def test_no_word_is_explained_twice() -> None:
    names = [word for word, _ in words()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("word", "cell"), words(), ids=lambda value: value.partition("]")[0].strip("["))
def test_a_word_leads_to_where_it_is_used(word: str, cell: str) -> None:
    (link,) = LINK.findall(cell)
    text = (GLOSSARY.parent / link.partition("#")[0]).read_text(encoding="utf-8")
    said = " ".join(text.split()).replace("_", " ").lower()
    form = re.sub("y$", "(y|ies)", re.escape(word.lower()))
    assert re.search(rf"\b{form}", said), f"{link} does not speak of {word}"


def test_the_words_that_everything_is_said_with_are_there() -> None:
    """The vocabulary of all code, messages and documents."""
    there = {word for word, _ in words()}
    assert there >= {
        *("event", "filter", "subscription", "advertisement", "matches", "covers", "overlaps", "merge"),
        *("message", "broker", "router", "link", "routing table", "entry", "strategy", "output"),
        *("arrival", "settle", "tree", "group", "plan", "epoch", "interest", "document", "durable"),
        *("confirmed", "sample", "window", "coordinator", "fact", "digest", "reduction", "stage"),
    }
