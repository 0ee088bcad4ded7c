"""`covey coordinator`: look at a network, plan it on Spark, and install what pays off; again and again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from covey.commands.options import (
    AdminToken,
    Conf,
    DriverMemory,
    Every,
    JsonLines,
    Master,
    Method,
    Seed,
    TlsCa,
)
from covey.extras import require

if TYPE_CHECKING:
    from covey.coordinator.rounds import Round
    from covey.coordinator.settings import Settings
    from covey.pipeline.jobs import Progress


Urls = Annotated[
    list[str],
    typer.Argument(metavar="URL", help="The admin pages of all brokers."),
]
DataDir = Annotated[
    Path,
    typer.Option("--data-dir", metavar="DIR", help="Where samples, plans and what it knows are kept."),
]
Window = Annotated[
    int, typer.Option("--window", metavar="SECONDS", help="Seconds of traffic that are planned for.")
]
Slide = Annotated[int, typer.Option("--slide", metavar="SECONDS", help="Seconds by which windows slide.")]
Lateness = Annotated[
    int | None,
    typer.Option(
        "--lateness",
        metavar="SECONDS",
        help="Seconds that samples may be late (the watermark); by default two rounds and a minute.",
    ),
]
MaxSkew = Annotated[
    float,
    typer.Option(
        "--max-skew",
        metavar="SECONDS",
        help="Seconds that a broker's clock may be off before its times are corrected.",
    ),
]
Threshold = Annotated[
    float,
    typer.Option(
        "--threshold",
        metavar="SHARE",
        help="The share of links crossed that a plan must save to be installed.",
    ),
]
Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        metavar="SHARE",
        help="How much dearer than before a plan may be before it is taken back.",
    ),
]
LeastEvents = Annotated[
    int,
    typer.Option(
        "--least-events",
        metavar="N",
        help="Sampled events in the window, below which nothing is planned.",
    ),
]
ProbationEvents = Annotated[
    int,
    typer.Option(
        "--probation-events",
        metavar="N",
        help="Events after an installation, from which on it is judged.",
    ),
]
Rounds = Annotated[int | None, typer.Option("--rounds", metavar="N", min=1, help="End after so many rounds.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Plan and tell, and never install.")]


def coordinator(
    urls: Urls,
    data_dir: DataDir,
    master: Master = None,
    driver_memory: DriverMemory = None,
    conf: Conf = None,
    every: Every = 300.0,
    window: Window = 3600,
    slide: Slide = 300,
    lateness: Lateness = None,
    max_skew: MaxSkew = 30.0,
    threshold: Threshold = 0.05,
    tolerance: Tolerance = 0.02,
    least_events: LeastEvents = 500,
    probation_events: ProbationEvents = 1_000,
    method: Method = "best",
    seed: Seed = 1,
    rounds: Rounds = None,
    dry_run: DryRun = False,
    token: AdminToken = "",
    tls_ca: TlsCa = "",
    json: JsonLines = False,
) -> None:
    """Let a network plan itself: follow its samples on Spark, plan, install what saves enough, and watch it.

    Brokers need `sample`, `data_dir` and admin pages with a token. What it measures after an installation is compared
    with what was predicted; a plan that makes things worse is taken back. Started again on the same directory, it goes
    on where it was. Ends with Ctrl-C, or after --rounds.
    """
    require("spark", "covey coordinator")
    # Loaded here: it brings the compiler, Arrow and Spark.
    from covey.coordinator.settings import Settings, lateness_for
    from covey.pipeline.configuration import parse_conf
    from covey.pipeline.stream import Windows

    settings = Settings(
        urls=tuple(urls),
        data_dir=data_dir,
        token=token,
        authority=tls_ca,
        master=master,
        driver_memory=driver_memory,
        conf=parse_conf(conf or ()),
        windows=Windows(window, slide, lateness_for(every) if lateness is None else lateness),
        every_s=every,
        max_skew_s=max_skew,
        threshold=threshold,
        tolerance=tolerance,
        least_events=least_events,
        probation_events=probation_events,
        method=method,
        seed=seed,
        dry_run=dry_run,
    )

    run(settings, rounds, json)


def run(settings: Settings, rounds: int | None, json: bool) -> None:
    """Carry out rounds, each with a line and the report; exit code 1 if the last one failed."""
    from covey.advisor.rounds import rounds_page
    from covey.coordinator.coordinator import Coordinator
    from covey.coordinator.rounds import read_rounds

    failed = False

    def on_round(done: Round) -> None:
        nonlocal failed
        failed = done.action == "failed"
        page = rounds_page(read_rounds(settings.data_dir))
        (settings.data_dir / "report.html").write_text(page, encoding="utf-8")
        if json:
            import msgspec

            typer.echo(msgspec.json.encode(vars(done)).decode())
        else:
            typer.echo(done.line())

    with Coordinator(settings, on_progress) as running:
        running.run(on_round, rounds=rounds)
    if failed:
        raise typer.Exit(1)


def on_progress(step: Progress) -> None:
    """Print what planning does: notes always, stages to a terminal."""
    if step.note:
        print(f"plan: {step.note}", file=sys.stderr, flush=True)
    elif step.seconds is None and sys.stderr.isatty():
        print(f"plan: {step.number} of {step.count}, {step.stage}", file=sys.stderr, flush=True)
