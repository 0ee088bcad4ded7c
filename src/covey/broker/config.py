"""Configuration: what a broker is told, what each setting may be, and how settings are read.

A setting is a field of a dataclass, made by `setting`. Everything else follows from the dataclass: how files, the
environment and flags are read, what a reload may change, and the table in docs/operations.md. Settings come from a TOML
file, then from environment variables, then from flags; each wins over those before it:

    name = "paris"                          COVEY_NAME=paris                 --name paris
    [client_bounds]
    policy = "drop-oldest"                  COVEY_CLIENT_BOUNDS_POLICY=…     --set client_bounds.policy=drop-oldest
    [[links]]
    name = "lyon"
    address = "10.0.0.2:7400"               COVEY_LINKS=lyon=10.0.0.2:7400   --link lyon=10.0.0.2:7400

A mistake is a ConfigError of one line: where it was given, the setting, what is expected, and what was found.

A whole overlay in one file, for `covey up`.

first_port = 7400                             0, or none, takes free ones
first_admin_port = 7500                       0, or none: no admin pages
links = [["paris", "lyon"], {ends = ["paris", "lille"], priority = 2}]
brokers = ["nice"]                            that have no link
[settings]                                    of every broker
strategy = "covering"
data_dir = "data"                             each broker has a directory of its own name in it
[broker.paris]                                of one broker
lease_s = 2
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec

from covey.broker.logs import FORMATS, LEVELS, LOGFMT
from covey.broker.security import (
    SECTIONS,
    Security,
    SecurityConfig,
    is_loopback,
    read_security,
    read_token_hash,
)
from covey.errors import ConfigError
from covey.protocol.control import MAX_NAME
from covey.protocol.frames import MAX_FRAME
from covey.protocol.outbox import DISCONNECT, POLICIES, Bounds
from covey.routing.advertisements import NONE, WAYS

_HOST: Final = re.compile(
    r"\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[?[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*\]?"
)
_ORIGIN: Final = re.compile(r"https?://([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


class AdminConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the admin pages are served; whoever can be elsewhere needs the token."""

    port: int = 7401  # 0 takes a free one
    host: str = "127.0.0.1"
    token: str = ""  # its hash, by `covey token`
    view_token: str = ""  # the hash of another token, which opens the pages that show and no others
    tls: bool = False  # with the certificate of `[tls]`
    events: bool = False  # whether clients may post and listen at /events, each with credentials of its own
    # Names of this machine, beside loopback ones; ".example.org" is all names below it.
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()  # of pages elsewhere that may ask and read answers, as browsers name them

    def __post_init__(self) -> None:
        for host in self.hosts:
            if not _HOST.fullmatch(host):
                raise ConfigError(
                    f"admin.hosts: {host!r:.60} is no name of a host (hint: without a port; .example.org for all below)"
                )
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"admin.origins: {origin!r:.60} is no origin (hint: https://app.example.org, without a path)"
                )
        if not 0 <= self.port < 1 << 16:
            raise ConfigError(f"admin.port: {self.port} is no port")
        for name, hashed in (("token", self.token), ("view_token", self.view_token)):
            try:
                if hashed:
                    read_token_hash(hashed)
            except ConfigError as error:
                raise ConfigError(f"admin.{name}: {error}") from None
        if self.token and self.token == self.view_token:
            raise ConfigError("admin.view_token: it is admin.token, with which plans can be installed")
        if not (self.token or self.view_token or is_loopback(self.host)):
            raise ConfigError(
                f"admin.host: {self.host!r:.60} can be reached by others, and there is no admin.token "
                "(hint: covey token)"
            )


def read_admin(section: Mapping[str, Any]) -> AdminConfig:
    """Return the section `[admin]`; ConfigError that names the setting."""
    try:
        return msgspec.convert(section, AdminConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"admin: {error}") from None


EXCERPT: Final = 60


@dataclass(frozen=True)
class Kind:
    """What a setting may be: for people, as a check, and read from a text. `table` is the dataclass of a table."""

    expected: str
    accepts: Callable[[Any], bool]
    read: Callable[[str], Any] = str
    table: type | None = None


def text(*, empty: bool = True, longest: int = 1_000) -> Kind:
    """A text."""
    expected = "a text" if empty else "a text that is not empty"
    return Kind(expected, lambda v: isinstance(v, str) and (empty or v != "") and len(v) <= longest)


