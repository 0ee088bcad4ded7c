"""Notebooks as tests run them: their cells in order, in one namespace, without a kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"


def cells(notebook: Path, kind: str) -> list[str]:
    """Return the texts of all cells of a kind."""
    found = json.loads(notebook.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == kind]


def run(notebook: Path) -> dict[str, Any]:
    """Run all code from top to bottom; return the names it has made."""
    space: dict[str, Any] = {"__name__": "notebook"}
    for number, source in enumerate(cells(notebook, "code")):
        exec(compile(source, f"{notebook.name} cell {number}", "exec"), space)
    return space
