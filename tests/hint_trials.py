"""Ways to try a hint of a message: provoke it, and do what it says. `tests/unit/test_hints.py` tries all of them."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from covey.errors import CoveyError
from tests.command_lines import option_names, parses, problems

ROOT = Path(__file__).parents[1]
HINT = re.compile(r"\((?:hint|try): (.*)\)", re.DOTALL)
Try = Callable[[], object]


def module(name: str) -> Any:
    return import_module(f"covey.{name}")


def hint_of(call: Callable[[], object]) -> str:
    """Return the hint that a call fails with."""
    with pytest.raises(CoveyError) as caught:
        call()
    found = HINT.search(str(caught.value))
    assert found, f"no hint: {caught.value}"
    return found[1]


def names(call: Callable[[str], object], wrong: str = "no-such-name") -> Try:
    """Try a hint that lists names: a wrong name is answered with them, and each of them is taken.

    Where work would follow that is no matter here, the call is given None to work with, and fails by that.
    """

    def attempt() -> None:
        listed = re.split(r", | or ", hint_of(lambda: call(wrong)).removeprefix("one of "))
        assert all(listed)
        for name in listed:
            try:
                call(name)
            except (AttributeError, TypeError):
                continue

    return attempt


def lines(*lines: str) -> Try:
    """Try command lines that a hint gives in full."""

    def attempt() -> None:
        for line in lines:
            assert problems(line) == []
            parses(line)

    return attempt


def options(command: str, *wanted: str) -> Try:
    """Try a hint that names options, on the commands (with | between them) that can print it."""

    def attempt() -> None:
        for one in command.split("|"):
            assert set(wanted) <= option_names(tuple(one.split())), one

    return attempt


def both(*tries: Try) -> Try:
    def attempt() -> None:
        for one in tries:
            one()

    return attempt


def follow(wrong: Callable[[], object], right: Callable[[], object]) -> Try:
    """Try a hint by provoking it, and doing what it says."""

    def attempt() -> None:
        hint_of(wrong)
        right()

    return attempt


def plain() -> None:
    """Nothing to try: the hint names no command, option, setting, file or name of the program."""


def extra(*wanted: str) -> Try:
    """Try a hint that names extras of the package."""

    def attempt() -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert set(wanted) <= set(project["optional-dependencies"])

    return attempt


def parameter(function: Callable[[], Callable[..., object]], name: str) -> Try:
    """Try a hint that names a parameter of a function."""

    def attempt() -> None:
        assert name in inspect.signature(function()).parameters

    return attempt
