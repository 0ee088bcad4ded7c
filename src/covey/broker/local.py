"""Whole overlays on this machine, for the demonstration and the lab: a process a broker, real sockets, free ports.

All overlays are forked at once, from a process in which everything is compiled and that has no threads yet. The admin
pages want a token, which is drawn here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_urlsafe
from socket import socket
from typing import Final

from covey.broker.config import AdminConfig, BrokerConfig, LinkConfig
from covey.broker.logs import configure as configure_logs
from covey.broker.process import Family, listen
from covey.broker.security import hash_token

HOST: Final = "127.0.0.1"
READY_S: Final = 60.0
STOP_S: Final = 8.0
SAMPLE_EVERY_S: Final = 2.0


@dataclass(frozen=True)
class Overlay:
    """Brokers and their links, with the strategy that they follow; `sampled`: whether they sample their events."""

    brokers: Sequence[str]
    links: Iterable[tuple[str, str]]
    strategy: str
    sampled: bool = False
    advertisements: bool = True


@dataclass
class Brokers:
    """All brokers, started and stopped together; `directory` gets a directory for each."""

    directory: Path
    token: str = field(default_factory=token_urlsafe)
    clients: dict[str, str] = field(default_factory=dict)  # the address of each for clients
    pages: dict[str, str] = field(default_factory=dict)  # and of its admin pages
    _family: Family | None = None

    def start(self, overlays: Iterable[Overlay]) -> None:
        """Fork all brokers, and return when all links are open; CoveyError if that takes too long."""
        configure_logs("error")
        configs: dict[str, BrokerConfig] = {}
        sockets: dict[str, socket] = {}
        for overlay in overlays:
            sockets |= {name: listen(HOST, 0) for name in overlay.brokers}
            configs |= self._configs(overlay, sockets)
        # Pages open their own sockets: their ports are given back at the last moment.
        held = {name: listen(HOST, 0) for name in configs}
        for name, one in held.items():
            port = int(one.getsockname()[1])
            one.close()
            admin = AdminConfig(port=port, token=hash_token(self.token))
            configs[name] = replace(configs[name], admin=admin)
            self.pages[name] = f"http://{HOST}:{port}"
            self.clients[name] = f"covey://{HOST}:{configs[name].port}"
        self._family = Family()
        self._family.start(configs, sockets)
        self._family.wait("linked", READY_S)

    def stop(self) -> None:
        """End all of them."""
        if self._family is not None:
            family, self._family = self._family, None
            family.stop(STOP_S)

    def samples(self, broker: str) -> Path:
        """Return where a broker writes its samples."""
        return self.directory / broker / "samples"

    def _configs(self, overlay: Overlay, sockets: Mapping[str, socket]) -> dict[str, BrokerConfig]:
        ports = {name: int(sockets[name].getsockname()[1]) for name in overlay.brokers}
        links: dict[str, list[LinkConfig]] = {name: [] for name in overlay.brokers}
        for a, b in overlay.links:
            links[a].append(LinkConfig(b))
            links[b].append(LinkConfig(a, HOST, ports[a]))  # the second dials
        found = {}
        for name in overlay.brokers:
            data = self.directory / name
            if overlay.sampled:
                data.mkdir(parents=True)
            found[name] = BrokerConfig(
                name=name,
                port=ports[name],
                links=tuple(links[name]),
                strategy=overlay.strategy,
                advertisements=overlay.advertisements,
                log_level="error",
                drain_s=2.0,
                # Two processors may have to serve two dozen processes and Spark.
                lease_s=60.0,
                data_dir=str(data) if overlay.sampled else "",
                sample=1.0 if overlay.sampled else 0.0,
                sample_every_s=SAMPLE_EVERY_S,
            )
        return found
