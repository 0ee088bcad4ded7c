"""Security: who may come in, and with which permissions.

    a client       by a token, or a user's name and password; anonymous as far as configured
    a neighbour    by a certificate with its name, or by the token that all neighbours share

Where no credentials are configured, a broker that listens on this machine alone lets everybody in: it is for trying
things. As soon as there are any, or it listens further, nobody comes in without, unless `[anonymous]` says so, and no
neighbour without proof, unless `[neighbours]` says so.

A refused peer is told one sentence that does not say which part was wrong. A check of a password takes long by design:
`known` decides all that is quick, `expected` says what a password is to be compared with, and `proved` is told the
outcome. `admission.Logins` has the order in which that is done.

A user that fails again and again is not looked at for a while (`Throttle`). A failure fills a bucket, which leaks as
time goes by; while it is full, no password is even looked at. Buckets are by address and user, and there are never more
of them than allowed: the oldest are forgotten first. A token is compared in no time and cannot be guessed, so that the
right one is always let in: whoever shares an address with a peer cannot keep it out by wrong ones.

Permissions are filters: a client may subscribe to what an allowed filter covers, and publish what one matches. A
permission is a filter's text, a table that names its language, or a list of these; it allows what any of them
allows. Families of filters do not mix: a client with a permission in one language only may do nothing in another.

    subscribe = "symbol = 'IBM'"
    publish = ["price > 0", { language = "xpath", filter = "/order" }]

A broker keeps passwords and tokens hashed, so that a configuration that leaks gives nobody entry.

    password    scrypt$<log2 n>$<r>$<p>$<salt>$<key>      slow on purpose: people choose passwords
    token       sha256$<digest>                           made by `covey token` from 32 random bytes, beyond guessing

Whoever compares takes as long for a wrong secret as for a right one, wherever the first difference is.

`Contexts` are those in which a broker listens and dials over TLS. Certificates between brokers are for names of
brokers, not of machines: a neighbour's must carry the broker's name as a DNS name or as its common name, and must be
signed by the configured authority. Nothing older than TLS 1.2 is spoken.
"""

from __future__ import annotations

import hmac
import secrets
import ssl
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import scrypt, sha256
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from covey.core.attributes.filter import AttributeFilter
from covey.core.families import DEFAULT_LANGUAGE, parse
from covey.core.filter import Filter
from covey.errors import AccessError, BusyError, ConfigError, FilterError


class AllowedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A permission as it is configured, where its language is named."""

    filter: str
    language: str = DEFAULT_LANGUAGE


Rule = str | AllowedText
Rules = Rule | list[Rule]


class Allowed:
    """Filters of one or several families, any of which may allow."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        listed = list(filters)
        attributes = [one for one in listed if isinstance(one, AttributeFilter)]
        # A union covers what none of its parts covers alone.
        self.attributes = AttributeFilter.any_of(attributes) if attributes else None
        union: list[Filter] = [] if self.attributes is None else [self.attributes]
        self.filters = tuple(union + [one for one in listed if not isinstance(one, AttributeFilter)])

    def covers(self, filter: Filter) -> bool:
        """Return True only if everything that the filter matches is allowed."""
        return any(one.covers(filter) for one in self.filters)

    def matches(self, event: object) -> bool:
        """Return whether the event is allowed."""
        return any(one.matches(event) for one in self.filters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Allowed) and self.filters == other.filters

    def __hash__(self) -> int:
        return hash(self.filters)

    def __str__(self) -> str:
        return "; ".join(f"{one.family}: {one}" for one in self.filters)

    def __repr__(self) -> str:
        return f"<allowed {self}>"


@dataclass(frozen=True)
class Permissions:
    """What a client may do, and what it is called in errors and reports; None allows everything."""

    name: str = ""
    subscribe: Allowed | None = None
    publish: Allowed | None = None

    def as_dict(self) -> dict[str, str | None]:
        """Return them for a report."""
        return {
            "name": self.name,
            "subscribe": None if self.subscribe is None else str(self.subscribe),
            "publish": None if self.publish is None else str(self.publish),
        }


