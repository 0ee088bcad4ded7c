"""The document: what the repository keeps of a run, complete, with pictures beside it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.toy_paper import PAPER, SQUARES

from covey.errors import ConfigError
from covey.lab.document import write_document
from covey.lab.papers import papers
from covey.lab.runner import HERE, run, tasks
from covey.lab.store import Store

DOCUMENT = Path(__file__).parents[2] / "docs" / "papers.md"


def test_it_has_all_claims_and_figures_with_their_commands(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    run(store, tasks(store, PAPER.experiments, "paper"), HERE)
    assert write_document([PAPER], store, tmp_path / "toy.md") == []
    text = (tmp_path / "toy.md").read_text()
    assert "| as printed | 1 | T1 |" in text
    assert "| contradicted | 1 | T2 |" in text
    assert "**T2** (page 1): contradicted. Criterion: exactly." in text
    assert "Proof that it cannot hold: 1/3 < 1/2." in text
    assert "![Squares & more](toy/t-figure-1.svg)" in text
    assert "    covey lab run T --figure 1 --scale paper" in text
    assert "    covey lab run T --figure 'Table I' --scale paper" in text
    assert "| third | 0.3333 |" in text
    drawn = ElementTree.parse(tmp_path / "toy" / "t-figure-1.svg").getroot()
    assert "squares for $5 & <more>" in "".join(drawn.itertext())


def test_a_figure_without_results_is_said(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    run(store, tasks(store, [SQUARES], "small"), HERE)
    (problem,) = write_document([PAPER], store, tmp_path / "toy.md")
    assert problem.startswith("T Table I: ")
    assert "of its cells are missing" in problem
    assert "Not drawn: T Table I" in (tmp_path / "toy.md").read_text()


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write"):
        write_document([], Store(tmp_path / "results"), tmp_path)


def test_the_one_kept_is_complete_and_small() -> None:
    text = DOCUMENT.read_text()
    pictures = set(re.findall(r"\]\((papers/[^)]+)\)", text))
    assert pictures == {f"papers/{path.name}" for path in DOCUMENT.with_suffix("").iterdir()}
    assert max(path.stat().st_size for path in DOCUMENT.with_suffix("").iterdir()) < 100_000
    for paper in papers():
        for claim in paper.claims:
            assert f"| {claim.id} | {claim.says.replace('|', chr(92) + '|')} |" in text
        for figure in paper.figures:
            assert f": {figure.title}\n" in text
