"""Security: who may come in, and with which permissions.

    a client       by a token, or a user's name and password; anonymous as far as configured
    a neighbour    by a certificate with its name (`tls`), or by the token that all neighbours share

Where no credentials are configured, a broker that listens on this machine alone lets everybody in: it is for trying
things. As soon as there are any, or it listens further, nobody comes in without, unless `[anonymous]` says so, and no
neighbour without proof, unless `[neighbours]` says so.

A refused peer is told one sentence that does not say which part was wrong. A check of a password takes long by design:
`known` decides all that is quick, `expected` says what a password is to be compared with, and `proved` is told the
outcome. `logins` has the order in which that is done.

A user that fails again and again is not looked at for a while (`Throttle`). A failure fills a bucket, which leaks as
time goes by; while it is full, no password is even looked at. Buckets are by address and user, and there are never more
of them than allowed: the oldest are forgotten first. A token is compared in no time and cannot be guessed, so that the
right one is always let in: whoever shares an address with a peer cannot keep it out by wrong ones.
"""

from __future__ import annotations

import hmac
import secrets
from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any, Final

import msgspec

from covey.broker.credentials import (
    PasswordHash,
    find_token,
    hash_of_nobody,
    read_password_hash,
    read_token_hash,
)
from covey.broker.permissions import EVERYTHING, Permissions, Rules, read_rules
from covey.broker.tls import Contexts, TlsConfig, check_name
from covey.errors import AccessError, BusyError, ConfigError


class Throttle:
    """Buckets of failures; the time is the caller's."""

    def __init__(self, burst: int = 5, leak_s: float = 5.0, at_most: int = 10_000) -> None:
        self._burst = burst
        self._leak_s = leak_s
        self._at_most = at_most
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # failures, as of when

    def wait_s(self, who: Hashable, now_s: float) -> float:
        """Return how long it has to wait until it may try again: 0 if it may now."""
        level = self._level(who, now_s)
        return max(0.0, (level - self._burst + 1) * self._leak_s) if level > self._burst - 1 else 0.0

    def failed(self, who: Hashable, now_s: float) -> None:
        """Note a failure."""
        level = self._level(who, now_s) + 1.0
        self._buckets[who] = (level, now_s)
        self._buckets.move_to_end(who)
        while len(self._buckets) > self._at_most:
            self._buckets.popitem(last=False)

    def _level(self, who: Hashable, now_s: float) -> float:
        level, then_s = self._buckets.get(who, (0.0, now_s))
        return max(0.0, level - (now_s - then_s) / self._leak_s)

    def __len__(self) -> int:
        return len(self._buckets)


ANONYMOUS: Final = "somebody anonymous"  # the name of the permissions of whoever shows nothing
REMEMBERED: Final = 1_000  # passwords that were right need not be derived again