EVERYTHING = Permissions()


def allows(allowed: Allowed | None, filter: Filter) -> bool:
    """Return whether a permission, None for everything, covers all that a filter matches."""
    return allowed is None or allowed.covers(filter)


def read_rules(rules: Rules | None, place: str) -> Allowed | None:
    """Return what configured rules allow, None for no rules; ConfigError that names the place for a bad filter."""
    if rules is None:
        return None
    filters = []
    for rule in rules if isinstance(rules, list) else [rules]:
        text, language = (rule, DEFAULT_LANGUAGE) if isinstance(rule, str) else (rule.filter, rule.language)
        try:
            filters.append(parse(text, language))
        except FilterError as error:
            raise ConfigError(f"{place}: {error}") from None
    return Allowed(filters)


MAX_SECRET: Final = 1024  # bytes of a password or token

_LOG2_N: Final = 14  # 16 MB and some 50 ms for each check
_BLOCK: Final = 8
_LANES: Final = 1
_SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32
_MAX_MEMORY: Final = 64 << 20


class PasswordHash(NamedTuple):
    """A password as it is kept."""

    log2_n: int
    block: int
    lanes: int
    salt: bytes
    key: bytes

    def __repr__(self) -> str:
        return "<a password's hash>"

    def __str__(self) -> str:
        salt, key = b64encode(self.salt).decode(), b64encode(self.key).decode()
        return f"scrypt${self.log2_n}${self.block}${self.lanes}${salt}${key}"


def hash_password(password: str, salt: bytes | None = None, *, log2_n: int = _LOG2_N) -> PasswordHash:
    """Return a password's hash, with a salt of its own; ConfigError if it is empty or too long."""
    if not 1 <= len(password.encode()) <= MAX_SECRET:
        raise ConfigError(f"a password has from 1 to {MAX_SECRET:,} bytes")
    salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
    return PasswordHash(
        log2_n, _BLOCK, _LANES, salt, _derive(password, log2_n, _BLOCK, _LANES, salt, _KEY_BYTES)
    )


def read_password_hash(text: str) -> PasswordHash:
    """Return the hash that `str` of one gave; ConfigError for any other text, which it does not repeat."""
    try:
        kind, log2_n, block, lanes, salt, key = text.split("$")
        found = PasswordHash(
            int(log2_n), int(block), int(lanes), b64decode(salt, validate=True), b64decode(key, validate=True)
        )
    except (ValueError, Base64Error):
        raise ConfigError("a password's hash cannot be read (hint: make one with covey password)") from None
    needed = 128 * found.block << found.log2_n if 0 < found.log2_n < 32 else _MAX_MEMORY + 1
    sound = kind == "scrypt" and found.block > 0 and 1 <= found.lanes <= 16 and 16 <= len(found.key) <= 64
    if not sound or needed > _MAX_MEMORY or not 8 <= len(found.salt) <= 64:
        raise ConfigError("a password's hash has other parameters than this version allows")
    return found


def hash_of_nobody(like: PasswordHash) -> PasswordHash:
    """Return a hash that no password has, and that takes as long to compare with as another one."""
    return like._replace(
        salt=secrets.token_bytes(len(like.salt)),
        key=secrets.token_bytes(len(like.key)),
    )


def check_password(password: str, known: PasswordHash) -> bool:
    """Return whether this is the password; takes some 50 ms, in which other threads run."""
    if len(password.encode()) > MAX_SECRET:
        return False
    key = _derive(password, known.log2_n, known.block, known.lanes, known.salt, len(known.key))
    return hmac.compare_digest(key, known.key)


