"""Reading a configuration: a TOML file, then environment variables, then flags; each wins over those before it.

    name = "paris"                          COVEY_NAME=paris                 --name paris
    [client_bounds]
    policy = "drop-oldest"                  COVEY_CLIENT_BOUNDS_POLICY=…     --set client_bounds.policy=drop-oldest
    [[links]]
    name = "lyon"
    address = "10.0.0.2:7400"               COVEY_LINKS=lyon=10.0.0.2:7400   --link lyon=10.0.0.2:7400

Whatever is wrong is a ConfigError of one line: where it was given, the setting, what is expected, what was found.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.http.config import read_admin
from covey.broker.security import SECTIONS, Security, read_security
from covey.broker.settings import hint, mistake, read_table, settings_of, shown
from covey.errors import ConfigError
from covey.wire.lanes import POLICIES
from covey.wire.messages import MAX_NAME

MAX_FILE: Final = 4 << 20  # bytes
MAX_LINKS: Final = 1_000
_NAME: Final = re.compile(r"[\w][\w.:@-]*", re.ASCII)
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
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is not TOML: {error!s:.120}") from None


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
        Security(found["security"], found.get("host", "127.0.0.1")).close()  # whose mistakes are found now
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


def _check_strategy(config: BrokerConfig, place: str) -> None:
    # Loaded here: strategies bring the compiler.
    import covey.strategies  # noqa: F401 (registers them)
    from covey.routing.router import Router
    from covey.routing.strategy import names, registered

    known = [name for name in names() if not registered(name).trees]
    try:
        needs_plan = registered(config.strategy).trees
    except ConfigError:
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
        Router(config.name, config.strategy, advertisements=config.advertisements, options=config.options)
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
    if not colon or not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
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
