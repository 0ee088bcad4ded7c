"""Structured logs: one line for each event in a broker's life, as JSON for programs or as pairs for people.

    {"time": "2026-01-31T12:00:00.123Z", "level": "info", "event": "link up", "broker": "a", "link": "b"}
    2026-01-31T12:00:00.123Z info event="link up" broker=a link=b

A line says what happened to whom and why. It never has what clients publish, subscribe to, or prove themselves with.

    say(log, logging.INFO, "link up", broker="a", link="b")
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

import msgspec

JSON, LOGFMT = FORMATS = ("json", "logfmt")
LEVELS: Final = ("debug", "info", "warning", "error")
MAX_VALUE: Final = 400  # characters of one value: errors can quote what peers say


def say(log: logging.Logger, level: int, event: str, /, **fields: object) -> None:
    """Log an event of life with its fields; those that are None or empty are left out."""
    if log.isEnabledFor(level):
        log.log(level, "%s", event, extra={"covey_fields": fields})


class _Structured(logging.Formatter):
    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        """Return what stands on the line, in its order."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        found: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": _bounded(record.getMessage()),
        }
        for name, value in getattr(record, "covey_fields", {}).items():
            if value is not None and value != "":
                found[name] = value if isinstance(value, bool | int | float) else _bounded(str(value))
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)  # a bug of ours: all of it
        return found


class JsonFormatter(_Structured):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return msgspec.json.encode(self.fields(record)).decode()


class LogfmtFormatter(_Structured):
    """Time and level, then pairs."""

    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
        time, level = fields.pop("time"), fields.pop("level")
        return f"{time} {level} " + " ".join(f"{name}={_pair(value)}" for name, value in fields.items())


def configure(level: str, format: str = LOGFMT, stream: TextIO | None = None) -> logging.Handler:
    """Let everything of Covey be logged to a stream, standard error by default; return the handler that does it."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if format == JSON else LogfmtFormatter())
    root = logging.getLogger("covey")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
    return handler


def _bounded(text: str) -> str:
    # Lone surrogates, which a peer may have sent, cannot be written.
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def _pair(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    plain = text.isprintable() and not set(text) & set(' "=') and bool(text)
    return text if plain else msgspec.json.encode(text).decode()
