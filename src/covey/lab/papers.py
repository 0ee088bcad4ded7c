"""The papers of the lab, and what stands beside them. Each is loaded when it is asked for.

A paper whose package is not there is not listed. What stands beside the papers is asked for by its own key, and is
none of `all`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from covey.errors import ConfigError
from covey.lab.experiment import Experiment
from covey.lab.figure import Figure, Paper

# Paper -> the module that has it as PAPER.
MODULES: dict[str, str] = {
    "R": "covey.lab.paper_r.paper",
    "C": "covey.lab.paper_c.paper",
    "X": "covey.lab.paper_x.paper",
    "W": "covey.lab.paper_w.paper",
    "M": "covey.lab.paper_m.paper",
}

BESIDE: dict[str, str] = {"S": "covey.lab.comparison"}
LIVE = "covey.lab.live"


def everything() -> list[Paper]:
    """Return all papers that are there, and what stands beside them."""
    return [_load(module) for module in {**MODULES, **BESIDE}.values() if _is_there(module)]


def papers() -> list[Paper]:
    """Return all papers that are there."""
    return [_load(module) for module in MODULES.values() if _is_there(module)]


def chosen(key: str) -> list[Paper]:
    """Return the paper with this key, which alone is loaded, or all papers for `all`; ConfigError if there is none."""
    there = {letter: module for letter, module in {**MODULES, **BESIDE}.items() if _is_there(module)}
    wanted = [
        module
        for letter, module in there.items()
        if key.lower() == letter.lower() or (key.lower() == "all" and letter in MODULES)
    ]
    if not wanted:
        names = ", ".join([*there, "all"])
        raise ConfigError(f"there is no paper {key!r:.40} in the lab (hint: {names})")
    return [_load(module) for module in wanted]


def on_brokers(key: str) -> list[Paper]:
    """Return what of a paper runs on real brokers, or of all papers; ConfigError if nothing does."""
    there: dict[str, Paper] = import_module(LIVE).LIVE
    wanted = [paper for letter, paper in there.items() if key.lower() in (letter.lower(), "all")]
    if not wanted:
        names = ", ".join([*there, "all"])
        raise ConfigError(f"no paper {key!r:.40} runs on brokers (hint: {names})")
    return wanted


def _load(module: str) -> Paper:
    paper: Paper = import_module(module).PAPER
    return paper


def figures_of(paper: Paper, number: str | None) -> list[Figure]:
    """Return the paper's figures, or those with a number: 7 is all of 7a to 7f, too. Empty if there are none."""
    if number is None:
        return list(paper.figures)
    name = _bare(number)
    exact = [figure for figure in paper.figures if _bare(figure.number) == name]
    return exact or [
        figure
        for figure in paper.figures
        if name.isdigit() and _bare(figure.number).rstrip("abcdefghijklmnopqrstuvwxyz") == name
    ]


def experiment_named(name: str) -> Experiment:
    """Return the experiment of any paper with this name; ConfigError, with the names there are, if there is none."""
    letter = name.partition("-")[0].upper()
    there = chosen(letter) if letter in MODULES or letter in BESIDE else everything()
    for experiment in (one for paper in there for one in paper.experiments):
        if experiment.name == name:
            return experiment
    names = ", ".join(experiment.name for paper in there for experiment in paper.experiments)
    raise ConfigError(f"there is no experiment {name!r:.40} in the lab (hint: {names})")


def experiments_of(paper: Paper, names: Sequence[str]) -> list[Experiment]:
    """Return the paper's experiments with these names, in the paper's order, each once."""
    known = {experiment.name for experiment in paper.experiments}
    assert known.issuperset(names), f"{paper.key} has no experiment {sorted(set(names) - known)}"
    return [experiment for experiment in paper.experiments if experiment.name in names]


def _bare(number: str) -> str:
    """Return a figure's number in one spelling: 6(a), Figure 6a and fig. 6A are the same."""
    name = "".join(letter for letter in number.lower() if letter.isalnum())
    return name.removeprefix("figure").removeprefix("fig")


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
