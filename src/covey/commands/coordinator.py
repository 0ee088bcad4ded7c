"""`covey coordinator`: look at a network, plan it on Spark, and install what pays off; again and again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from covey.commands.options import Conf, DriverMemory, Master
from covey.commands.pages import Authority, Token

if TYPE_CHECKING:
    from covey.coordinator.rounds import Round


def coordinator(
    urls: Annotated[
        list[str],
        typer.Argument(metavar="URL...", help="The admin pages of all brokers.", show_default=False),
    ],
    data_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Where samples, plans and what it knows are kept.", show_default=False
        ),
    ],
    master: Master = None,
    driver_memory: DriverMemory = None,
    conf: Conf = None,
    every: Annotated[float, typer.Option(help="Seconds between the beginnings of two rounds.")] = 300.0,
    window: Annotated[int, typer.Option(help="Seconds of traffic that are planned for.")] = 3600,
    slide: Annotated[int, typer.Option(help="Seconds by which windows slide.")] = 300,
    lateness: Annotated[int, typer.Option(help="Seconds that samples may be late (the watermark).")] = 60,
    threshold: Annotated[
        float, typer.Option(help="The share of links crossed that a plan must save to be installed.")
    ] = 0.05,
    tolerance: Annotated[
        float, typer.Option(help="How much dearer than before a plan may be before it is taken back.")
    ] = 0.02,
    least_events: Annotated[
        int, typer.Option(help="Sampled events in the window, below which nothing is planned.")
    ] = 500,
    probation_events: Annotated[
        int, typer.Option(help="Events after an installation, from which on it is judged.")
    ] = 1_000,
    method: Annotated[str, typer.Option(help="How to group, as for `covey plan`.")] = "best",
    seed: Annotated[int, typer.Option(min=0)] = 1,
    rounds: Annotated[
        int | None, typer.Option(help="End after so many rounds.", min=1, show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Plan and tell, and never install.")] = False,
    token: Token = "",
    authority: Authority = "",
    json: Annotated[bool, typer.Option("--json", help="A line of JSON for each round.")] = False,
) -> None:
    """Let a network plan itself: follow its samples on Spark, plan, install what saves enough, and watch it.

    Brokers need `sample`, `data_dir` and admin pages with a token. What it measures after an installation is compared
    with what was predicted; a plan that makes things worse is taken back. Started again on the same directory, it goes
    on where it was. Ends with Ctrl-C, or after --rounds.
    """
    # Loaded here: it brings the compiler, Arrow and Spark.
    from covey.advisor.rounds import rounds_page
    from covey.coordinator.coordinator import Coordinator
    from covey.coordinator.rounds import read_rounds
    from covey.coordinator.settings import Settings
    from covey.pipeline.configuration import parse_conf
    from covey.pipeline.jobs import Progress
    from covey.pipeline.stream import Windows

    settings = Settings(
        urls=tuple(urls),
        data_dir=data_dir,
        token=token,
        authority=authority,
        master=master,
        driver_memory=driver_memory,
        conf=parse_conf(conf or ()),
        windows=Windows(window, slide, lateness),
        every_s=every,
        threshold=threshold,
        tolerance=tolerance,
        least_events=least_events,
        probation_events=probation_events,
        method=method,
        seed=seed,
        dry_run=dry_run,
    )

    def on_progress(step: Progress) -> None:
        if step.seconds is None and sys.stderr.isatty():
            print(f"plan: {step.number} of {step.count}, {step.stage}", file=sys.stderr, flush=True)

    failed = [False]

    def on_round(done: Round) -> None:
        failed[0] = done.action == "failed"
        (data_dir / "report.html").write_text(rounds_page(read_rounds(data_dir)), encoding="utf-8")
        if json:
            import msgspec

            typer.echo(msgspec.json.encode(vars(done)).decode())
        else:
            typer.echo(done.line())

    with Coordinator(settings, on_progress) as running:
        running.run(on_round, rounds=rounds)
    if failed[0]:
        raise typer.Exit(1)
