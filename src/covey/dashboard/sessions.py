"""Sessions: who is logged in, and may do what. No I/O; time is an argument.

A token is compared in constant time, by its digest. A session is a random name in a cookie, of which only the digest is
kept here; it ends after SESSION_S.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

ADMIN, VIEWER = "admin", "viewer"
SESSION_S: Final = 12 * 3_600.0
MAX_SESSIONS: Final = 1_000
MAX_TOKEN: Final = 1_000  # characters
LEAST_TOKEN: Final = 8


class Sessions:
    """Those who are logged in. `tokens` are the roles, by token."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._roles = [(_digest(token), role) for token, role in tokens.items()]
        self._sessions: dict[bytes, tuple[str, float]] = {}  # role, and until when

    def log_in(self, token: str, now_s: float) -> tuple[str, str] | None:
        """Return a new session's name and role, or None for a token that is not known."""
        digest, found = _digest(token[:MAX_TOKEN]), None
        for known, role in self._roles:  # all of them, so that the time says nothing
            if hmac.compare_digest(digest, known):
                found = role
        if found is None:
            return None
        self._sessions = {key: one for key, one in self._sessions.items() if one[1] > now_s}
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[_digest(name)] = found, now_s + SESSION_S
        return name, found

    def role(self, name: str, now_s: float) -> str | None:
        """Return the role of a session, None if it is none."""
        found = self._sessions.get(_digest(name[:MAX_TOKEN]))
        return found[0] if found is not None and found[1] > now_s else None

    def log_out(self, name: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(name[:MAX_TOKEN]), None)


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
