"""`covey pub`: publish events from the command line or from standard input."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from covey.commands.connecting import DEFAULT_URL, connected
from covey.commands.inputs import MAX_INPUT_BYTES, input_lines, parse_event, read_argument, read_bytes
from covey.commands.options import (
    Count,
    Language,
    Password,
    Timeout,
    TlsCa,
    TlsCertificate,
    TlsKey,
    Token,
    Url,
    User,
)
from covey.core.content import check_content, published_words
from covey.errors import ConfigError, CoveyError, EventError, LinkError, RefusedError

if TYPE_CHECKING:
    from covey.client.sync import SyncClient

AT_ONCE: Final = 10_000  # events that are confirmed together
MOST_REASONS: Final = 10  # refused events of which the reason is said

Published = tuple[Any, bytes]


def pub(
    event: Annotated[
        list[str],
        typer.Argument(
            metavar="EVENT",
            help="Attributes as NAME=VALUE … or one JSON object; words; an XML document; @FILE; or - for standard "
            "input, an event a line.",
        ),
    ],
    url: Url = DEFAULT_URL,
    data: Annotated[
        str, typer.Option("--data", "-d", metavar="TEXT", help="The payload: a text, or @FILE.")
    ] = "",
    language: Language = "attributes",
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Wait until the broker has everything on disk.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Lines of standard input are as `covey sub --json` prints them.")
    ] = False,
    count: Count = 1,
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls_ca: TlsCa = "",
    tls_cert: TlsCertificate = "",
    tls_key: TlsKey = "",
    timeout: Timeout = 10.0,
) -> None:
    """Publish events, and wait until the broker has taken them. Exit code 1: it has refused some.

    A value of NAME=VALUE is a number, true, false or a "text in quotes" if it reads as one in JSON, else a text.
    """
    payload = read_bytes(data)
    events = lines(language, payload, json) if event == ["-"] else given(event, language, payload, count)
    if json and event != ["-"]:
        raise ConfigError("--json is for events from standard input (hint: covey pub - --json)")
    fate = Fate()
    tls = (tls_ca, tls_cert, tls_key)
    client = connected(
        url, token, user, password, tls, timeout_s=timeout, reconnect_for_s=timeout, on_error=fate.error,
        on_disconnect=fate.broken, connect_timeout_s=timeout,
    )  # fmt: skip
    with client:
        try:
            published(client, events, fate, confirm)
        except EventError as error:
            client.flush(near=True)
            fate.say()
            before = f"{'at least ' if confirm else ''}{amount(fate.taken)}"
            raise EventError(
                f"{error} (published before it: {before})" if fate.taken else str(error)
            ) from None
        if not confirm:
            client.flush(near=True)  # what the broker has against an event is said before the answer
            fate.check()
    fate.say()
    typer.echo(f"published {amount(fate.taken)}{', confirmed' if confirm else ''}")
    raise typer.Exit(1 if fate.refused else 0)


def published(client: SyncClient, events: Iterator[Published], fate: Fate, confirm: bool) -> None:
    """Publish events as they come; with `confirm`, many at a time, and only what the broker has on disk counts."""
    if not confirm:
        for content, data in events:
            client.publish(content, data)
            fate.total += 1
        return
    while some := list(islice(events, AT_ONCE)):
        try:
            client.publish_many(some, confirm=True)
        except RefusedError as error:
            if not error.refusals:
                raise
            fate.error(error)
        fate.total += len(some)


class Fate:
    """What becomes of the events: of each that the broker refuses it is told, of few it is remembered why."""

    def __init__(self) -> None:
        self.total = self.refused = 0
        self._reasons: dict[int, str] = {}
        self._problem: Exception | None = None  # the first that is not about one event
        self._broken = ""

    @property
    def taken(self) -> int:
        """How many events the broker has taken."""
        return self.total - self.refused

    def error(self, error: Exception) -> None:
        """Note what nobody waits for; it is called in the client's thread."""
        refusals = error.refusals if isinstance(error, RefusedError) else {}
        if not refusals:
            self._problem = self._problem or error
        self.refused += len(refusals)
        self._reasons.update(islice(refusals.items(), MOST_REASONS - len(self._reasons)))

    def broken(self, reason: str) -> None:
        """Note that the link is gone."""
        self._broken = self._broken or reason

    def check(self) -> None:
        """Raise why it is not known what became of events, if that is so."""
        if self._problem is not None:
            raise CoveyError(str(self._problem))
        if self._broken:
            raise LinkError(
                f"some of {amount(self.total)} may be lost, as the link broke: {self._broken} (hint: --confirm)"
            )

    def say(self) -> None:
        """Print a line for each refused event whose reason is remembered, and how many others there are."""
        for number, reason in sorted(self._reasons.items()):
            typer.echo(f"covey: event {number:,} is refused: {' '.join(reason.split())}", err=True)
        if self.refused > len(self._reasons):
            typer.echo(f"covey: {self.refused - len(self._reasons):,} more are refused", err=True)


def amount(events: int) -> str:
    """Return how many events there are, in words."""
    return f"{events:,} event{'s' if events != 1 else ''}"


def given(words: list[str], language: str, payload: bytes, count: int) -> Iterator[Published]:
    """Return the event of the command line, `count` times."""
    content: Any
    if language == "attributes" and not words[0].lstrip().startswith(("{", "@")):
        content = attributes(words)
    elif language == "keywords":
        content = set().union(*(parse_event(read_argument(word), language) for word in words))
    elif len(words) != 1:
        raise ConfigError(f"one event, not {len(words)} (hint: quote it)")
    else:
        content = parse_event(read_argument(words[0]), language)
    return iter([(content, payload)] * count)


def attributes(words: list[str]) -> dict[str, Any]:
    """Return what NAME=VALUE … say, each name once."""
    content: dict[str, Any] = {}
    for name, value in map(pair, words):
        if name in content:
            raise ConfigError(f"the attribute {name!r:.60} is given twice")
        content[name] = value
    return content


def pair(word: str) -> tuple[str, Any]:
    """Return the name and the value of NAME=VALUE."""
    name, equals, text = word.partition("=")
    if not equals or not name:
        raise ConfigError(f"expected NAME=VALUE or a JSON object, not {word!r:.60}")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return name, text
    return name, value if isinstance(value, (bool, int, float, str)) else text


def lines(language: str, payload: bytes, json: bool) -> Iterator[Published]:
    """Return the events of standard input, as they come; every mistake names its line."""
    for number, line in enumerate(input_lines(), 1):
        if len(line) > MAX_INPUT_BYTES:
            raise EventError(f"line {number} of standard input has more than {MAX_INPUT_BYTES:,} bytes")
        if not line.strip():
            continue
        try:
            text = line.decode()
            one = received(text, language) if json else (parse_event(text, language), payload)
            check_content(one[0])
            yield one
        except UnicodeDecodeError:
            raise EventError(f"line {number} of standard input is not UTF-8 text") from None
        except CoveyError as error:
            raise EventError(f"line {number} of standard input: {error}") from None


def received(line: str, language: str) -> Published:
    """Return an event that `covey sub --json` has printed."""
    one = parse_event(line, "attributes")
    assert isinstance(one, dict)
    content, data = one.get("content"), one.get("data", "")
    if content is None or not isinstance(data, str):
        raise EventError('expected {"content": …, "data": "…"}')
    if language == "keywords" and isinstance(content, list):
        content = frozenset(published_words(content))
    if "data_base64" in one:
        try:
            return content, b64decode(one["data_base64"], validate=True)
        except (Base64Error, TypeError, ValueError):
            raise EventError("data_base64 is not base64") from None
    return content, data.encode()
