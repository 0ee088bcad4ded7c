"""`covey trial`: run random small networks and check every promise; the same seed is the same run."""

from __future__ import annotations

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
    ],
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
    transcript: Annotated[bool, typer.Option("--transcript", help="Print every message.")] = False,
    json: Json = False,
) -> None:
    """Check a strategy on random networks: deliveries, tables, nothing lost in churn, nothing left at the end.

    There is a run for each of --count seeds, from --seed on. Exit code 1 if a promise is broken; then the command that
    repeats just that run is printed.
    """
    require("broker", "covey trial")
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
            for number in range(seed, seed + count):
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
                    "runs": count,
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
