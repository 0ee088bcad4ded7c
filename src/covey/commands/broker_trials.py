"""`covey trial --brokers`: whole brokers under faults, from seeds or a script; what is broken is shown, and shrunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from covey.commands.output import print_json, print_pairs, progress
from covey.errors import ConfigError

if TYPE_CHECKING:
    from covey.sim.broker_trial import BrokerTrial, Outcome

MAX_SCRIPT_BYTES = 1 << 20
LONGEST_LINE = 160  # of a transcript


@dataclass(frozen=True)
class Wish:
    """What is to be shown of trials, beside what they find."""

    shrink: bool = False
    transcript: bool = False
    json: bool = False


@dataclass
class _Total:
    """What trials were, added up."""

    trials: int = 0
    published: int = 0
    confirmed: int = 0
    delivered: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    broken: list[dict[str, object]] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.trials += 1
        self.published += outcome.published
        self.confirmed += outcome.confirmed
        self.delivered += outcome.delivered
        self.faults.update(outcome.faults)

    def rows(self) -> dict[str, Any]:
        return {
            "trials": self.trials,
            "events": self.published,
            "confirmed": self.confirmed,
            "deliveries": self.delivered,
            "faults": self.faults.total(),
            "faults_by_kind": dict(sorted(self.faults.items())),
            "broken": self.broken,
        }


def try_brokers(seeds: range, script: Path | None, wish: Wish) -> None:
    """Run the trials of seeds, or that of a script; print what was found, and end with exit code 1 if anything was."""
    total = _Total()
    with progress("trial") as show:
        for trial, title in _trials(seeds, script):
            show(f"{title}, {len(total.broken)} broken so far")
            outcome = trial.run(_write if wish.transcript else None)
            total.add(outcome)
            if outcome.findings:
                total.broken.append(_broken(outcome, wish, script))
    if wish.json:
        print_json(total.rows())
    else:
        rows = total.rows()
        del rows["faults_by_kind"]
        print_pairs({**rows, "broken": len(total.broken)})
    raise typer.Exit(1 if total.broken else 0)


def _trials(seeds: range, script: Path | None) -> Iterable[tuple[BrokerTrial, str]]:
    # Loaded here: it brings the compiler, which takes half a second.
    from covey.sim.broker_script import Script
    from covey.sim.broker_trial import BrokerTrial

    if script is not None:
        yield BrokerTrial(Script.parse(_text(script))), script.name
        return
    for seed in seeds:
        yield BrokerTrial.of_seed(seed), f"seed {seed}"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
        if len(data) > MAX_SCRIPT_BYTES:
            raise ConfigError(f"--script {path.name!r:.200}: it has more than {MAX_SCRIPT_BYTES:,} bytes")
        return data.decode()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(f"--script {str(path)!r:.200}: {reason}") from None


def _broken(outcome: Outcome, wish: Wish, script: Path | None) -> dict[str, object]:
    """Say on standard error what was found and how it is repeated; return the same for JSON."""
    from covey.sim.broker_trial import shrink

    command = outcome.trial.command if script is None else f"covey trial --brokers --script {script}"
    found: dict[str, object] = {
        "seed": outcome.trial.script.seed,
        "findings": list(outcome.findings),
        "command": command,
    }
    typer.echo("\n".join([*outcome.findings[:5], f"  repeat it: {command}"]), err=True)
    if wish.shrink:
        found["script"] = str(shrink(outcome.trial).script)
        if not wish.json:
            typer.echo(f"{found['script']}\n")
    return found


def _write(broker: str, what: object) -> None:
    """Print what goes into a broker or comes out of it."""
    line = f"{broker:<4} {what!r}"
    typer.echo(line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…")
