"""`covey trial`: run random small networks, or whole brokers, and check every promise; a seed is a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from covey.commands.options import ADVERTISEMENTS, Count, Json, Seed, complete_strategy
from covey.commands.output import print_json, progress
from covey.errors import ConfigError
from covey.extras import require


def trial(
    strategy: Annotated[
        str,
        typer.Argument(
            metavar="STRATEGY", help="A strategy's name, or `all`.", autocompletion=complete_strategy
        ),
    ] = "",
    brokers: Annotated[
        bool,
        typer.Option(
            "--brokers",
            help="Try whole brokers, with simulated disks, clocks, links and clients, under faults of all kinds.",
        ),
    ] = False,
    seed: Seed = 0,
    count: Count = 1,
    topology: Annotated[
        str,
        typer.Option("--topology", metavar="NAME", help="line, star, tree, graph, or `any`: each in turn."),
    ] = "any",
    advertisements: Annotated[bool, ADVERTISEMENTS] = True,
    faults: Annotated[
        bool, typer.Option("--faults", help="Let links and brokers fail and come back.")
    ] = False,
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink", help="With --brokers, print the smallest script that still breaks a promise."
        ),
    ] = False,
    script: Annotated[
        Path | None,
        typer.Option(
            "--script",
            metavar="FILE",
            help="With --brokers, run the script in this file, as --shrink prints it.",
        ),
    ] = None,
    transcript: Annotated[bool, typer.Option("--transcript", help="Print every message.")] = False,
    json: Json = False,
) -> None:
    """Check a strategy on random networks: deliveries, tables, nothing lost in churn, nothing left at the end.

    There is a run for each of --count seeds, from --seed on. Exit code 1 if a promise is broken; then the command that
    repeats just that run is printed. With --brokers no strategy is named: each seed draws a network of whole brokers,
    what clients do, and what fails.
    """
    require("broker", "covey trial")
    if brokers:
        if strategy or topology != "any" or faults or not advertisements:
            raise ConfigError(
                "with --brokers, each seed draws strategy, topology, advertisements and faults itself"
            )
        from covey.commands.broker_trials import Wish, try_brokers

        try_brokers(range(seed, seed + count), script, Wish(shrink, transcript, json))
    if shrink or script is not None:
        raise ConfigError("--shrink and --script are for trials of whole brokers, with --brokers")
    if not strategy:
        raise ConfigError("name a strategy, or all; or try whole brokers with --brokers")
    _try_strategies(strategy, range(seed, seed + count), topology, advertisements, faults, transcript, json)


def _try_strategies(
    strategy: str,
    seeds: range,
    topology: str,
    advertisements: bool,
    faults: bool,
    transcript: bool,
    json: bool,
) -> None:
    # Loaded here: it brings the compiler, which takes half a second.
    from covey.routing.strategy import names, registered
    from covey.sim.trial import TOPOLOGIES, Trial, applies

    wanted = names() if strategy == "all" else [registered(strategy).name]
    if topology not in (*TOPOLOGIES, "any"):
        raise ConfigError(
            f"there is no topology {topology!r:.40} for trials (hint: {', '.join(TOPOLOGIES)} or any)"
        )
    rows: list[dict[str, object]] = []
    failed = False
    with progress("trial") as show:
        for name in wanted:
            overlays = [kind for kind in TOPOLOGIES if applies(name, kind) and topology in (kind, "any")]
            if not overlays:
                raise ConfigError(f"the strategy {name} needs an overlay without cycles, so not a {topology}")
            broken = published = delivered = 0
            for number in seeds:
                outcome = Trial(name, advertisements, overlays[number % len(overlays)], number, faults).run()
                show(f"{name}, seed {number}")
                published += outcome.published
                delivered += outcome.delivered
                if transcript:
                    typer.echo("\n".join(outcome.transcript))
                if outcome.findings:
                    broken += 1
                    failed = True
                    typer.echo(f"{outcome.findings[0]}\n  repeat it: {outcome.trial.command}", err=True)
            rows.append(
                {
                    "strategy": name,
                    "runs": len(seeds),
                    "broken": broken,
                    "published": published,
                    "delivered": delivered,
                }
            )
    if json:
        print_json(rows)
    else:
        for row in rows:
            typer.echo(
                "{strategy}: {runs} runs, {broken} broken, {published} events, {delivered} deliveries".format(
                    **row
                )
            )
    raise typer.Exit(1 if failed else 0)
