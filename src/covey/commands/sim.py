"""`covey sim`: run a scenario in the simulator, or the same one under several strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from covey.commands.options import ADVERTISEMENTS, SEED, STRATEGY, Json, List, Plot, Settings
from covey.commands.output import number_text, print_json, print_lists, print_pairs, progress, wide_console
from covey.errors import ConfigError
from covey.extras import require

# What belongs to the simulator is loaded by the functions that use it: it brings the compiler.
if TYPE_CHECKING:
    from covey.sim.library import Changes
    from covey.sim.result import Result

MAX_COMPARED = 12


def sim(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO", help="A scenario's name (see --list), or the path of a .toml file."
        ),
    ] = None,
    strategy: Annotated[str | None, STRATEGY] = None,
    advertisements: Annotated[bool | None, ADVERTISEMENTS] = None,
    seed: Annotated[int | None, SEED] = None,
    settings: Settings = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="NAME,…",
            help="Run the scenario under each of these strategies, side by side.",
        ),
    ] = None,
    plot: Plot = None,
    json: Json = False,
    list_: List = False,
) -> None:
    """Run a scenario in the simulator and say what was measured. The same seed gives the same run.

    Options change the scenario for this run: a strategy for all brokers, or any key, as in --set workload.events=100.
    The picture shows what was measured over time; JSON has all samples.
    """
    require("broker", "covey sim")
    if list_:
        print_list(json)
        return
    if scenario is None:
        raise ConfigError("which scenario? (try: covey sim tour, or covey sim --list)")
    if compare is not None and strategy is not None:
        raise ConfigError("--strategy and --compare exclude each other")
    from covey.sim.library import Changes

    changes = Changes(strategy, advertisements, seed, tuple(settings or ()))
    results = run_all(scenario, changes, None if compare is None else compared(compare), plot)
    if json:
        print_json([result.as_dict() for result in results] if compare is not None else results[0].as_dict())
    elif compare is not None:
        print_comparison(results)
    else:
        print_result(results[0])


def compared(text: str) -> list[str]:
    """Return the strategies of a list with commas, each once; ConfigError for one that there is not."""
    import covey.strategies  # noqa: F401 (registers them)
    from covey.routing.strategy import registered

    names = list(dict.fromkeys(registered(name.strip()).name for name in text.split(",") if name.strip()))
    if not 1 <= len(names) <= MAX_COMPARED:
        raise ConfigError(f"--compare takes 1 to {MAX_COMPARED} strategies with commas between them")
    return names


def run_all(
    scenario: str, changes: Changes, strategies: Sequence[str] | None, plot: Path | None
) -> list[Result]:
    """Run the scenario under each strategy, or as it is; every mistake that can be found before is found before."""
    from covey.sim.library import load
    from covey.sim.plot import check_plot_file, draw
    from covey.sim.preparation import prepare
    from covey.sim.runner import run

    picture = None if plot is None else check_plot_file(str(plot))
    variants = [changes] if strategies is None else [changes.with_strategy(name) for name in strategies]
    loaded = [load(scenario, variant) for variant in variants]
    for one in loaded:
        prepare(one).network()
    results = []
    with progress(scenario) as report:
        for one in loaded:

            def tell(share: float, now_s: float, name: str = one.strategy.name) -> None:
                report(f"{name}, {share:.0%}, {now_s:,.1f} s")

            results.append(run(one, tell))
    if picture is not None:
        draw(results, picture)
    return results


# -- for people ----------------------------------------------------------------------------------------------


def print_result(result: Result) -> None:
    """Print one result: the figures, the core brokers and the phases, if there are any."""
    typer.echo(result.title)
    typer.echo(heading(result))
    typer.echo("")
    print_pairs({name: number_text(value) for name, value in result.summary() if value is not None})
    print_table("Core brokers", result.core_rows())
    print_table("Phases, what was counted in each", result.phases())
    typer.echo("")
    typer.echo(cost(result))


def heading(result: Result) -> str:
    """Return in one line what ran."""
    unsettled = "" if result.settled else ", ended while messages were under way"
    faults = f", {result.faults} faults" if result.faults else ""
    return (
        f"{result.strategy}, {result.brokers} brokers, {result.links} links, {result.actions:,} actions{faults}, "
        f"seed {result.seed}, service times {result.parameters['service']['kind']}{unsettled}"
    )


def cost(result: Result) -> str:
    """Return in one line what the run cost this machine."""
    machine = result.machine
    return (
        f"ran {machine.wall_s:,.1f} s ({machine.cpu_s:,.1f} s of processor time), {machine.arrivals:,} arrivals, "
        f"peak memory {machine.peak_memory_mb:,.0f} MB"
    )


def print_comparison(results: Sequence[Result]) -> None:
    """Print several results of one scenario, a column each."""
    first = results[0]
    columns = [dict(result.summary()) for result in results]
    names = list(dict.fromkeys(name for column in columns for name in column))
    table = Table(title=escape(first.title), title_justify="left", title_style="bold", header_style="bold")
    table.add_column(f"seed {first.seed}", no_wrap=True)
    for result in results:
        table.add_column(result.strategy, justify="right")
    for name in names:
        if any(column.get(name) is not None for column in columns):
            table.add_row(name, *(number_text(column.get(name)) for column in columns))
    table.add_section()
    table.add_row("ran s", *(number_text(result.machine.wall_s) for result in results))
    wide_console().print(table)


def print_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows under their names, if there are any."""
    if not rows:
        return
    table = Table(title=f"\n{title}", title_justify="left", title_style="bold", header_style="bold")
    for name, value in rows[0].items():
        table.add_column(name.replace("_", " "), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(escape(number_text(value)) for value in row.values()))
    wide_console().print(table)


def print_list(json: bool) -> None:
    """Print all scenarios, strategies, topologies and workloads with what each is."""
    lists = what_there_is()
    if json:
        print_json(lists)
    else:
        print_lists(lists)


def what_there_is() -> dict[str, dict[str, str]]:
    """Return names and descriptions of scenarios, strategies, topologies and workloads."""
    import covey.strategies  # noqa: F401 (registers them)
    from covey.routing.strategy import names, registered
    from covey.sim.library import load, scenario_names
    from covey.sim.topology import TOPOLOGIES
    from covey.sim.workload import WORKLOADS

    def first_line(builder: object) -> str:
        return (builder.__doc__ or "").strip().partition("\n")[0].removeprefix("Return ")

    return {
        "scenarios": {name: load(name).title for name in scenario_names()},
        "strategies": {name: registered(name).description for name in names()},
        "topologies": {name: first_line(builder) for name, builder in TOPOLOGIES.items()},
        "workloads": {name: first_line(builder) for name, builder in WORKLOADS.items()},
    }
