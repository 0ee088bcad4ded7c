"""The options of the data source: every one with its default and meaning, judged once, and the client that they make.

Spark gives options as texts, under names without case. `OPTIONS` is the whole list; docs/spark.md shows it, and a test
compares the two. What is wrong with one is said in one line that names it. Secrets are in no text that this makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covey.client.admin import Pages
from covey.client.link import DEFAULT_URL, DROP_NEW, POLICIES, addresses_of, tls_context
from covey.core.families import DEFAULT_LANGUAGE, LANGUAGES, parse
from covey.errors import ConfigError, CoveyError, TimedOutError

if TYPE_CHECKING:
    from covey.client.sync import SyncClient
    from covey.core.filter import Filter

READ, STREAM, WRITE = USES = ("read", "stream", "write")
ALL: Final = USES

# Tables of the network's own state (`state`).
STATES: Final = ("subscriptions", "clients", "links", "tables", "rates", "plans")

# What Spark hands on to a sink although it is not meant for it.
SPARKS_OWN: Final = frozenset(("checkpointlocation", "queryname"))


class Option(NamedTuple):
    """One option: its default as text, for which uses it is, how a text becomes its value, and what it means."""

    name: str
    default: str
    uses: tuple[str, ...]
    read: Callable[[str], Any]
    meaning: str


def _positive(text: str) -> float:
    number = float(text)
    if not (isfinite(number) and number > 0):
        raise ValueError("it must be a positive number")
    return number


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 10_000_000:
        raise ValueError("it must be between 1 and 10,000,000")
    return number


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text.lower() == "true"


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"it must be one of {', '.join(choices)}")
        return text

    return read


def _url(text: str) -> str:
    addresses_of(text)
    return text


def _admin(text: str) -> tuple[str, ...]:
    addresses = tuple(address.strip() for address in text.split(",") if address.strip())
    for address in addresses:
        Pages(address)
    if len(set(addresses)) < len(addresses):
        raise ValueError("it must name each address once")
    return addresses


OPTIONS: Final = (
    Option("url", DEFAULT_URL, ALL, _url, "a broker's address, or several with commas; `coveys://` for TLS"),
    Option("token", "", ALL, str, "who it is; or `user` and `password`"),
    Option("user", "", ALL, str, "a user's name"),
    Option("password", "", ALL, str, "the user's password"),
    Option("tls_ca", "", ALL, str, "use TLS, and trust the authorities in this file (of the machine that connects)"),
    Option("tls_cert", "", ALL, str, "use TLS, and show the certificate in this file"),
    Option("tls_key", "", ALL, str, "the certificate's key"),
    Option(
        "timeout", "10", ALL, _positive,
        "seconds to reach a broker, for each of its answers, and to have a link that broke back",
    ),
    Option(
        "language", DEFAULT_LANGUAGE, ALL, _one_of(LANGUAGES), "of the filter and the events: " + ", ".join(LANGUAGES)
    ),
    Option("filter", "", (READ, STREAM), str, "which events; all events with attributes, if it is not given"),
    Option(
        "table", "", (READ,), _one_of(("", *STATES)),
        "read the state of the network instead of events: " + ", ".join(STATES),
    ),
    Option(
        "admin", "", (READ,), _admin,
        "for `table`: admin pages of brokers, such as `http://127.0.0.1:7401`, with commas; `token` is for these then",
    ),
    Option("events", "10000", (READ, STREAM), _count, "the most events of a read, or of one batch of a stream"),
    Option("seconds", "10", (READ,), _positive, "how long a read takes, unless it has its events before"),
    Option(
        "pushdown", "false", (READ,), _flag,
        "let the network judge the query's own filters on attributes; the DataFrame is for one query then",
    ),
    Option("durable", "", (STREAM,), str, "the name of a durable subscription: nothing is lost over restarts"),
    Option("name", "spark", (STREAM,), str, "the client's name, to which the durable subscription belongs"),
    Option(
        "policy", DROP_NEW, (STREAM,), _one_of(POLICIES),
        "what happens to events that come faster than they are processed, without `durable`: " + ", ".join(POLICIES),
    ),
    Option(
        "idle", "1", (STREAM,), _positive,
        "with the trigger `availableNow`: the stream ends when nothing has come for so many seconds, or before",
    ),
    Option("confirm", "true", (WRITE,), _flag, "wait until the broker has each event on its disk"),
    Option(
        "identify", "", (WRITE,), str,
        "an attribute that tells which row an event is, the same if its task runs again: query/batch/partition/row",
    ),
    Option("advertise", "", (WRITE,), str, "a filter that covers what is published; without it events cost more"),
)  # fmt: skip
BY_NAME: Final = {option.name: option for option in OPTIONS}

# Names that people know from other sources of streams, and the options that they stand for there.
SYNONYMS: Final = {"maxeventspertrigger": "events"}


@dataclass(frozen=True)
class Options:
    """All options of one use, by name; those of other uses have their defaults."""

    url: str = field(repr=False)
    token: str = field(repr=False)
    user: str
    password: str = field(repr=False)
    tls_ca: str
    tls_cert: str
    tls_key: str
    timeout: float
    language: str
    filter: str
    table: str
    admin: tuple[str, ...]
    events: int
    seconds: float
    pushdown: bool
    durable: str
    name: str
    policy: str
    idle: float
    confirm: bool
    identify: str
    advertise: str

    def wanted(self) -> Filter:
        """Return the filter to subscribe with; ConfigError if it is none."""
        if not self.filter and self.language != DEFAULT_LANGUAGE:
            raise ConfigError(f"the option filter is needed for events of the language {self.language}")
        return _parsed("filter", self.filter or "TRUE", self.language)

    def advertised(self) -> Filter | None:
        """Return what is to be advertised, if anything is; ConfigError if it is no filter."""
        return _parsed("advertise", self.advertise, self.language) if self.advertise else None

    def connected(
        self,
        on_error: Callable[[CoveyError], None] | None = None,
        *,
        name: str = "",
        on_reconnect: Callable[[str], None] | None = None,
        on_disconnect: Callable[[str], None] | None = None,
    ) -> SyncClient:
        """Return a client that is connected; CoveyError, within the time-out, if it cannot be."""
        from covey.client.sync import connect_sync

        tls = (self.tls_ca, self.tls_cert, self.tls_key)
        return connect_sync(
            self.url,
            name=name,
            token=self.token,
            user=self.user,
            password=self.password,
            tls=tls_context(*tls) if any(tls) else False,
            connect_timeout_s=self.timeout,
            timeout_s=self.timeout,
            reconnect_for_s=self.timeout,
            longest_pause_s=1.0,
            on_error=on_error,
            on_reconnect=on_reconnect,
            on_disconnect=on_disconnect,
        )


def settle(client: SyncClient) -> None:
    """Wait until what was said is in force in the whole network, unless a part of it does not answer in time.

    A broker that is down somewhere is no reason for not beginning: it learns of everything when it is back.
    """
    with suppress(TimedOutError):
        client.flush()


def _parsed(option: str, text: str, language: str) -> Filter:
    try:
        return parse(text, language)
    except CoveyError as error:
        raise ConfigError(f"the option {option} is wrong: {error}") from None


def options_of(given: Mapping[str, str], use: str | None = None) -> Options:
    """Return the options for one use, or only look whether they could be for any.

    ConfigError, in one line that names the option, for one that there is not, that is for another use, or whose value
    is wrong; and for one that is given under two names.
    """
    values = {option.name: option.read(option.default) for option in OPTIONS}
    for key, text in given.items():
        name = key.lower()
        if name in SPARKS_OWN:
            continue
        if name in SYNONYMS:
            if use not in (STREAM, None):
                raise ConfigError(f"the option {key} is for {STREAM}, not for {use}")
            name = SYNONYMS[name]
            if any(other.lower() == name for other in given):
                raise ConfigError(f"the options {key} and {name} are the same: give one of them")
        option = BY_NAME.get(name)
        if option is None:
            raise ConfigError(f"there is no option {key!r:.40} (hint: {', '.join(BY_NAME)})")
        if use is not None and use not in option.uses:
            raise ConfigError(f"the option {name} is for {' and '.join(option.uses)}, not for {use}")
        values[name] = _value(option, text)
    options = Options(**values)
    _check_together(options)
    return options


def _value(option: Option, text: str) -> Any:
    try:
        return option.read(text)
    except CoveyError as error:
        raise ConfigError(f"the option {option.name} is wrong: {error}") from None
    except ValueError as error:
        # Python's own words for a text that is no number would show the whole text.
        why = str(error) if str(error).startswith("it must") else "it must be a number"
        raise ConfigError(f"the option {option.name} is {text!r:.40}: {why}") from None


def _check_together(options: Options) -> None:
    if options.token and options.user:
        raise ConfigError("the options token and user exclude each other")
    if options.password and not options.user:
        raise ConfigError("the option password needs the option user")
    if options.tls_key and not options.tls_cert:
        raise ConfigError("the option tls_key needs the option tls_cert")
    if options.durable and not options.name:
        raise ConfigError("the option durable needs a client with a name (hint: the option name)")
    if bool(options.table) != bool(options.admin):
        raise ConfigError(
            "the options table and admin need each other (hint: admin has the addresses of admin pages)"
        )
    if options.filter:
        options.wanted()
    options.advertised()
