"""`covey whatif`: what would happen to a network's traffic if brokers, links, clients or rates changed.

With --overlay the changes are the command's own: which links to build and which to drop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from covey.commands.options import OUT_FILE, Json, Language, Prices, Seed
from covey.commands.output import print_json, wide_console
from covey.commands.plan import objective_given
from covey.errors import ConfigError
from covey.extras import require

# What plans is loaded by the functions that use it: it brings the compiler and Arrow.
if TYPE_CHECKING:
    from covey.advisor.overlay import Bounds
    from covey.advisor.whatif import Changes, Comparison
    from covey.planning.objective import Objective

DEFAULT_COST = 1.0


def whatif(
    input_dir: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Has the tables topology, subscriptions, events as Parquet; or is what `covey plan` has written.",
        ),
    ],
    remove_broker: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A broker goes away, with its clients.")
    ] = None,
    remove_link: Annotated[list[str] | None, typer.Option(metavar="A,B", help="A link goes away.")] = None,
    add_link: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B[,COST]", help="A link is built; with a new name, a broker too."),
    ] = None,
    move_clients: Annotated[
        list[str] | None, typer.Option(metavar="FROM,TO", help="All clients of a broker move to another one.")
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option(metavar="FACTOR:FILTER", help="Events that match are so many times as frequent."),
    ] = None,
    rate_x2: Annotated[
        list[str] | None,
        typer.Option("--rate-x2", metavar="FILTER", help="Events that match are twice as frequent."),
    ] = None,
    overlay: Annotated[
        int | None,
        typer.Option(metavar="N", help="Propose changes: at most N links to build, and links to drop."),
    ] = None,
    link_cost: Annotated[
        float | None,
        typer.Option(metavar="COST", help="What a proposed link costs; else the middle of those there are."),
    ] = None,
    link_upkeep: Annotated[
        float, typer.Option(metavar="PRICE", help="What a proposed link must save of an event's price.")
    ] = 0.0,
    max_delay: Annotated[
        float | None,
        typer.Option(metavar="COST", help="The longest delay at p99 with proposed links, if not today's."),
    ] = None,
    language: Language = "attributes",
    price: Prices = None,
    out: Annotated[Path | None, OUT_FILE] = None,
    seed: Seed = 1,
    json: Json = False,
) -> None:
    """Plan a network's traffic before and after a change, and say what differs; or propose links to build and drop.

    The file that --out names is a page with tables and a picture. Options may be repeated, and all changes happen
    together. Clients move before brokers go away. Uses up to 20,000 subscriptions and 5,000 events.
    """
    require("spark", "covey whatif")
    changes = changes_given(
        remove_broker or [],
        remove_link or [],
        add_link or [],
        move_clients or [],
        [*(rate or []), *(f"2:{text}" for text in rate_x2 or [])],
        language,
    )
    bounds = bounds_given(overlay, link_cost, link_upkeep, max_delay, changes)
    objective = objective_given(price or [], None, 0.0)
    if not input_dir.is_dir():
        raise ConfigError(f"there is no directory {str(input_dir)!r:.200}")
    found, told, lines = answered(input_dir, seed, changes, bounds, objective)
    if out is not None:
        write_page(found, out)
    if json:
        print_json(told)
        return
    for line in lines:
        typer.echo(line)
    print_comparison(found, out)


def answered(
    input_dir: Path, seed: int, changes: Changes, bounds: Bounds | None, objective: Objective
) -> tuple[Comparison, Mapping[str, Any], Sequence[str]]:
    """Return the comparison, what is told of it as JSON, and what is proposed, if that was asked for."""
    from covey.advisor.overlay import propose
    from covey.advisor.reading import read_network
    from covey.advisor.whatif import what_if

    traffic = read_network(input_dir, seed)
    if bounds is None:
        found = what_if(traffic, changes, objective)
        return found, found.as_dict(), []
    proposal = propose(traffic, bounds, objective)
    return proposal.comparison, proposal.as_dict(), proposal.sentences()


def bounds_given(
    links: int | None, cost: float | None, upkeep: float, delay: float | None, changes: Changes
) -> Bounds | None:
    """Return what may be proposed, None if nothing shall be; ConfigError for options that do not go together."""
    from covey.advisor.overlay import Bounds

    if links is None:
        if cost is not None or upkeep or delay is not None:
            raise ConfigError(
                "--link-cost, --link-upkeep and --max-delay are of proposals (hint: --overlay 3)"
            )
        if not changes.any:
            raise ConfigError(
                "nothing changes (hint: --remove-broker, --add-link, --move-clients, --rate-x2 …, or --overlay)"
            )
        return None
    if changes.any:
        raise ConfigError("proposals are for the network as it is (hint: --overlay without other changes)")
    return Bounds(links, cost, upkeep, delay)


def write_page(found: Comparison, out: Path) -> None:
    """Write the page with tables and the picture; ConfigError if that cannot be done."""
    from covey.advisor.whatif_report import whatif_page

    try:
        out.write_text(whatif_page(found), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {str(out)!r:.200}: {error.strerror or error}") from None


def changes_given(
    brokers: Sequence[str],
    links: Sequence[str],
    added: Sequence[str],
    moved: Sequence[str],
    rates: Sequence[str],
    language: str,
) -> Changes:
    """Return what the options ask for; ConfigError for what cannot be read."""
    from covey.advisor.whatif import Changes
    from covey.core.families import parse

    faster = []
    for word in rates:
        factor, colon, text = word.partition(":")
        try:
            faster.append((parse(text, language), float(factor)))
        except ValueError:
            raise ConfigError(
                f"--rate {word!r:.80} is not a factor and a filter (hint: 3:price > 10)"
            ) from None
        if not colon:
            raise ConfigError(f"--rate {word!r:.80} is not a factor and a filter (hint: 3:price > 10)")
    return Changes(
        faster=faster,
        moved=[_pair(word, "--move-clients") for word in moved],
        removed_brokers=brokers,
        removed_links=[_pair(word, "--remove-link") for word in links],
        added=[_link(word) for word in added],
    )


def _pair(word: str, option: str) -> tuple[str, str]:
    first, comma, second = (part.strip() for part in word.partition(","))
    if not (first and comma and second) or "," in second:
        raise ConfigError(f"{option} {word!r:.80} is not two names (hint: {option} a,b)")
    return first, second


def _link(word: str) -> tuple[str, str, float]:
    parts = [part.strip() for part in word.split(",")]
    if len(parts) not in (2, 3) or not all(parts):
        raise ConfigError(f"--add-link {word!r:.80} is not two names and a cost (hint: --add-link a,b,1.5)")
    try:
        return parts[0], parts[1], float(parts[2]) if len(parts) == 3 else DEFAULT_COST
    except ValueError:
        raise ConfigError(f"--add-link {word!r:.80}: the cost is not a number") from None


def print_comparison(found: Comparison, out: Path | None) -> None:
    """Print what changes as a table, and where the page is."""
    from covey.advisor.whatif_report import heads_of, rows_of

    table = Table(title="What if", title_justify="left", title_style="bold", header_style="bold")
    for place, title in enumerate(heads_of(found)):
        table.add_column(title, justify="right" if place else "left")
    for title, texts in rows_of(found):
        table.add_row(title, *texts)
    wide_console().print(table)
    for note in found.notes:
        typer.echo(f"  {note}")
    if out is not None:
        typer.echo(f"page    {out}")