def flag() -> Kind:
    """True or false."""
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    return Kind("true or false", lambda v: isinstance(v, bool), lambda said: words.get(said.lower(), said))


def integer(low: int = 0, high: int = (1 << 63) - 1) -> Kind:
    """An integer between bounds."""
    expected = f"an integer from {low:,} to {high:,}" if high < 1 << 40 else f"an integer from {low:,} up"
    return Kind(expected, lambda v: type(v) is int and low <= v <= high, _read_as(int))


def number(above: float = 0.0) -> Kind:
    """A finite number above another."""
    return Kind(
        f"a number above {above:g}",
        lambda v: type(v) in (int, float) and math.isfinite(v) and v > above,
        _read_as(float),
    )


def share() -> Kind:
    """A number from 0 to 1."""
    return Kind(
        "a number from 0 to 1", lambda v: type(v) in (int, float) and 0.0 <= v <= 1.0, _read_as(float)
    )


def choice(words: Iterable[str]) -> Kind:
    """One of some words."""
    known = list(words)
    return Kind(f"one of {', '.join(known)}", lambda v: isinstance(v, str) and v in known)


def table(of: type) -> Kind:
    """A table whose keys are the settings of a dataclass."""
    return Kind("a table", lambda v: isinstance(v, dict), table=of)


def free_table() -> Kind:
    """A table of anything, whose meaning is somebody else's."""
    return Kind("a table", lambda v: isinstance(v, Mapping))


