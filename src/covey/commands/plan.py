"""`covey plan`: from a network's own tables to a plan, with what it saves, a recommendation and a report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from covey.commands.output import number_text, print_json
from covey.errors import ConfigError

# What plans and replays is loaded by the functions that use it: it brings the compiler, Arrow and Spark.
if TYPE_CHECKING:
    from covey.advisor.advice import Advice
    from covey.advisor.summary import Summary
    from covey.pipeline.jobs import Outcome, Progress, Request
    from covey.planning.plan import Plan

MOST_REASONS = 5  # of each table, on the screen; the report has more
Say = Callable[[str, bool], None]  # a line, and whether it will be replaced by the next one


def plan(
    input_dir: Annotated[
        Path,
        typer.Argument(
            help="Has the tables topology, subscriptions, events; may have advertisements, deliveries.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the plan and the report go.", show_default=False)
    ],
    master: Annotated[
        str, typer.Option(help="Where Spark runs: local, local[2], spark://host:7077, sc://host:15002.")
    ] = "local",
    method: Annotated[
        str, typer.Option(help="How to group: best, or single, held-out, regions, regions-cheapest, mult …")
    ] = "best",
    sample: Annotated[float, typer.Option(help="The share of events to look at.")] = 1.0,
    held_out: Annotated[float, typer.Option(help="The share of these that nothing is fitted to.")] = 1 / 3,
    seed: Annotated[int, typer.Option(help="Another sample.", min=0)] = 1,
    strategy: Annotated[
        str, typer.Option("--strategy", "-s", help="The strategy that runs now.")
    ] = "covering",
    advertisements: Annotated[
        bool, typer.Option(help="Whether subscriptions follow advertisements now.")
    ] = True,
    replay: Annotated[
        bool, typer.Option(help="Replay a sample under every strategy and plan, and recommend one.")
    ] = True,
    aggregate: Annotated[
        bool | None,
        typer.Option(
            help="Plan too which filters are merged where; by default for up to 20,000 of them on 256 trees.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what was decided and why, and what each stage took.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Plan which subscriptions share a tree, and what the trees are, from tables of a network's own traffic.

    Writes plan.json, report.html, the rows that could not be used (quarantine) and the tables of all stages. The same
    input and seed give the same plan, byte for byte.
    """
    import covey.strategies  # noqa: F401 (registers them)
    from covey.routing.strategy import registered

    now = registered(strategy).name
    check_directories(input_dir, out)
    from covey.pipeline.jobs import Request
    from covey.pipeline.jobs import plan as compute

    request = Request(input_dir, out, master, method, sample, held_out, seed, aggregate)
    with told() as say:
        outcome = compute(request, lambda step: say(*step_line(step)))
        advice = advised(outcome, request, now, advertisements, say) if replay else None
        say("report", True)
        file, summary = written(outcome, advice, request, now)
    if json:
        print_json(as_dict(outcome, summary, advice, file))
    else:
        print_outcome(outcome, summary, advice, file, explain)


def check_directories(input_dir: Path, out: Path) -> None:
    """Raise ConfigError, before Spark starts, if there is nothing to read or nowhere to write."""
    if not input_dir.is_dir():
        raise ConfigError(
            f"there is no directory {str(input_dir)!r:.200} (hint: covey data generate makes one)"
        )
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {str(out)!r:.200} is a file and not a directory")
    if out.resolve() == input_dir.resolve():
        raise ConfigError("--out is the input directory: choose another one")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write into {str(out)!r:.200}: {error.strerror or error}") from None


# -- the work ------------------------------------------------------------------------------------------------


