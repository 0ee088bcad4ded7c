"""docs/reliability.md lists the scenarios of faults, the targets of fuzzing and the known bugs that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.fuzz.targets import TARGETS
from tests.simulation.mutants import MOST, MUTANTS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
SCENARIOS = ("test_faults.py", "test_durable_disk.py")


def scenarios() -> list[str]:
    """Return a row for each scenario: what the test says of itself, and its name."""
    found = []
    for name in SCENARIOS:
        tree = ast.parse((ROOT / "tests" / "e2e" / name).read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                said = ast.get_docstring(node)
                assert said is not None, f"{node.name} does not say what it does"
                found.append(f"| {said.splitlines()[0]} | `{name.removesuffix('.py')}::{node.name}` |")
    return found


def test_scenarios() -> None:
    table = TEXT.partition("| scenario | test |")[2].partition("\n\n")[0].strip().splitlines()[1:]
    assert table == scenarios(), "\n".join(scenarios())
    assert len(table) >= 12


def test_targets() -> None:
    table = TEXT.partition("## Fuzzing")[2]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == set(TARGETS)


def test_known_bugs() -> None:
    table = (
        TEXT.partition("| mutant | what it was | seeds | finding |")[2]
        .partition("\n\n")[0]
        .strip()
        .splitlines()[1:]
    )
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table]
    assert [(name, was) for name, was, _, _ in rows] == [
        (f"`{one.name}`", one.was) for one in MUTANTS.values()
    ]
    for name, _, seeds, finding in rows:
        assert 1 <= int(seeds.replace(",", "")) <= MOST, f"{name} needs {seeds} seeds"
        assert finding, f"{name} is found"