def _read_as(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(said: str) -> Any:
        try:
            return kind(said)
        except ValueError:
            return said  # which is then refused as what it is

    return read


def setting(
    kind: Kind,
    about: str,
    *,
    default: Any = MISSING,
    factory: Callable[[], Any] | None = None,
    reload: bool = False,
) -> Any:
    """Return a dataclass field; `reload` says that it may change while the broker runs."""
    metadata = {"kind": kind, "about": about, "reload": reload}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Setting:
    """One setting, as it is documented; `path` is its name in a file, with the table's before a dot."""

    path: str
    kind: Kind
    about: str
    default: Any
    reload: bool

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "COVEY_" + self.path.replace(".", "_").upper()


def settings_of(config: type, prefix: str = "", *, reload: bool | None = None) -> Iterator[Setting]:
    """Yield all settings of a dataclass that hold one value, tables opened."""
    for one in fields(config):
        kind = one.metadata.get("kind")
        if kind is None:
            continue
        again = one.metadata["reload"] if reload is None else reload
        if kind.table is not None:
            own = one.default_factory() if one.default_factory is not MISSING else None
            for inner in settings_of(kind.table, f"{prefix}{one.name}.", reload=again):
                name = inner.path.rpartition(".")[2]
                yield Setting(inner.path, inner.kind, inner.about, getattr(own, name), again)
            continue
        default = one.default if one.default_factory is MISSING else one.default_factory()
        yield Setting(f"{prefix}{one.name}", kind, one.metadata["about"], default, again)


def as_table(config: type) -> str:
    """Return the settings of a dataclass as a table in Markdown."""
    lines = ["| setting | default | what it is |", "|---|---|---|"]
    for one in settings_of(config):
        default = "" if one.default is MISSING else f"`{shown_default(one.default)}`"
        about = f"{one.about}; {one.kind.expected}" + (" · *reload*" if one.reload else "")
        lines.append(f"| `{one.path}` | {default} | {about} |")
    return "\n".join(lines)


def shown_default(value: object) -> str:
    """Return a default as a file would have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def read_table(of: type, values: Mapping[str, Any], place: str, known: Iterable[str] = ()) -> dict[str, Any]:
    """Return the checked values of a dataclass's settings; `known` are keys that are somebody else's.

    ConfigError, one line that names the setting, for whatever is wrong.
    """
    kinds = {one.name: one for one in fields(of) if "kind" in one.metadata}
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key in known:
            continue
        if key not in kinds:
            raise mistake(place, "", f"there is no setting {shown(key)}{hint(key, [*kinds, *known])}")
        kind: Kind = kinds[key].metadata["kind"]
        if not kind.accepts(value):
            raise mistake(place, key, f"expected {kind.expected}, not {shown(value)}")
        if kind.table is not None:
            default = kinds[key].default_factory
            inner = read_table(kind.table, value, f"{place}: [{key}]")
            value = _changed(default() if default is not MISSING else None, kind.table, inner)
        found[key] = float(value) if type(value) is int and kind.expected.startswith("a number") else value
    return found


def _changed(default: Any, of: type, values: Mapping[str, Any]) -> Any:
    kept = {} if default is None else {one.name: getattr(default, one.name) for one in fields(of)}
    return of(**{**kept, **values})


def mistake(place: str, key: str, problem: str) -> ConfigError:
    """Return the error for a setting at a place; an empty key is the place itself."""
    return ConfigError(": ".join(part for part in (place, key, problem) if part))


def shown(value: object) -> str:
    """Return a value as it stands in an error, cut short."""
    said = str(value).lower() if isinstance(value, bool) else repr(value)
    return said if len(said) <= EXCERPT else said[: EXCERPT - 1] + "…"


def hint(word: str, known: Iterable[str]) -> str:
    """Return which known word may have been meant, as the end of a sentence."""
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


MAX_LINK_FRAME: Final = 64 << 20  # of a neighbour: one frame may say what a whole table differs in
POLICY: Final = "what happens to events beyond the bounds"


@dataclass(frozen=True)
class Queue(Bounds):
    """`Bounds` as settings."""

    events: int = setting(integer(1), "events that may wait for one link", default=100_000)
    bytes: int = setting(integer(1), "bytes of events that may wait for one link", default=64 << 20)
    policy: str = setting(choice(POLICIES), POLICY, default=DISCONNECT)
    control_bytes: int = setting(
        integer(1 << 16),
        "bytes of control frames that may wait; beyond them the link ends",
        default=256 << 20,
    )


@dataclass(frozen=True)
class QueueLimits:
    """The limits of each durable subscription; beyond the first three its oldest events are dropped."""

    events: int = setting(integer(1), "events that one durable subscription may store", default=1_000_000)
    bytes: int = setting(integer(1), "bytes of events that it may store", default=256 << 20)
    age_s: float = setting(number(), "seconds that an event is stored for it", default=7 * 86_400.0)
    window: int = setting(integer(1), "deliveries to it that wait to be acknowledged", default=1_000)
    window_bytes: int = setting(integer(1), "bytes of such deliveries", default=4 << 20)
    again_after_s: float = setting(
        number(), "seconds without an acknowledgement, after which a delivery is repeated", default=60.0
    )
    subscriptions: int = setting(integer(0), "durable subscriptions at this broker", default=10_000)


@dataclass(frozen=True)
class LinkConfig:
    """A neighbour; with an address this broker dials, without one it waits to be dialled."""

    name: str
    host: str = ""
    port: int = 0
    priority: int = 1  # of several ways, that with lower numbers is used
    policy: str = ""  # instead of link_bounds.policy

    @property
    def address(self) -> str:
        """Host and port as people write them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.host else ""


@dataclass(frozen=True)
class BrokerConfig:
    """All settings of one broker."""

    name: str = setting(text(empty=False, longest=128), "the broker's name, another one for each broker")
    host: str = setting(
        text(empty=False),
        "the address on which it listens, by default one that only this machine reaches",
        default="127.0.0.1",
    )
    port: int = setting(integer(0, 65_535), "the port on which it listens; 0 takes a free one", default=7400)
    links: tuple[LinkConfig, ...] = field(default=(), metadata={"reload": True})
    strategy: str = setting(
        text(empty=False), "how brokers tell each other what is wanted", default="covering"
    )
    advertisements: bool = setting(
        flag(), "whether subscriptions follow advertisements, as all brokers must agree", default=True
    )
    reduce_advertisements: str = setting(
        choice(WAYS), "what neighbours are told of advertisements: all, or reduced", default=NONE
    )
    options: Mapping[str, Any] = setting(free_table(), "settings of the strategy", factory=dict)
    lease_s: float = setting(
        number(), "seconds within which a peer that sends nothing is considered dead", default=10.0
    )
    forget_after_s: float = setting(
        number(),
        "seconds after which the interest of a neighbour that is away is given up",
        default=86_400.0,
        reload=True,
    )
    drain_s: float = setting(
        number(), "seconds that an ending broker gives its queues to empty", default=10.0, reload=True
    )
    lame_duck_s: float = setting(
        number(), "seconds over which a lame duck sends its clients away", default=30.0, reload=True
    )
    log_level: str = setting(choice(LEVELS), "the least that is logged", default="info", reload=True)
    log_format: str = setting(choice(FORMATS), "lines for people or for programs", default=LOGFMT)
    max_frame: int = setting(
        integer(1 << 10, MAX_LINK_FRAME),
        "bytes of the longest frame of a client",
        default=MAX_FRAME,
        reload=True,
    )
    max_connections: int = setting(
        integer(1), "connections of clients, brokers and users over HTTP", default=10_000, reload=True
    )
    max_unauthenticated: int = setting(
        integer(1),
        "connections beside these that have not proved who they are; one more, and the first of them ends",
        default=1_000,
        reload=True,
    )
    max_unauthenticated_per_address: int = setting(
        integer(1), "connections of this kind from one address", default=500, reload=True
    )
    max_subscriptions: int = setting(integer(0), "subscriptions of one client", default=100_000, reload=True)
    max_advertisements: int = setting(integer(0), "advertisements of one client", default=1_000, reload=True)
    max_filter_cost: int = setting(
        integer(1),
        "work of one filter of a client, in units of about a microsecond of processor time: "
        "to check it, put it into tables and take it out, and to match ten events with it",
        default=10_000,
        reload=True,
    )
    max_client_bytes: int = setting(
        integer(1),
        "bytes of memory of all filters of one client: subscriptions, durable ones included, and advertisements",
        default=1 << 30,
        reload=True,
    )
    max_brokers: int = setting(integer(2), "brokers in the overlay", default=10_000, reload=True)
    client_bounds: Bounds = setting(  # noqa: RUF009 (it makes a field)
        table(Queue), "what may wait for a client", factory=Queue, reload=True
    )
    link_bounds: Bounds = setting(  # noqa: RUF009 (it makes a field)
        table(Queue),
        "what may wait for a neighbour",
        factory=lambda: Queue(1_000_000, 256 << 20),
        reload=True,
    )
    stalled_s: float = setting(
        number(),
        "seconds after which a link with the policy block that takes nothing ends",
        default=60.0,
        reload=True,
    )
    congested_at: int = setting(
        integer(1),
        "frames that wait to be handled, beyond which the broker is congested",
        default=10_000,
        reload=True,
    )
    calm_at: int = setting(
        integer(0), "frames that wait, below which it is congested no longer", default=1_000, reload=True
    )
    data_dir: str = setting(
        text(), "the directory where what is durable is kept; nothing is without it", default=""
    )
    sample: float = setting(
        share(),
        "the share of events that is sampled, to samples/ in data_dir, as planning reads it",
        default=0.0,
    )
    sample_every_s: float = setting(
        number(), "seconds after which what was sampled is written", default=60.0, reload=True
    )
    max_store_bytes: int = setting(
        integer(1 << 16),
        "bytes that the store may have; beyond them confirmed events are refused",
        default=1 << 30,
    )
    durable: QueueLimits = setting(  # noqa: RUF009 (it makes a field)
        table(QueueLimits), "what a durable subscription may have", factory=QueueLimits
    )
    security: SecurityConfig = field(default_factory=SecurityConfig, metadata={"reload": True})
    admin: AdminConfig | None = None

    def link(self, name: str) -> LinkConfig | None:
        """Return a neighbour by its name."""
        return next((one for one in self.links if one.name == name), None)

    def bounds(self, link: LinkConfig | None = None) -> Bounds:
        """Return what may wait for a client, or for a neighbour."""
        if link is None:
            return self.client_bounds
        return replace(self.link_bounds, policy=link.policy) if link.policy else self.link_bounds


def changed(old: BrokerConfig, new: BrokerConfig) -> tuple[list[str], list[str]]:
    """Return the names of settings that differ: those that a running broker can take, and those it cannot."""
    taken: list[str] = []
    refused: list[str] = []
    for one in fields(BrokerConfig):
        if getattr(old, one.name) != getattr(new, one.name):
            (taken if one.metadata.get("reload") else refused).append(one.name)
    return taken, refused


MAX_FILE: Final = 4 << 20  # bytes
MAX_DOTS: Final = 100  # in a line, outside of strings
MAX_LINKS: Final = 1_000
_NAME: Final = re.compile(r"[\w][\w.:@-]*", re.ASCII)
_STRING: Final = re.compile(r"""\"(?:[^"\\]|\\.)*"|'[^']*'""")
_LINK_KEYS: Final = ("name", "address", "priority", "policy")


def read_config(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
    links: Sequence[str] | None = None,
) -> BrokerConfig:
    """Return the configuration; `flags` are by the setting's path, `links` are as the flag `--link` has them."""
    values: dict[str, Any] = {}
    place = "the command line"
    if file is not None:
        values, place = read_toml(file), str(file)
    given = environment or {}
    for one in settings_of(BrokerConfig):
        if one.variable in given:
            _put(values, one.path, _read(one.path, given[one.variable], one.variable))
    if "COVEY_LINKS" in given:
        values["links"] = [_link_of(said, "COVEY_LINKS") for said in given["COVEY_LINKS"].split(",") if said]
    for path, said in (flags or {}).items():
        _put(values, path, _read(path, said, f"--{path.replace('_', '-')}"))
    if links:
        values["links"] = [_link_of(said, "--link") for said in links]
    return config_of(values, place, "" if file is None else str(file.parent))


def read_toml(file: Path) -> dict[str, Any]:
    """Return a TOML file's tables; ConfigError if it cannot be read."""
    try:
        if file.stat().st_size > MAX_FILE:
            raise ConfigError(f"{file}: a configuration has at most {MAX_FILE:,} bytes")
        text = file.read_text(encoding="utf-8")
        _check_keys(text, file)
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8") from None
    except (ValueError, RecursionError) as error:  # what is not TOML, and numbers that Python does not read
        raise ConfigError(f"{file} is not TOML: {error!s:.120}") from None


def _check_keys(text: str, file: Path) -> None:
    """Complain about a line with very many dots that are in no string: reading a key takes its parts squared."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > MAX_DOTS and _STRING.sub("", line).count(".") > MAX_DOTS:
            raise ConfigError(f"{file} is not TOML that is read: line {number} has more than {MAX_DOTS} dots")


def config_of(values: Mapping[str, Any], place: str, folder: str = "") -> BrokerConfig:
    """Return the configuration that these values make; `place` is how errors name their origin.

    Files that it names are relative to the folder.
    """
    found = read_table(BrokerConfig, values, place, known=("links", *SECTIONS, "admin"))
    if "name" not in found:
        raise mistake(place, "name", "a broker needs a name, and it is missing")
    check_name(found["name"], place, "name")
    raw = values.get("links", [])
    if not isinstance(raw, list) or not all(isinstance(one, dict) for one in raw) or len(raw) > MAX_LINKS:
        raise mistake(place, "links", f"expected at most {MAX_LINKS:,} tables [[links]], not {shown(raw)}")
    links = tuple(_link(one, f"{place}: [[links]] {number}") for number, one in enumerate(raw, start=1))
    names = [link.name for link in links]
    for name in names:
        if names.count(name) > 1:
            raise mistake(place, "links", f"there are several links to {name}")
        if name == found["name"]:
            raise mistake(place, "links", f"{name} has a link to itself")
    try:
        found["security"] = read_security(values, folder)
        Security(found["security"], found.get("host", "127.0.0.1"))  # whose mistakes are found now
        found["admin"] = read_admin(values["admin"]) if "admin" in values else None
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    config = BrokerConfig(**found, links=links)
    _check_strategy(config, place)
    if config.calm_at > config.congested_at:
        raise mistake(
            place,
            "calm_at",
            f"expected at most congested_at, {config.congested_at:,}, not {config.calm_at:,}",
        )
    return config


def check_name(name: str, place: str, key: str) -> None:
    """Complain about what is no name of a broker: clients' links begin with another sign, logs have one word for it."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise mistake(
            place,
            key,
            f"expected letters, digits and any of _ . : @ -, at most {MAX_NAME}, not {shown(name)}",
        )