def advised(outcome: Outcome, request: Request, now: str, advertisements: bool, say: Say) -> Advice:
    """Replay a sample of the traffic under every strategy and plan."""
    from covey.advisor.advice import advise
    from covey.advisor.reading import read_plans, read_traffic
    from covey.advisor.replay import Candidate

    stages = request.out_dir / "stages"
    say("replay: reading a sample", True)
    traffic = read_traffic(stages, request.seed)
    size = f"{len(traffic.subscriptions):,} subscriptions, {len(traffic.events):,} events"

    def on_candidate(candidate: Candidate, number: int, count: int) -> None:
        say(f"replay: {number} of {count}, {candidate.label} ({size})", number not in (1, count))

    replayed = {(one.broker, one.filter.encode()) for one in traffic.subscriptions}
    plans = read_plans(stages, outcome.plan, replayed)
    return advise(
        traffic,
        plans,
        now=now,
        advertisements=advertisements,
        on_candidate=on_candidate,
        entries=sized(outcome, request, plans, say),
    )


def sized(
    outcome: Outcome, request: Request, plans: Mapping[str, Plan], say: Say
) -> dict[tuple[str, bool], int]:
    """Return how many entries tables of all subscriptions would have on the single tree, by strategy."""
    if "single" not in plans:
        return {}
    from covey.pipeline.sizing import table_sizes

    started_s = time.monotonic()
    found = table_sizes(
        request.out_dir / "stages",
        plans["single"].trees[0].links,
        master=request.master,
        log=request.log or request.out_dir / "spark.log",
        interests=int(outcome.plan.basis.get("interests", 0)),
        on_reduction=lambda strategy: say(f"tables of all subscriptions: {strategy}", True),
    )
    say(f"tables of all subscriptions, {time.monotonic() - started_s:.1f} s", False)
    return {key: size.entries for key, size in found.items()}


def written(outcome: Outcome, advice: Advice | None, request: Request, now: str) -> tuple[Path, Summary]:
    """Write the report; return its file, and the summary that is in it."""
    from covey.advisor.reading import hosted
    from covey.advisor.report import Contents, report
    from covey.advisor.summary import summarise

    summary = summarise(outcome.plan, now)
    contents = Contents(
        plan=outcome.plan,
        summary=summary,
        hosted=hosted(request.out_dir / "stages", outcome.plan),
        quarantined=outcome.quarantined,
        stages=outcome.stages,
        explain=outcome.explain,
        advice=advice,
        parameters={
            "input": request.input_dir,
            "method": request.method,
            "sample": request.sample,
            "held out": f"{request.held_out:.4g}",
            "seed": request.seed,
            "runs now": now,
        },
    )
    file = request.out_dir / "report.html"
    try:
        file.write_text(report(contents), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {str(file)!r:.200}: {error.strerror or error}") from None
    return file, summary


# -- what is said --------------------------------------------------------------------------------------------


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
    console = Console()
    wide = console if console.is_terminal else Console(width=160)
    wide.print(alternatives_table(outcome, summary))
    if advice is not None:
        wide.print(advice_table(advice))
        typer.echo(advice.sentence)
        for note in advice.notes:
            typer.echo(f"  {note}")
    for name, reasons in outcome.quarantined.items():
        typer.echo(f"set aside: {sum(reasons.values()):,} rows of {name}")
        for reason, rows in list(reasons.items())[:MOST_REASONS]:
            typer.echo(f"  {rows:,}  {' '.join(reason.split())}")
    if explain:
        print_explanation(outcome, summary)
    typer.echo(f"plan    {outcome.plan_file}")
    typer.echo(f"report  {report}")


def alternatives_table(outcome: Outcome, summary: Summary) -> Table:
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
    for title in ("saving", "trees", "table entries", "false positives", "copies"):
        table.add_column(title, justify="right")
    for row in summary.rows:
        texts = [
            f"{escape(row.name)}{' (chosen)' if row.chosen else ''}",
            *(number_text(row.costs.get(key)) for key, _ in summary.parts),
            saving_text(row.saving),
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
        "method": outcome.plan.method,
        "trees": len(outcome.plan.trees),
        "basis": dict(outcome.plan.basis),
        **summary.as_dict(),
        "quarantined": {table: dict(reasons) for table, reasons in outcome.quarantined.items()},
        "advice": None if advice is None else advice.as_dict(),
        "explain": outcome.explain.splitlines(),
        "stages_s": dict(outcome.stages),
    }
