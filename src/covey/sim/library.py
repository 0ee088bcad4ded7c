"""Where scenarios come from: those of Covey by name, anyone's by the path of a file; and changes for one run.

A change is text as people type it: `workload.subscriptions=10000`. It is made to the tables before they are read, so
that every mistake in it is found like one in the file. The value is TOML, or a plain text where it is no TOML value.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from covey.errors import ConfigError
from covey.routing.strategy import registered
from covey.sim.scenario import DEFAULT_STRATEGY, MAX_BYTES, Scenario, parse_toml, read_scenario
from covey.sim.section import hint, shown

SUFFIX = ".toml"


@dataclass(frozen=True)
class Changes:
    """What one run does otherwise than its scenario says; None changes nothing."""

    strategy: str | None = None
    advertisements: bool | None = None
    seed: int | None = None
    settings: Sequence[str] = ()  # such as "workload.subscriptions=10000"

    def with_strategy(self, strategy: str) -> Changes:
        """Return the same changes with this strategy."""
        return replace(self, strategy=strategy)


def scenario_names() -> list[str]:
    """Return the names of Covey's own scenarios."""
    files = resources.files("covey.sim").joinpath("scenarios").iterdir()
    return sorted(file.name.removesuffix(SUFFIX) for file in files if file.name.endswith(SUFFIX))


def load(scenario: str, changes: Changes | None = None) -> Scenario:
    """Return a scenario by its name or the path of its file, changed."""
    name, text, base = _find(scenario)
    tables = parse_toml(text, name)
    _change(tables, changes or Changes())
    return read_scenario(tables, name, base)


def _find(scenario: str) -> tuple[str, str, Path]:
    """Return a scenario's name for errors and results, its text, and its directory."""
    if scenario in scenario_names():
        file = resources.files("covey.sim").joinpath("scenarios", scenario + SUFFIX)
        return scenario, file.read_text(encoding="utf-8"), Path()
    path = Path(scenario)
    if not scenario.endswith(SUFFIX) and "/" not in scenario and not _exists(path):
        known = scenario_names()
        raise ConfigError(
            f"there is no scenario {shown(scenario)}{hint(scenario, known)}; there are {', '.join(known)}, "
            f"or give the path of a {SUFFIX} file"
        )
    return scenario, _read(path), path.parent


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot read {shown(str(path))}: {reason}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: a scenario has at most {MAX_BYTES:,} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: this is not UTF-8 text: byte {error.start + 1} is wrong") from None


# -- changes -------------------------------------------------------------------------------------------------


def _change(tables: dict[str, Any], changes: Changes) -> None:
    if changes.seed is not None:
        tables["seed"] = changes.seed
    if changes.strategy is not None:
        _change_strategy(tables, changes.strategy)
    if changes.advertisements is not None:
        _set(tables, "strategy.advertisements", changes.advertisements)
    for setting in changes.settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            raise ConfigError(
                f"--set {shown(setting)}: expected a key, = and a value, like workload.events=100"
            )
        _set(tables, path.strip(), _value(text.strip()))


def _change_strategy(tables: dict[str, Any], strategy: str) -> None:
    """Let every broker use the strategy; options stay only if they are for the same one."""
    name = registered(strategy).name
    table = tables.get("strategy")
    before = table.get("name", DEFAULT_STRATEGY) if isinstance(table, dict) else DEFAULT_STRATEGY
    _set(tables, "strategy.name", name)
    table = tables["strategy"]
    table.pop("brokers", None)
    if not isinstance(before, str) or registered(before).name != name:
        table.pop("options", None)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _set(tables: dict[str, Any], path: str, value: Any) -> None:
    """Set a value by its dotted path; a number is the place in a list, from 1."""
    *way, last = path.split(".")
    here: Any = tables
    for key in way:
        here = here.setdefault(key, {}) if isinstance(here, dict) else _element(here, key, path)
    if isinstance(here, dict):
        here[last] = value
    else:
        _element(here, last, path)
        here[int(last) - 1] = value


def _element(here: Any, key: str, path: str) -> Any:
    if not isinstance(here, list) or not key.isdecimal() or len(key) > 9 or not 1 <= int(key) <= len(here):
        raise ConfigError(f"--set {shown(path)}: there is no {shown(key)} to set")
    return here[int(key) - 1]
