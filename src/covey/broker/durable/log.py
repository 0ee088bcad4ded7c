"""What can be asked of the store: values, each carried out wholly or not at all."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """Somebody waits for an event; `frame` is what they get if it is not the event's own."""

    owner: int
    frame: bytes | None = None


class Keep(NamedTuple):
    """An event to be kept for whoever waits for it; `seen` says that its name is to be remembered."""

    position: int
    publisher: int
    number: int
    frame: bytes
    stored_s: float
    entries: tuple[Entry, ...]
    seen: bool


class Release(NamedTuple):
    """Somebody is done with events."""

    owner: int
    positions: tuple[int, ...]


class Owner(NamedTuple):
    """Who waits for events: `kind` is "outbox" or "subscription"; see `store_file`."""

    id: int
    kind: str
    user: str
    client: str
    name: str
    uid: int = 0
    generation: int = 0
    filter: bytes = b""


class Forget(NamedTuple):
    """An owner goes, and all that waits for it."""

    owner: int


Operation = Keep | Release | Owner | Forget
