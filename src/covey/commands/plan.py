"""`covey plan`: from a network's own tables to a plan, with what it saves, a recommendation and a report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from covey.commands.options import (
    ADVERTISEMENTS,
    OUT_DIR,
    STRATEGY,
    Conf,
    DriverMemory,
    Json,
    Master,
    Method,
    Prices,
    Seed,
)
from covey.commands.output import print_json
from covey.commands.plan_printing import Say, as_dict, print_outcome, step_line, told
from covey.errors import ConfigError
from covey.extras import require

# What plans and replays is loaded by the functions that use it: it brings the compiler, Arrow and Spark.
if TYPE_CHECKING:
    from covey.advisor.advice import Advice
    from covey.advisor.forecast import Comparison
    from covey.advisor.summary import Summary
    from covey.pipeline.jobs import Outcome, Request
    from covey.planning.objective import Objective
    from covey.planning.plan import Plan


InputDir = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="Has the tables topology, subscriptions, events; may have advertisements, deliveries.",
    ),
]
OutDir = Annotated[Path, OUT_DIR]
Sample = Annotated[float, typer.Option("--sample", metavar="SHARE", help="The share of events to look at.")]
HeldOut = Annotated[
    float,
    typer.Option(
        "--held-out",
        metavar="SHARE",
        help="The share of these that nothing is fitted to.",
        show_default="1/3",
    ),
]
Strategy = Annotated[str, STRATEGY]
Advertisements = Annotated[bool, ADVERTISEMENTS]
Replay = Annotated[
    bool,
    typer.Option(
        "--replay/--no-replay", help="Replay a sample under every strategy and plan, and recommend one."
    ),
]
Aggregate = Annotated[
    bool | None,
    typer.Option(
        "--aggregate/--no-aggregate",
        help="Plan too which filters are merged where; by default for up to 20,000 of them on 256 trees.",
    ),
]
Aggregation = Annotated[
    str | None,
    typer.Option(
        metavar="METHOD",
        help="Let brokers merge filters where this says: mefa, mefa+, dpa, spa, aa, best, quick or improved.",
        show_default=False,
    ),
]
MaxExcess = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="The share of sampled events that a merger of --aggregation may let in for nobody; 0: exact.",
    ),
]
MaxEntries = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="The most entries that all routing tables together may have.",
        show_default=False,
    ),
]
MinSaving = Annotated[
    float,
    typer.Option(metavar="SHARE", help="The share of one tree's price that a plan must save to be chosen."),
]
Budget = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="How long each method may compute, by counted work: the plan does not depend on the machine's speed.",
    ),
]
Backups = Annotated[
    bool,
    typer.Option("--backups", help="Add trees so that some tree is left whichever link or broker fails."),
]
Epochs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=UNIT",
        help="A column of times has numbers, of s, ms or us since 1970: events.at=ms. May be repeated.",
        show_default=False,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=NAME",
        help="A column has another name, or is a field of a struct: events.at=meta.time. May be repeated.",
        show_default=False,
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TABLE=NAME",
        help="A table is in a catalog of Spark and not in DIR: events=catalog.db.events. May be repeated.",
        show_default=False,
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Say what was decided and why, and what each stage took.")
]


def plan(
    input_dir: InputDir,
    out: OutDir,
    master: Master = None,
    driver_memory: DriverMemory = None,
    conf: Conf = None,
    method: Method = "best",
    sample: Sample = 1.0,
    held_out: HeldOut = 1 / 3,
    seed: Seed = 1,
    strategy: Strategy = "covering",
    advertisements: Advertisements = True,
    replay: Replay = True,
    aggregate: Aggregate = None,
    aggregation: Aggregation = None,
    max_excess: MaxExcess = 0.0,
    price: Prices = None,
    max_entries: MaxEntries = None,
    min_saving: MinSaving = 0.0,
    budget: Budget = 20.0,
    backups: Backups = False,
    epochs: Epochs = None,
    columns: Columns = None,
    table: Tables = None,
    explain: Explain = False,
    json: Json = False,
) -> None:
    """Plan which subscriptions share a tree, and what the trees are, from tables of a network's own traffic.

    Writes plan.json, report.html, the rows that could not be used (quarantine) and the tables of all stages. The same
    input and seed give the same plan, byte for byte. --strategy and --advertisements say how the network works now.
    """
    require("spark", "covey plan")
    now = strategy_named(strategy)
    check_directories(input_dir, out)
    from covey.pipeline.configuration import parse_conf
    from covey.pipeline.jobs import Request

    request = Request(
        input_dir,
        out,
        master,
        method,
        sample,
        held_out,
        seed,
        aggregate,
        driver_memory=driver_memory,
        conf=parse_conf(conf or ()),
        epochs=epochs_given(epochs or []),
        columns=pairs_given("--columns", "events.at=meta.time", columns or []),
        tables=pairs_given("--table", "events=catalog.db.events", table or []),
        objective=objective_given(price or [], max_entries, min_saving),
        budget_s=budget,
        backups=backups,
        aggregation=aggregation,
        max_excess=max_excess,
    )
    carry_out(request, now, advertisements, replay, explain, json)


def strategy_named(name: str) -> str:
    """Return the name by which a strategy is registered; ConfigError if there is none."""
    import covey.strategies  # noqa: F401 (registers them)
    from covey.routing.strategy import registered

    return registered(name).name


def carry_out(
    request: Request, now: str, advertisements: bool, replay: bool, explain: bool, json: bool
) -> None:
    """Plan, replay if that is wanted, write the report, and print what was found."""
    from covey.pipeline.jobs import plan as compute

    with told() as say:
        outcome = compute(request, lambda step: say(*step_line(step)))
        advice, merged = advised(outcome, request, now, advertisements, say) if replay else (None, None)
        say("report", True)
        file, summary = written(outcome, advice, merged, request, now)
    if json:
        print_json(as_dict(outcome, summary, advice, file))
    else:
        print_outcome(outcome, summary, advice, file, explain)


def pairs_given(option: str, example: str, words: Sequence[str]) -> dict[str, str]:
    """Return what is given as name=value, also several with commas; ConfigError for another form, or a name twice."""
    found: dict[str, str] = {}
    for word in (one.strip() for given in words for one in given.split(",")):
        name, equals, value = word.partition("=")
        if not (name and equals and value) or name in found:
            raise ConfigError(
                f"{option} {word!r:.80} is not one name and what it stands for (hint: {example})"
            )
        found[name] = value
    return found


def epochs_given(words: Sequence[str]) -> dict[str, str]:
    """Return the units that are given as events.at=ms, by column; ConfigError if a word is not of this form."""
    found: dict[str, str] = {}
    for word in words:
        column, equals, unit = word.partition("=")
        if not equals or found.get(column, unit) != unit:
            raise ConfigError(f"--epochs {word!r:.80} is not one column and its unit (hint: events.at=ms)")
        found[column] = unit
    return found


def objective_given(words: Sequence[str], max_entries: int | None, min_saving: float) -> Objective:
    """Return the objective with prices that are given as entry=2; ConfigError if a word is not of this form."""
    from covey.planning.objective import Objective

    found: dict[str, float] = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            found[name] = float(text)
        except ValueError:
            raise ConfigError(f"--price {word!r:.80} is not a name and a number (hint: entry=2)") from None
    return Objective(max_entries=max_entries, min_saving=min_saving).with_prices(found)


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


def advised(
    outcome: Outcome, request: Request, now: str, advertisements: bool, say: Say
) -> tuple[Advice, Comparison | None]:
    """Replay a sample of the traffic under every strategy and plan; return also what merging comes to, if planned."""
    from covey.advisor.advice import advise
    from covey.advisor.forecast import compared
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
    advice = advise(
        traffic,
        plans,
        now=now,
        advertisements=advertisements,
        on_candidate=on_candidate,
        entries=sized(outcome, request, plans, say),
    )
    if outcome.plan.merging is None:
        return advice, None
    say("replay: merging, forecast and measured", True)
    return advice, compared(outcome.plan, traffic)


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


def written(
    outcome: Outcome, advice: Advice | None, merged: Comparison | None, request: Request, now: str
) -> tuple[Path, Summary]:
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
        merged=merged,
        parameters={
            "input": request.input_dir,
            "method": request.method,
            "sample": request.sample,
            "held out": f"{request.held_out:.4g}",
            "seed": request.seed,
            "runs now": now,
            **{f"{column} counts": unit for column, unit in request.epochs.items()},
            "Spark master": outcome.master,
        },
    )
    file = request.out_dir / "report.html"
    try:
        file.write_text(report(contents), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {str(file)!r:.200}: {error.strerror or error}") from None
    return file, summary
