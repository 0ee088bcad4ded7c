"""The notebooks among the examples: what Jupyter asks of them, and the one that needs no Spark, run."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import pytest
from tests import notebooks

from covey.routing import strategy as strategies

ALL = sorted(notebooks.EXAMPLES.glob("*.ipynb"))


@pytest.mark.parametrize("notebook", ALL, ids=[path.name for path in ALL])
def test_jupyter_reads_it(notebook: Path) -> None:
    """The parts that nbformat 4.5 asks for, each of the right kind."""
    found = json.loads(notebook.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert found["metadata"]["kernelspec"]["name"] == "python3"
    names = [cell["id"] for cell in found["cells"]]
    assert len(set(names)) == len(names)
    for cell in found["cells"]:
        code = {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | code
        assert all(isinstance(line, str) for line in cell["source"])
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        assert cell.get("outputs", []) == []


def test_a_strategy_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    try:
        space = notebooks.run(notebooks.EXAMPLES / "own_strategy.ipynb")
    finally:
        plt.close("all")
        strategies._REGISTERED.pop("patient", None)
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == [
        "covering [1, 1, 0] 2 delivered",
        "patient [3, 3, 0] 2 delivered",
        "no promise broken",
    ]
    assert space["failed"] == []
    page = (tmp_path / "strategies.html").read_text(encoding="utf-8")
    assert "patient" in page
    results, value = space["results"], space["comparison"].value
    for workload in ("quote intervals", "burst"):
        (entries, messages), (mine, fewer) = (
            (value(results, workload, strategy, key) for key in ("entries", "control_messages"))
            for strategy in ("covering", "patient")
        )
        assert mine >= entries  # it withdraws less
        assert fewer <= messages
        assert f"{workload:16} patient   {mine:6,.0f} entries {fewer:6,.0f} messages" in printed