class _Secret(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of what has secrets in it: its text has none."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UserConfig(_Secret, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One of `[[users]]`; the password is hashed by `covey password`."""

    name: str
    password: str
    subscribe: Rules | None = None
    publish: Rules | None = None


class TokenConfig(_Secret, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One of `[[tokens]]`; `hash` is what `covey token` prints."""

    name: str
    hash: str
    subscribe: Rules | None = None
    publish: Rules | None = None


class AnonymousConfig(_Secret, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section `[anonymous]`: what somebody may do who does not say who it is."""

    allow: bool = True
    subscribe: Rules | None = None
    publish: Rules | None = None


class NeighboursConfig(_Secret, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section `[neighbours]`: how brokers prove who they are where they have no certificates."""

    token: str = ""  # the same at all brokers
    trusted: bool = False  # nobody has to prove anything: for networks that only brokers can reach


class SecurityConfig(_Secret, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The sections about security, as they stand in the file."""

    tls: TlsConfig | None = None
    users: tuple[UserConfig, ...] = ()
    tokens: tuple[TokenConfig, ...] = ()
    anonymous: AnonymousConfig | None = None
    neighbours: NeighboursConfig = NeighboursConfig()
    folder: str = ""  # that files' names are relative to


SECTIONS: Final = ("tls", "users", "tokens", "anonymous", "neighbours")


def read_security(document: Mapping[str, Any], folder: str = "") -> SecurityConfig:
    """Return the sections about security of a whole configuration; ConfigError that names the setting."""
    sections = {name: document[name] for name in SECTIONS if name in document}
    try:
        if "tls" in sections:
            sections["folder"] = folder
        return msgspec.convert(sections, SecurityConfig)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        raise ConfigError(f"{place.rstrip('`') or 'security'}: {problem}") from None


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches who listens at the host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def network_of(host: str) -> str:
    """Return what is counted as one address: an IPv4 address, or the 64 bits of an IPv6 one that one user has."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped
    return str(mapped) if mapped is not None else str(IPv6Address(int(address) >> 64 << 64))


class Security:
    """What `SecurityConfig` means; ConfigError if it means nothing. `host` is where the broker listens."""

    def __init__(self, config: SecurityConfig, host: str = "127.0.0.1") -> None:
        self.contexts = None if config.tls is None else Contexts(config.tls, Path(config.folder))
        self.has_credentials = bool(config.users or config.tokens)
        self._open = is_loopback(host) and not self.has_credentials
        self._neighbours = config.neighbours
        self._anonymous = _anonymous(config.anonymous, self._open)
        self._tokens = [read_token_hash(one.hash) for one in config.tokens]
        self._token_permissions = [_permissions(one, _token_name(one)) for one in config.tokens]
        self._passwords = {one.name: read_password_hash(one.password) for one in config.users}
        self._users = {one.name: _permissions(one, one.name) for one in config.users}
        self._named = {one.name: one for one in (*self._users.values(), *self._token_permissions)}
        self._secrets = {one.name: one.password for one in config.users}
        self._secrets |= {_token_name(one): one.hash for one in config.tokens}
        for kind, listed in (("users", config.users), ("tokens", config.tokens)):
            if len({one.name for one in listed}) < len(listed):
                raise ConfigError(f"{kind}: two have the same name")
        # Compared with when there is no such user, so that it takes as long as with most that there are.
        efforts = Counter(one[:3] for one in self._passwords.values())
        usual = max(self._passwords.values(), key=lambda one: efforts[one[:3]], default=None)
        self._nobody = None if usual is None else hash_of_nobody(usual)
        self._throttle = Throttle()
        self._remembered_key = secrets.token_bytes(32)
        self._remembered: OrderedDict[bytes, str] = OrderedDict()

    def renewed(self, config: SecurityConfig, host: str) -> Security:
        """Return what another configuration means, for a broker that listens already; ConfigError if it cannot.

        Failures are remembered, and so are passwords that were right, of users whose passwords stay the same.
        """
        if (config.tls is None) != (self.contexts is None):
            raise ConfigError("tls cannot begin or end while the broker runs: restart it for that")
        new = Security(config, host)
        if self.contexts is not None and config.tls is not None:
            self.contexts.take(config.tls, Path(config.folder))
            new.contexts = self.contexts
        new._throttle = self._throttle
        new._remembered_key = self._remembered_key
        for digest, user in self._remembered.items():
            if new._passwords.get(user) == self._passwords[user]:
                new._remembered[digest] = user
        return new

    def __repr__(self) -> str:
        return (
            f"<security of {len(self._named)} who have credentials>"  # without secrets, wherever it is shown
        )

    # -- clients ---------------------------------------------------------------------------------------------

    def known(
        self, *, user: str, password: str, token: str, address: str, now_s: float
    ) -> Permissions | None:
        """Return a client's permissions; None if a password must be checked.

        AccessError if it is refused, BusyError if it failed too often.
        """
        if not self.has_credentials and self._anonymous is not None:
            return (
                self._anonymous
            )  # there is nothing to compare with, and whoever shows nothing may come in too
        if user:
            self._check_throttle(address, user, now_s)
            if not self._users:
                raise self._refusal(address, user, now_s)
            return self._users[user] if self._remember(user, password) in self._remembered else None
        if token:
            found = find_token(token, self._tokens)
            if found is None:
                self._check_throttle(address, "", now_s)
                raise self._refusal(address, "", now_s)
            return self._token_permissions[found]
        if self._anonymous is None:
            raise AccessError("this broker wants a token, or a user's name and password")
        return self._anonymous

    def permissions_of(self, name: str) -> Permissions | None:
        """Return what somebody may do now who came in before, by the name of its permissions; None if nothing.

        Where everybody may do everything, so may those who had a name before.
        """
        if name in self._named:
            return self._named[name]
        if self._open and self._anonymous == EVERYTHING:
            return EVERYTHING
        return self._anonymous if name in (EVERYTHING.name, ANONYMOUS) else None

    def secret_of(self, name: str) -> str:
        """Return the hash of what somebody has to show, by the name of its permissions; empty for nothing."""
        return self._secrets.get(name, "")

    def is_known(self, user: str) -> bool:
        """Return whether there is such a user."""
        return user in self._users

    def expected(self, user: str) -> PasswordHash:
        """Return what a user's password is to be compared with, which takes long by design; then `proved` is told."""
        expected = self._passwords.get(user, self._nobody)
        assert expected is not None, "there are users"
        return expected

    def proved(self, user: str, password: str, is_right: bool, address: str, now_s: float) -> Permissions:
        """Return the permissions of a user whose password was compared with what was `expected`.

        AccessError if it is wrong.
        """
        # Others may have failed meanwhile: a burst of guesses in parallel is no way around the throttle.
        self._check_throttle(address, user, now_s)
        if not is_right or user not in self._users:
            raise self._refusal(address, user, now_s)
        self._remembered[self._remember(user, password)] = user
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        return self._users[user]

    def _remember(self, user: str, password: str) -> bytes:
        text = f"{len(user)}:{user}{password}".encode()
        return hmac.digest(self._remembered_key, text, sha256)

    def _check_throttle(self, address: str, user: str, now_s: float) -> None:
        wait_s = self._throttle.wait_s((address, user), now_s)
        if wait_s > 0:
            raise BusyError(f"too many failed attempts: come back in {wait_s:.0f} s", wait_s)

    def _refusal(self, address: str, user: str, now_s: float) -> AccessError:
        self._throttle.failed((address, user), now_s)
        return AccessError("the credentials are not those of anybody here")

    # -- neighbours ------------------------------------------------------------------------------------------

    @property
    def neighbour_token(self) -> str:
        """What this broker shows to neighbours."""
        return self._neighbours.token

    def check_dialled(self, certificate: frozenset[str] | None, name: str) -> None:
        """Raise AccessError unless who answers is the neighbour, as far as can be known before anything is said."""
        if self.contexts is not None:
            check_name(certificate, name)

    def check_neighbour(
        self, certificate: frozenset[str] | None, name: str, token: str, address: str, now_s: float
    ) -> None:
        """Raise AccessError, or BusyError after too many of these, unless a peer has proved to be the neighbour."""
        if self.contexts is not None:
            check_name(certificate, name)
        if self._neighbours.token:
            if not hmac.compare_digest(token.encode(), self._neighbours.token.encode()):
                self._check_throttle(address, "", now_s)
                raise self._refusal(address, "", now_s)
        elif self.contexts is None and not self._open and not self._neighbours.trusted:
            raise AccessError(
                "a neighbour has to prove who it is (hint: [tls], or a token in [neighbours] at both brokers)"
            )


def _token_name(one: TokenConfig) -> str:
    return f"the token {one.name}"


def _permissions(one: UserConfig | TokenConfig | AnonymousConfig, name: str) -> Permissions:
    return Permissions(
        name,
        read_rules(one.subscribe, f"{name}, subscribe"),
        read_rules(one.publish, f"{name}, publish"),
    )


def _anonymous(config: AnonymousConfig | None, is_open: bool) -> Permissions | None:
    if config is None:
        return EVERYTHING if is_open else None
    return _permissions(config, ANONYMOUS) if config.allow else None