PLANNED: Final = ("trees", "regions")  # strategies that a plan brings


def _check_strategy(config: BrokerConfig, place: str) -> None:
    # Loaded here: strategies bring the compiler.
    import covey.strategies  # noqa: F401 (registers them)
    from covey.routing.router import Router
    from covey.routing.strategy import names, registered

    known = names()
    try:
        needs_plan = registered(config.strategy).trees
    except ConfigError as error:
        if config.strategy in known:  # a plug-in that cannot be used
            raise mistake(place, "strategy", str(error)) from None
        known = [name for name in known if name not in PLANNED]
        raise mistake(
            place,
            "strategy",
            f"expected one of {', '.join(known)}, not {shown(config.strategy)}{hint(config.strategy, known)}",
        ) from None
    if needs_plan:
        raise mistake(
            place,
            "strategy",
            f"{config.strategy} needs a plan of trees, which is installed in a running overlay",
        )
    try:
        Router(
            config.name,
            config.strategy,
            advertisements=config.advertisements,
            reduce_advertisements=config.reduce_advertisements,
            options=config.options,
        )
    except ConfigError as error:
        raise mistake(place, "options", str(error)) from None


# -- links ---------------------------------------------------------------------------------------------------


def _link(values: Mapping[str, Any], place: str) -> LinkConfig:
    for key in values:
        if key not in _LINK_KEYS:
            raise mistake(place, "", f"there is no setting {shown(key)}{hint(key, _LINK_KEYS)}")
    name, address = values.get("name"), values.get("address", "")
    if not isinstance(name, str):
        raise mistake(place, "name", f"expected the neighbour's name, not {shown(name)}")
    check_name(name, place, "name")
    if not isinstance(address, str):
        raise mistake(place, "address", f"expected HOST:PORT, not {shown(address)}")
    host, port = address_of(address, place, "address") if address else ("", 0)
    priority, policy = values.get("priority", 1), values.get("policy", "")
    if type(priority) is not int or not 0 <= priority <= 1_000_000:
        raise mistake(place, "priority", f"expected an integer from 0 to 1,000,000, not {shown(priority)}")
    if policy != "" and policy not in POLICIES:
        raise mistake(place, "policy", f"expected one of {', '.join(POLICIES)}, not {shown(policy)}")
    return LinkConfig(name, host, port, priority, policy)


