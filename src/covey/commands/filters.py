"""`covey filter`: try the languages from a shell."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from covey.commands.help import Application
from covey.commands.inputs import read_event
from covey.commands.options import Json, Language
from covey.commands.output import print_json, print_pairs
from covey.core.attributes.filter import AttributeFilter
from covey.core.attributes.sql import to_spark_sql
from covey.core.families import DEFAULT_LANGUAGE, parse
from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.errors import ConfigError

app = Application("Try filters: what they mean, what they match, what they cover.")

EXCERPT_LENGTH = 70

Text = Annotated[str, typer.Argument(metavar="FILTER", help="The filter's text.")]


@app.command()
def check(text: Text, language: Language = DEFAULT_LANGUAGE, json: Json = False) -> None:
    """Say what a filter is: its canonical text, its size, and its Spark SQL."""
    report = describe(parse(text, language))
    if json:
        print_json(report)
    else:
        print_pairs({name.replace("_", " "): value for name, value in report.items()})


@app.command()
def match(
    text: Text,
    events: Annotated[
        list[str],
        typer.Argument(
            metavar="EVENT",
            help="JSON objects; XML documents for xpath; words for keywords. `-` reads standard input, "
            "`@FILE` a file.",
        ),
    ],
    language: Language = DEFAULT_LANGUAGE,
    json: Json = False,
) -> None:
    """Say which events a filter matches. Exit code 0: all of them; 1: not all."""
    if events.count("-") > 1:
        raise ConfigError("standard input can be read once: give `-` for one event only")
    asked = parse(text, language)
    results = [{"event": event, "matches": asked.matches(read_event(event, language))} for event in events]
    if json:
        print_json({"filter": str(asked), "language": language, "results": results})
    else:
        for result in results:
            verdict = "matches       " if result["matches"] else "does not match"
            typer.echo(f"{verdict}  {_excerpt(str(result['event']))}")
    raise typer.Exit(0 if all(result["matches"] for result in results) else 1)


@app.command()
def covers(
    first: Text,
    second: Annotated[str, typer.Argument(metavar="OTHER", help="The other filter's text.")],
    language: Language = DEFAULT_LANGUAGE,
    json: Json = False,
) -> None:
    """Say how two filters relate. Exit code 0: the first covers the second; 1: it does not."""
    report = compare(parse(first, language), parse(second, language))
    if json:
        print_json(report)
    else:
        typer.echo(f"first   {report['first']}")
        typer.echo(f"second  {report['second']}")
        typer.echo(report["relation"])
    raise typer.Exit(0 if report["covers"] else 1)


def describe(asked: Filter) -> dict[str, Any]:
    """Return what `covey filter check` reports."""
    report: dict[str, Any] = {"language": asked.family, "text": str(asked)}
    if isinstance(asked, AttributeFilter | KeywordFilter):
        report["conjunctions"] = len(asked.conjunctions)
    report["encoded_bytes"] = len(asked.encode())
    if isinstance(asked, AttributeFilter):
        report["spark_sql"] = to_spark_sql(asked)
    return report


def compare(first: Filter, second: Filter) -> dict[str, Any]:
    """Return what `covey filter covers` reports."""
    covers, covered, overlaps = first.covers(second), second.covers(first), first.overlaps(second)
    relations = (
        (covers and covered, "they are equal: each covers the other"),
        (covers, "the first covers the second"),
        (covered, "the second covers the first"),
        (overlaps, "they overlap: an event can match both, and neither covers the other"),
        (True, "they are disjoint: no event matches both"),
    )
    return {
        "first": str(first),
        "second": str(second),
        "relation": next(text for holds, text in relations if holds),
        "covers": covers,
        "covered": covered,
        "equal": covers and covered,
        "overlaps": overlaps,
    }


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT_LENGTH else line[: EXCERPT_LENGTH - 1] + "…"
