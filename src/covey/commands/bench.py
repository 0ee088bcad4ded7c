"""`covey bench`: every part of the system beside another way to do the same, measured in one run.

`match`, `cover`, `xpath`, `network` and `storms` have commands of their own with all their figures; `all`, `routing`,
`planning`, `keywords` and `pipeline` print comparisons (`covey.bench.comparison`), which can be saved, drawn and put
into a page.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from covey.commands.help import Application
from covey.commands.options import OUT_FILE, Json, OutFile, Plot, Quick, beginning
from covey.commands.output import print_json, print_rows, print_table, progress
from covey.errors import ConfigError, CoveyError
from covey.extras import require

app = Application("Measure indexes and brokers on this machine, beside others.")

DEFAULT_SIZES = {
    "match": (10_000, 100_000, 1_000_000),
    "cover": (10_000, 80_000),
    "xpath": (10_000, 50_000),
}
MAX_SIZE = 10_000_000

Sizes = Annotated[list[int] | None, typer.Option("--size", metavar="N", help="How many filters; repeatable.")]
Out = Annotated[Path | None, OUT_FILE]
Saved = Annotated[Path, typer.Argument(metavar="ROWS", help="What `covey bench all --out ROWS` saved.")]


def complete_part(incomplete: str) -> list[str]:
    """Return the parts whose names begin so."""
    from covey.bench.parts import PARTS

    return beginning(tuple(PARTS), incomplete)


def complete_case(incomplete: str) -> list[str]:
    """Return the cases of the network whose names begin so."""
    from covey.bench.network import CASES

    return beginning(tuple(one.name for one in CASES), incomplete)


@app.command()
def match(size: Sizes = None, json: Json = False) -> None:
    """Measure matching events against many attribute filters."""
    _bench("match", "Matching", size, json)


@app.command()
def cover(size: Sizes = None, json: Json = False) -> None:
    """Measure finding what covers a new filter and what it covers."""
    _bench("cover", "Covering", size, json)


@app.command()
def xpath(size: Sizes = None, json: Json = False) -> None:
    """Measure matching XML documents against many tree patterns."""
    _bench("xpath", "XPath", size, json)


@app.command()
def network(
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case", metavar="NAME", help="Only this case; repeatable.", autocompletion=complete_case
        ),
    ] = None,
    hops: Annotated[
        list[int] | None, typer.Option("--hops", metavar="N", help="How many brokers in a row; repeatable.")
    ] = None,
    subscribers: Annotated[
        list[int] | None,
        typer.Option("--subscribers", metavar="N", help="How many clients get every event; repeatable."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            metavar="SECONDS",
            help="How long each case is measured, by default 2, with --quick 0.2.",
        ),
    ] = None,
    filters: Annotated[
        int, typer.Option("--filters", metavar="N", help="How many filters of others, which match nothing.")
    ] = 10_000,
    peers: Annotated[
        bool, typer.Option("--peers/--no-peers", help="Measure other servers too that are installed.")
    ] = True,
    quick: Quick = False,
    json: Json = False,
) -> None:
    """Measure events through brokers on this machine, beside other servers: CPU time, rates and latencies.

    With each figure stands what the machine did meanwhile: steal, and how long processes waited for a CPU.
    """
    require("broker", "covey bench network")
    for name, values, most in (("hops", hops, 16), ("subscribers", subscribers, 1_000)):
        for value in values or ():
            if not 1 <= value <= most:
                raise ConfigError(f"--{name} {value} is not between 1 and {most:,}")
    if seconds is not None and not 0.05 <= seconds <= 120:
        raise ConfigError(f"--seconds {seconds:g} is not between 0.05 and 120")
    if not 0 <= filters <= 100_000:
        raise ConfigError(f"--filters {filters} is not between 0 and 100,000")
    # Loaded here, as above.
    from covey.bench import network

    named = {one.name: one for one in network.CASES}
    for name in case or ():
        if name not in named:
            raise ConfigError(f"--case {name!r:.40} is not one of {', '.join(map(repr, named))}")
    chosen = [named[name] for name in case or ()]
    chosen += [network.by_hops(number) for number in hops or ()]
    chosen += [network.by_subscribers(number) for number in subscribers or ()]
    with progress("Network") as report:
        rows = network.run(
            report,
            cases=list(dict.fromkeys(chosen)) or network.CASES,
            peers=network.NAMES if peers else (),
            seconds=seconds or (network.QUICK_SECONDS if quick else network.SECONDS),
            filters=filters,
        )
    if json:
        print_json(rows)
    else:
        print_rows("Network", rows)
    if any(row.get("lost") for row in rows):
        raise CoveyError("some events did not arrive; the figures mean nothing")


def complete_storm(incomplete: str) -> list[str]:
    """Return the storms whose names begin so."""
    from covey.bench.storms import NAMES

    return beginning(NAMES, incomplete)


@app.command()
def storms(
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case", metavar="NAME", help="Only this case; repeatable.", autocompletion=complete_storm
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", metavar="SECONDS", help="How long each storm lasts, by default 8, with --quick 0.4."
        ),
    ] = None,
    quick: Quick = False,
    json: Json = False,
) -> None:
    """Measure how long a calm client's events take while another client does its worst, beside a calm broker.

    The aim is a p99 of at most twice the calm one and 5 ms, no link lost, and memory within what is documented.
    """
    require("broker", "covey bench storms")
    if seconds is not None and not 0.05 <= seconds <= 120:
        raise ConfigError(f"--seconds {seconds:g} is not between 0.05 and 120")
    # Loaded here, as above.
    from covey.bench import storms

    for name in case or ():
        if name not in storms.NAMES:
            raise ConfigError(f"--case {name!r:.40} is not one of {', '.join(map(repr, storms.NAMES))}")
    with progress("Storms") as report:
        rows = storms.run(
            report,
            cases=case or storms.NAMES,
            calm_s=storms.QUICK_S if quick else storms.CALM_S,
            storm_s=seconds or (storms.QUICK_S if quick else storms.STORM_S),
            size=0.02 if quick else 1.0,
        )
    if json:
        print_json(rows)
    else:
        print_rows("Storms", rows)
        typer.echo(storms.said(rows))


@app.command()
def keywords(quick: Quick = False, json: Json = False, out: Out = None, plot: Plot = None) -> None:
    """Measure matching and covering of keyword filters beside a scan."""
    _compare(["keywords"], quick, json, out, plot)


@app.command()
def routing(quick: Quick = False, json: Json = False, out: Out = None, plot: Plot = None) -> None:
    """Measure subscriptions at a broker and in networks, beside scans and the simplest strategies."""
    _compare(["routing"], quick, json, out, plot)


@app.command()
def planning(quick: Quick = False, json: Json = False, out: Out = None, plot: Plot = None) -> None:
    """Measure the graph work of planning beside plain Python, and plans beside one tree."""
    require("spark", "covey bench planning")
    _compare(["planning"], quick, json, out, plot)


@app.command()
def pipeline(quick: Quick = False, json: Json = False, out: Out = None, plot: Plot = None) -> None:
    """Measure matching and routing tables on Spark beside a join and plain Python."""
    require("spark", "covey bench pipeline")
    _compare(["pipeline"], quick, json, out, plot)


@app.command("all")
def everything(
    quick: Quick = False,
    json: Json = False,
    out: Out = None,
    plot: Plot = None,
    part: Annotated[
        list[str] | None,
        typer.Option(
            "--part", metavar="NAME", help="Only this part; repeatable.", autocompletion=complete_part
        ),
    ] = None,
) -> None:
    """Measure the whole system: every part beside another way, and how costs grow with size.

    Takes about ten minutes on two free cores, one or two with --quick. A part that cannot run here says so, and the
    others go on. Fails if answers differ. --out saves all figures as JSON, --plot draws how costs grow, as SVG or PNG.
    """
    require("spark", "covey bench all")
    from covey.bench.parts import PARTS

    for name in part or ():
        if name not in PARTS:
            raise ConfigError(f"--part {name!r:.40} is not one of {', '.join(PARTS)}")
    _compare([name for name in PARTS if not part or name in part], quick, json, out, plot)


@app.command("plot")
def draw(
    rows: Saved,
    out: OutFile = Path("growth.svg"),
) -> None:
    """Draw how costs grow, from figures that were saved by `--out`, as SVG or PNG."""
    require("lab", "covey bench plot")
    from covey.bench.comparison import load
    from covey.bench.picture import check_picture, write_picture

    check_picture(out)
    write_picture(load(rows).comparisons, out)
    typer.echo(str(out))


@app.command()
def document(
    rows: Saved,
    out: OutFile = Path("docs/performance.md"),
) -> None:
    """Put saved figures into a page, between its markers, and the picture into `images` beside it."""
    require("lab", "covey bench document")
    from covey.bench.comparison import load
    from covey.bench.document import PICTURE, write_block
    from covey.bench.picture import write_picture

    run = load(rows)
    write_block(run, out, PICTURE)
    write_picture(run.comparisons, out.parent / PICTURE)
    typer.echo(str(out))


def _compare(names: list[str], quick: bool, json: bool, out: Path | None, plot: Path | None) -> None:
    # Loaded here: a benchmark brings the compiler and every index, which no other command needs.
    require("broker", "covey bench")
    from covey.bench import parts
    from covey.bench.comparison import save
    from covey.bench.picture import check_picture, write_picture
    from covey.bench.tables import GROWTH, RATIOS, growth_lines, live_table, ratio_lines

    if plot is not None:
        check_picture(plot)
    with progress("Measuring") as report:
        run = parts.run(names, report, quick=quick)
    if out is not None:
        save(run, out)
    if plot is not None:
        write_picture(run.comparisons, plot)
    if json:
        print_json(run)
    else:
        print_table("Beside others, at the largest size", RATIOS, ratio_lines(run.comparisons))
        print_table("Growth: the exponent of the size", GROWTH, growth_lines(run.comparisons))
        print_table("Live servers, and what the machine did", *live_table(run.comparisons))
    if run.differing:
        raise CoveyError("answers differ; the figures mean nothing")


def _bench(name: str, title: str, sizes: list[int] | None, json: bool) -> None:
    require("broker", "covey bench")
    chosen = tuple(sizes or DEFAULT_SIZES[name])
    for size in chosen:
        if not 1 <= size <= MAX_SIZE:
            raise ConfigError(f"--size {size} is not between 1 and {MAX_SIZE:,}")
    # Loaded here: a benchmark brings the compiler and every index, which no other command needs.
    run: Any = import_module(f"covey.bench.{name}").run
    with progress(title) as report:
        rows: list[dict[str, Any]] = run(sizes=chosen, progress=report)
    if json:
        print_json(rows)
    else:
        print_rows(title, rows)
    if not all(row["equal"] for row in rows):
        raise CoveyError("the indexes gave different answers; the figures mean nothing")