def address_of(said: str, place: str, key: str) -> tuple[str, int]:
    """Return host and port of an address; an IPv6 one is in brackets."""
    host, colon, port = said.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or len(port) > 5 or not 1 <= int(port) <= 65_535:
        raise mistake(place, key, f"expected HOST:PORT, not {shown(said)}")
    return host, int(port)


def _link_of(said: str, place: str) -> dict[str, Any]:
    """Return the table of a link that was written as NAME or NAME=HOST:PORT."""
    name, equals, address = said.strip().partition("=")
    if equals:
        address_of(address, place, name)
        return {"name": name, "address": address}
    return {"name": name}


# -- texts ---------------------------------------------------------------------------------------------------


def _read(path: str, said: str, place: str) -> Any:
    """Return a value from its text, judged, so that the error names where the text is."""
    known = {one.path: one for one in settings_of(BrokerConfig)}
    if path not in known:
        raise ConfigError(f"{place}: there is no setting {shown(path)}{hint(path, known)}")
    kind = known[path].kind
    value = kind.read(said)
    if not kind.accepts(value):
        raise ConfigError(f"{place}: expected {kind.expected}, not {shown(said)}")
    return value


def _put(values: dict[str, Any], path: str, value: Any) -> None:
    table, dot, key = path.rpartition(".")
    if not dot:
        values[key] = value
        return
    inner = values.setdefault(table, {})
    if isinstance(inner, dict):  # else the file's mistake is found when it is read
        inner[key] = value


