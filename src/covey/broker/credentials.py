"""Passwords and tokens as a broker keeps them: hashed, so that a configuration that leaks gives nobody entry.

    password    scrypt$<log2 n>$<r>$<p>$<salt>$<key>      slow on purpose: people choose passwords
    token       sha256$<digest>                           made by `covey token` from 32 random bytes, beyond guessing

Whoever compares takes as long for a wrong secret as for a right one, wherever the first difference is.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from hashlib import scrypt, sha256
from typing import Final, NamedTuple

from covey.errors import ConfigError

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
