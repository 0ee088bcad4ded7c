"""A whole overlay in one file, for `covey up`.

first_port = 7400                             0, or none, takes free ones
first_admin_port = 7500                       0, or none: no admin pages
links = [["paris", "lyon"], {ends = ["paris", "lille"], priority = 2}]
brokers = ["nice"]                            that have no link
[settings]                                    of every broker
strategy = "covering"
[broker.paris]                                of one broker
lease_s = 2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from covey.broker.config import BrokerConfig, check_name, config_of, hint, mistake, read_toml, shown

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