def _derive(password: str, log2_n: int, block: int, lanes: int, salt: bytes, size: int) -> bytes:
    return scrypt(
        password.encode(),
        salt=salt,
        n=1 << log2_n,
        r=block,
        p=lanes,
        dklen=size,
        maxmem=_MAX_MEMORY + (1 << 20),
    )


def new_token() -> str:
    """Return a token that nobody guesses."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Return a token as it is kept."""
    return f"sha256${sha256(token.encode()).hexdigest()}"


def read_token_hash(text: str) -> bytes:
    """Return the digest in a token's hash; ConfigError for any other text, which it does not repeat."""
    kind, _, digest = text.partition("$")
    try:
        found = bytes.fromhex(digest)
    except ValueError:
        found = b""
    if kind != "sha256" or len(found) != 32:
        raise ConfigError("a token's hash cannot be read (hint: make one with covey token)")
    return found


def find_token(token: str, known: list[bytes]) -> int | None:
    """Return which of the known digests is the token's, None if none is; all are looked at, whichever it is."""
    digest = sha256(token.encode()[: MAX_SECRET + 1]).digest()
    found = None
    for number, one in enumerate(known):
        if hmac.compare_digest(digest, one):
            found = number
    return found


HANDSHAKE_S: Final = 10.0  # within which a peer has agreed on a cipher


class TlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The section `[tls]`; paths are relative to the configuration's folder."""

    certificate: str  # PEM: the broker's own and what it needs up to the authority
    key: str  # PEM, without a passphrase
    authority: str = ""  # PEM: who signs certificates of neighbours and of clients
    require_certificate: bool = False  # of clients too


class Contexts:
    """The two contexts of a broker; `reload` takes certificates that have been renewed."""

    def __init__(self, config: TlsConfig, folder: Path = Path()) -> None:
        self._config = config
        self._folder = folder
        self.listen = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.dial = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # What is checked is the broker's name, by `check_name`: where it runs does not matter.
        self.dial.check_hostname = False
        self.dial.verify_mode = ssl.CERT_REQUIRED
        if config.require_certificate and not config.authority:
            raise ConfigError("tls.require_certificate needs tls.authority, which signs the certificates")
        if config.authority:
            self.listen.verify_mode = ssl.CERT_REQUIRED if config.require_certificate else ssl.CERT_OPTIONAL
        for context in (self.listen, self.dial):
            context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.reload()

    def take(self, config: TlsConfig, folder: Path) -> None:
        """Use other files, or the same ones as they are now, for links that begin from now on."""
        self._config, self._folder = config, folder
        self.reload()

    def reload(self) -> None:
        """Read the files again, for links that begin from now on; ConfigError if they cannot be used."""
        config = self._config
        certificate, key = self._path(config.certificate), self._path(config.key)
        for context in (self.listen, self.dial):
            try:
                # A key that wants a passphrase must not ask for it at a terminal.
                context.load_cert_chain(certificate, key, password=lambda: "")
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f"tls: the certificate {config.certificate} with the key {config.key} cannot be used: "
                    f"{_reason(error)}"
                ) from None
            if config.authority:
                try:
                    context.load_verify_locations(self._path(config.authority))
                except (OSError, ValueError) as error:
                    raise ConfigError(
                        f"tls: the authority {config.authority} cannot be used: {_reason(error)}"
                    ) from None

    def _path(self, name: str) -> Path:
        return self._folder / name


def names_of(certificate: Any) -> set[str]:
    """Return the DNS names and common names of a certificate, as `ssl` gives it."""
    if not certificate:
        return set()
    names = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
    names.update(
        value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"
    )
    return names


def check_name(certificate: frozenset[str] | None, broker: str) -> None:
    """Raise AccessError unless the peer has shown a certificate with the broker's name, by the names in it."""
    names = certificate or frozenset()
    if broker not in names:
        shown = f"one for {', '.join(sorted(names))!s:.80}" if names else "none"
        raise AccessError(f"a neighbour shows a certificate with the name {broker!r:.40}, not {shown}")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


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
