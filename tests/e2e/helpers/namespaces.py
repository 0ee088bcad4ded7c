"""Brokers in network namespaces of their own, joined by a bridge: packets between two of them can be lost one way.

with Namespaces("abc") as space:
    space.enter()                     this thread is where clients are, from now on
    space.lose("a", "b")              no packet of a's reaches b; what b says reaches a
    space.heal()

A packet is lost because its sender has a wrong hardware address for the receiver, so neither end is told. That takes
root and `ip`, and no packet filter; `problem` says what is missing.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable
from types import TracebackType

CLONE_NEWNET = 0x40000000
NOBODY = "02:00:00:00:00:fe"  # a hardware address that no interface has


def _ip(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["ip", *words], capture_output=True, check=False)


def problem() -> str:
    """Return why there can be no namespaces here, "" if there can be."""
    if shutil.which("ip") is None:
        return "there is no command ip"
    if os.geteuid() != 0:
        return "network namespaces take root"
    name = f"covey-try-{os.getpid()}"
    if (made := _ip("netns", "add", name)).returncode:
        return f"no network namespace can be made: {made.stderr.decode().strip()}"
    pair = _ip("-n", name, "link", "add", "x", "type", "veth", "peer", "name", "y")
    bridge = _ip("-n", name, "link", "add", "z", "type", "bridge")
    _ip("netns", "delete", name)
    return (
        "" if not pair.returncode and not bridge.returncode else "the kernel has no veth pairs or no bridges"
    )


def enter(namespace: str) -> None:
    """Have this thread, and the processes that it starts, in a namespace from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    file = os.open(f"/var/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(file, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"the namespace {namespace} cannot be entered")
    finally:
        os.close(file)


class Namespaces:
    """Some namespaces, each with one interface on a bridge; see the module's text."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self._lost: list[tuple[str, str]] = []

    def namespace(self, name: str) -> str:
        """Return the name under which the system knows a namespace; "" is that of the bridge, where clients are."""
        return f"covey-{os.getpid()}-{name or 'hub'}"

    def address(self, name: str) -> str:
        """Return the address of a broker."""
        return f"10.77.0.{self.names.index(name) + 1}"

    def __enter__(self) -> Namespaces:
        try:
            self._make()
        except AssertionError:
            self.__exit__(None, None, None)
            raise
        return self

    def _make(self) -> None:
        hub = self.namespace("")
        self._do("netns", "add", hub)
        self._do("-n", hub, "link", "set", "lo", "up")
        self._do("-n", hub, "link", "add", "bridge", "type", "bridge")
        self._do("-n", hub, "addr", "add", "10.77.0.254/24", "dev", "bridge")
        self._do("-n", hub, "link", "set", "bridge", "up")
        for name in self.names:
            own = self.namespace(name)
            self._do("netns", "add", own)
            self._do(
                "-n", hub, "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", own
            )
            self._do("-n", hub, "link", "set", f"to-{name}", "master", "bridge", "up")
            self._do("-n", own, "link", "set", "lo", "up")
            self._do("-n", own, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            self._do("-n", own, "link", "set", "eth0", "up")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in ("", *self.names):
            _ip("netns", "delete", self.namespace(name))

    def _do(self, *words: str) -> None:
        done = _ip(*words)
        assert not done.returncode, f"ip {' '.join(words)}: {done.stderr.decode()}"

    def lose(self, sender: str, receiver: str) -> None:
        """Lose every packet from one broker to another."""
        where = ("-n", self.namespace(sender), "neigh")
        self._do(
            *where, "replace", self.address(receiver), "lladdr", NOBODY, "dev", "eth0", "nud", "permanent"
        )
        self._lost.append((sender, receiver))

    def heal(self) -> None:
        """Lose no more."""
        for sender, receiver in self._lost:
            where = ("-n", self.namespace(sender), "neigh")
            self._do(*where, "delete", self.address(receiver), "dev", "eth0")
        self._lost.clear()
