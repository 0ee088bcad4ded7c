"""What `covey plan` says: how far it is, and what came of it, as tables and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from covey.commands.output import number_text, wide_console

# What plans and replays is loaded by the functions that use it: it brings the compiler, Arrow and Spark.
if TYPE_CHECKING:
    from covey.advisor.advice import Advice
    from covey.advisor.summary import Summary
    from covey.pipeline.jobs import Outcome, Progress

MOST_REASONS = 5  # of each table, on the screen; the report has more
Say = Callable[[str, bool], None]  # a line, and whether it will be replaced by the next one


@contextmanager
def told() -> Iterator[Say]:
    """Show on standard error what is going on: lines, and on a terminal also what is only for the moment."""
    console = Console(stderr=True)
    with console.status("plan") as status:

        def say(line: str, passing: bool) -> None:
            if passing:
                status.update(escape(line))
            elif console.is_terminal:
                console.print(escape(line), highlight=False)
            else:
                print(line, file=sys.stderr, flush=True)

        yield say


def step_line(step: Progress) -> tuple[str, bool]:
    """Return a line of progress, and whether it is only for the moment: a stage that has begun."""
    if step.note:
        return f"plan: {step.note}", False
    place = f"plan: {step.number} of {step.count}, {step.stage}"
    if step.seconds is None:
        return place, True
    kept = ", kept from before" if step.kept else ""
    detail = f": {step.detail}" if step.detail else ""
    return f"{place}, {step.seconds:.1f} s{kept}{detail}", False


def print_outcome(
    outcome: Outcome, summary: Summary, advice: Advice | None, report: Path, explain: bool
) -> None:
    """Print the alternatives, the recommendation, what was set aside, and where the files are."""
    wide = wide_console()
    wide.print(alternatives_table(summary))
    if advice is not None:
        wide.print(advice_table(advice))
        typer.echo(advice.headline)
        typer.echo(advice.figures)
        for note in advice.notes:
            typer.echo(f"  {note}")
    for name, reasons in outcome.quarantined.items():
        typer.echo(f"set aside: {sum(reasons.values()):,} rows of {name}")
        for reason, rows in list(reasons.items())[:MOST_REASONS]:
            typer.echo(f"  {rows:,}  {' '.join(reason.split())}")
        if len(reasons) > MOST_REASONS:
            typer.echo(f"  {sum(list(reasons.values())[MOST_REASONS:]):,}  for other reasons")
    if outcome.quarantined:
        typer.echo(f"aside   {outcome.quarantine}")
    if explain:
        print_explanation(outcome, summary)
    if outcome.reused:
        typer.echo(outcome.reused)
    typer.echo(f"master  {outcome.master}")
    typer.echo(f"plan    {outcome.plan_file}")
    typer.echo(f"report  {report}")


def alternatives_table(summary: Summary) -> Table:
    """Return the alternatives, cheapest first, with what each saves against what runs now."""
    from covey.advisor.summary import saving_text

    judged = dict(summary.parts)[summary.judged]
    table = Table(
        title=f"Cost of an event, by alternative; saving against {escape(summary.now)}, on {judged}",
        title_justify="left",
        title_style="bold",
        header_style="bold",
    )
    table.add_column("alternative")
    for _, title in summary.parts:
        table.add_column(title, justify="right")
    for title in ("saving", "price", "trees", "table entries", "false positives", "copies"):
        table.add_column(title, justify="right")
    for row in summary.rows:
        texts = [
            f"{escape(row.name)}{' (chosen)' if row.chosen else ''}",
            *(number_text(row.costs.get(key)) for key, _ in summary.parts),
            saving_text(row.saving),
            number_text(row.numbers.get("price")),
            *(
                count_text(row.numbers.get(key))
                for key in ("trees", "table_entries", "false_positives", "copies")
            ),
        ]
        table.add_row(*texts, style="bold" if row.chosen else "dim" if row.floor else "")
    return table


def count_text(value: float | None) -> str:
    """Return a count as it stands in a table."""
    return "" if value is None else f"{value:,.0f}"


def advice_table(advice: Advice) -> Table:
    """Return what was replayed, cheapest first."""
    table = Table(
        title=f"Replayed: {advice.subscriptions:,} subscriptions, {advice.events:,} events",
        title_justify="left",
        title_style="bold",
        header_style="bold",
    )
    table.add_column("way of routing")
    for title in (
        "cost of an event",
        "false positives",
        "table entries",
        "control messages",
        "entries of all",
    ):
        table.add_column(title, justify="right")
    able = [(one, one.measured) for one in advice.tried if one.measured is not None]
    for one, measured in sorted(able, key=lambda pair: (pair[1].cost, pair[1].entries, pair[1].control)):
        mark = " (recommended)" if one is advice.best else " (now)" if one is advice.now else ""
        table.add_row(
            escape(one.candidate.label + mark),
            number_text(measured.cost / max(1, advice.events)),
            count_text(measured.false_positives),
            count_text(measured.entries),
            count_text(measured.control),
            count_text(one.entries),
            style="bold" if mark else "",
        )
    return table


def print_explanation(outcome: Outcome, summary: Summary) -> None:
    """Print what was decided and why, what came next, and how long each stage took."""
    from covey.advisor.summary import runner_up

    typer.echo(typer.style("Why", bold=True))
    for line in [*outcome.explain.splitlines(), runner_up(summary)]:
        typer.echo(f"  {line}")
    typer.echo(typer.style("Stages", bold=True))
    for stage, seconds in outcome.stages.items():
        typer.echo(f"  {stage.ljust(12)} {seconds:8.2f} s")


def as_dict(outcome: Outcome, summary: Summary, advice: Advice | None, report: Path) -> Mapping[str, Any]:
    """Return all of it for JSON."""
    return {
        "plan": str(outcome.plan_file),
        "report": str(report),
        "master": outcome.master,
        "method": outcome.plan.method,
        "trees": len(outcome.plan.trees),
        "basis": dict(outcome.plan.basis),
        **summary.as_dict(),
        "quarantined": {table: dict(reasons) for table, reasons in outcome.quarantined.items()},
        "quarantine": str(outcome.quarantine),
        "damaged": list(outcome.damaged),
        "advice": None if advice is None else advice.as_dict(),
        "explain": outcome.explain.splitlines(),
        "stages_s": dict(outcome.stages),
    }