def as_values(config: BrokerConfig) -> dict[str, Any]:
    """Return a configuration as the tables that a file would have."""
    values: dict[str, Any] = {}
    for one in settings_of(BrokerConfig):
        table, _, key = one.path.rpartition(".")
        value = getattr(getattr(config, table), key) if table else getattr(config, key)
        _put(values, one.path, value)
    values["links"] = [
        {key: value for key, value in _link_values(link).items() if value != ""} for link in config.links
    ]
    return values


def _link_values(link: LinkConfig) -> dict[str, Any]:
    values = {one.name: getattr(link, one.name) for one in fields(link) if one.name not in ("host", "port")}
    return {**values, "address": link.address}


MAX_BROKERS: Final = 200  # processes on one machine
_KEYS: Final = ("first_port", "first_admin_port", "links", "brokers", "settings", "broker")


@dataclass(frozen=True)
class Ends:
    """A link; the second broker dials the first."""

    first: str
    second: str
    priority: int = 1


@dataclass(frozen=True)
class Topology:
    """Brokers, the links between them, and settings of all and of each."""

    brokers: tuple[str, ...]
    links: tuple[Ends, ...]
    first_port: int
    settings: Mapping[str, Any]
    own: Mapping[str, Mapping[str, Any]]
    place: str
    first_admin_port: int = 0

    def configs(self, ports: Mapping[str, int]) -> dict[str, BrokerConfig]:
        """Return each broker's configuration; ConfigError if a setting is wrong."""
        found: dict[str, BrokerConfig] = {}
        for number, name in enumerate(self.brokers):
            values = {**self.settings, **self.own.get(name, {}), "name": name, "port": ports[name]}
            if "data_dir" in self.settings and "data_dir" not in self.own.get(name, {}):
                values["data_dir"] = f"{values['data_dir']}/{name}"  # a store belongs to one broker
            values["links"] = [
                {"name": link.second, "priority": link.priority}
                if link.first == name
                else {
                    "name": link.first,
                    "priority": link.priority,
                    "address": f"127.0.0.1:{ports[link.first] or 1}",
                }
                for link in self.links
                if name in (link.first, link.second)
            ]
            if self.first_admin_port:
                values["admin"] = {**values.get("admin", {}), "port": self.first_admin_port + number}
            folder = str(Path(self.place).parent)
            found[name] = config_of(values, f"{self.place}: broker {name}", folder)
        return found


