"""Every error that Covey raises on purpose.

    CoveyError
    ├── FilterError      a filter's text, wire form or parts are not acceptable
    ├── EventError       an event is not a mapping of names to scalars, a document or a set of words
    ├── ProtocolError    a peer sent what the protocol does not allow
    ├── AccessError      somebody may not do what they ask for, or has not proved who they are
    ├── ConfigError      a setting, file or command line is wrong
    │   └── MissingExtraError    a part of the package is used that is not installed (also an ImportError)
    ├── PlanError        a plan cannot be used
    ├── LinkError        no broker can be reached, or the link to it is gone
    │   └── BusyError    a broker has no room or no time for it now; later it may (clients try again by themselves)
    ├── RefusedError     a broker understood a wish and does not grant it (`retry` says whether it may later)
    ├── TimedOutError    no answer came within the time that was given (also a TimeoutError)
    ├── StoreError       something could not be kept on disk, or read from there
    └── SlowError        a subscription got events faster than its program took them

Each is the caller's or a peer's fault and its text is one line for people: what is wrong, where, and a
hint. What is quoted in it may come from anywhere: `CoveyError` escapes what is not printable and cuts what is too long.
A broken invariant of our own is an assertion, never one of these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

EXCERPT_LENGTH = 60
LONGEST = 1_000  # characters of an error


class CoveyError(Exception):
    """Base of all errors raised on purpose; its text is one printable line."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(one_line(one) if isinstance(one, str) else one for one in args))


class FilterError(CoveyError):
    """A filter is not acceptable.

    `position` counts characters of the text from 0 and is None when the filter did not come from text;
    `expected` says what could have stood there; `hint` says what to try.
    """

    def __init__(
        self,
        problem: str,
        *,
        text: str | None = None,
        position: int | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.problem = problem
        self.text = text
        self.position = position
        self.expected = expected
        self.hint = hint
        super().__init__(self._line())

    def _line(self) -> str:
        parts = [self.problem]
        if self.position is not None:
            parts.append(f" at character {self.position + 1}")
            if self.text is not None:
                parts.append(f", near {excerpt(self.text, self.position)}")
        if self.expected:
            parts.append(f"; expected {self.expected}")
        if self.hint:
            parts.append(f" (hint: {self.hint})")
        return "".join(parts)


class EventError(CoveyError):
    """An event cannot be used as one."""


class ProtocolError(CoveyError):
    """A peer sent what the protocol does not allow."""


class AccessError(CoveyError):
    """Somebody may not do what they ask for, or has not proved who they are."""


class ConfigError(CoveyError):
    """A setting, a file or a command line is wrong."""


class MissingExtraError(ConfigError, ImportError):
    """A part of the package is used whose extra is not installed."""


class PlanError(CoveyError):
    """A plan cannot be used."""


class LinkError(CoveyError):
    """No broker can be reached, or the link to it is gone."""


class BusyError(LinkError):
    """A broker has no room or no time for somebody now; `wait_s` is after how many seconds it may."""

    def __init__(self, reason: str, wait_s: float = 1.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class RefusedError(CoveyError):
    """A broker understood a wish and does not grant it.

    `refusals` has the reason for each event that was refused, by its number: a client counts what it publishes from 1.
    It is empty if the wish was another one.

    `kind` is "busy" if the broker has no time for it now, "full" if its store has no room, and empty if it would refuse
    the same again. `retry` is true if it may grant it later; of several events, if that holds for all of them, and
    `retryable` has the numbers of those for which it does.
    """

    def __init__(
        self,
        reason: str,
        refusals: Mapping[int, str] | None = None,
        kind: str = "",
        retryable: Collection[int] | None = None,
    ) -> None:
        super().__init__(reason)
        self.refusals = refusals or {}
        self.kind = kind
        self.retry = kind in ("busy", "full")
        self.retryable = frozenset(self.refusals if self.retry else ()) | frozenset(retryable or ())


class TimedOutError(CoveyError, TimeoutError):
    """No answer came within the time that was given."""


class StoreError(CoveyError):
    """Something could not be kept on disk, or read from there."""


class SlowError(CoveyError):
    """A subscription got events faster than its program took them, and some are lost."""


def one_line(text: str) -> str:
    """Return a text as one printable line: line breaks as spaces, other characters as escapes, at most `LONGEST`."""
    text = " ".join(text.splitlines())
    shown = (
        text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
    )
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def excerpt(text: str, position: int) -> str:
    """Return the part of `text` around `position`, quoted, short enough for one line."""
    start = max(0, position - EXCERPT_LENGTH // 3)
    piece = text[start : start + EXCERPT_LENGTH]
    before = "…" if start > 0 else ""
    after = "…" if start + EXCERPT_LENGTH < len(text) else ""
    return f"{before}{piece!r}{after}"