def is_topology(values: Mapping[str, Any]) -> bool:
    """Return whether a file is one of an overlay and not of one broker."""
    return "name" not in values and any(key in values for key in ("settings", "brokers", "broker", "links"))


def read_topology(file: Path) -> Topology:
    """Return an overlay from its file; ConfigError, one line, if it is none."""
    return topology_of(read_toml(file), str(file))


def topology_of(values: Mapping[str, Any], place: str) -> Topology:
    """Return an overlay from a file's tables."""
    for key in values:
        if key not in _KEYS:
            raise mistake(place, "", f"there is no setting {shown(key)}{hint(key, _KEYS)}")
    first_port, first_admin_port = (_port(values, key, place) for key in ("first_port", "first_admin_port"))
    raw, alone = values.get("links", []), values.get("brokers", [])
    if not isinstance(raw, list):
        raise mistake(place, "links", f"expected a list of pairs, not {shown(raw)}")
    if not isinstance(alone, list) or not all(isinstance(name, str) for name in alone):
        raise mistake(place, "brokers", f"expected a list of names, not {shown(alone)}")
    links = tuple(_ends(one, f"{place}: links", number) for number, one in enumerate(raw, start=1))
    names = dict.fromkeys([*(name for link in links for name in (link.first, link.second)), *alone])
    for name in names:
        check_name(name, place, "brokers")
    if not 1 <= len(names) <= MAX_BROKERS:
        raise mistake(place, "links", f"expected from 1 to {MAX_BROKERS} brokers, not {len(names)}")
    pairs = [frozenset((link.first, link.second)) for link in links]
    for link, pair in zip(links, pairs, strict=True):
        if len(pair) == 1 or pairs.count(pair) > 1:
            raise mistake(place, "links", f"one link at most between {link.first} and {link.second}")
    settings, own = values.get("settings", {}), values.get("broker", {})
    for key, table in (("settings", settings), ("broker", own), *own.items()):
        if not isinstance(table, dict):
            raise mistake(place, key, f"expected a table, not {shown(table)}")
    for name in own:
        if name not in names:
            raise mistake(place, f"[broker.{name}]", f"there is no broker {name}{hint(name, names)}")
    topology = Topology(tuple(names), links, first_port, settings, own, place, first_admin_port)
    topology.configs(dict.fromkeys(names, 0))  # so that mistakes are found now
    return topology


def _port(values: Mapping[str, Any], key: str, place: str) -> int:
    port = values.get(key, 0)
    if type(port) is not int or not 0 <= port <= 65_535 - MAX_BROKERS:
        raise mistake(place, key, f"expected a port or 0, not {shown(port)}")
    return port


def _ends(value: Any, place: str, number: int) -> Ends:
    priority: Any = 1
    ends = value
    if isinstance(value, dict):
        ends, priority = value.get("ends"), value.get("priority", 1)
        for key in value:
            if key not in ("ends", "priority"):
                raise mistake(place, str(number), f"there is no setting {shown(key)}")
    if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(name, str) for name in ends):
        raise mistake(place, str(number), f"expected the names of two brokers, not {shown(value)}")
    if type(priority) is not int or not 0 <= priority <= 1_000_000:
        raise mistake(place, str(number), f"expected a priority from 0 to 1,000,000, not {shown(priority)}")
    return Ends(ends[0], ends[1], priority)
