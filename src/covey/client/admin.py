"""Admin: the admin pages of live brokers, as programs ask for them, and plans installed through them.

Answers are bounded in size and time, and every mistake is one line.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import msgspec

from covey.errors import ConfigError, CoveyError

MAX_ANSWER: Final = 32 << 20
TIMEOUT_S: Final = 10.0
PAGE: Final = 1_000
STEP_S: Final = 0.2
ASKING: Final = ("probe", "echo")  # whether everything has arrived: not what brokers want


# A metric's values by its first label, which is "" where it has none.
Metrics = Mapping[str, Mapping[str, float]]

_LINE: Final = re.compile(r'(\w+)(?:\{\w+="([^"]*)"[^}]*\})? (\S+)')


def metrics_of(text: str) -> Metrics:
    """Return metrics from Prometheus' text."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        parts = _LINE.fullmatch(line)
        if parts is not None:
            found.setdefault(parts[1], {})[parts[2] or ""] = float(parts[3])
    return found


def total(metrics: Mapping[str, Metrics], name: str) -> int:
    """Return the sum of a metric over all its labels and all brokers."""
    return int(sum(sum(mine.get(name, {}).values()) for mine in metrics.values()))


def control_messages(metrics: Mapping[str, Metrics]) -> int:
    """Return how many messages brokers have sent to tell each other what is wanted and advertised."""
    sent = [mine.get("covey_control_messages_sent_total", {}) for mine in metrics.values()]
    return int(sum(count for mine in sent for kind, count in mine.items() if kind not in ASKING))


class Pages:
    """The admin pages at one address, such as `http://127.0.0.1:7401`; a bare `host:port` is taken as http."""

    def __init__(self, url: str, token: str = "", authority: str = "") -> None:
        self.url = (url if "://" in url else f"http://{url}").rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"{url!r:.80} is no address of admin pages (hint: http://127.0.0.1:7401)")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            context = ssl.create_default_context(cafile=authority or None)
        except OSError as error:
            raise ConfigError(
                f"the authority {authority} cannot be used: {error.strerror or error}"
            ) from None
        # Admin pages are near; whatever proxy the environment names is for others, and must not see the token.
        self._opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))

    def get(self, path: str, **query: object) -> Any:
        """Return a page; CoveyError if it is not to be had."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return self._ask(Request(f"{self.url}{path}?{urlencode(given)}", headers=self._headers))

    def get_bytes(self, path: str, **query: object) -> bytes:
        """Return a page as it is; CoveyError if it is not to be had."""
        return self._fetch(Request(f"{self.url}{path}?{urlencode(query)}", headers=self._headers))

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        """Return the answer to a question; CoveyError if there is none."""
        headers = {**self._headers, "Content-Type": "application/json"}
        return self._ask(
            Request(self.url + path, data=msgspec.json.encode(body), headers=headers, method="POST")
        )

    def post_bytes(self, path: str, body: bytes) -> Any:
        """Send bytes and return the answer; CoveyError if there is none."""
        headers = {**self._headers, "Content-Type": "application/octet-stream"}
        return self._ask(Request(self.url + path, data=body, headers=headers, method="POST"))

    def delete(self, path: str) -> Any:
        """Delete what is at a page and return the answer; CoveyError if there is none."""
        return self._ask(Request(self.url + path, headers=self._headers, method="DELETE"))

    def rows(self, path: str, limit: int | None = None, **query: object) -> Iterator[dict[str, Any]]:
        """Yield the rows of a list, page after page."""
        offset = 0
        while limit is None or offset < limit:
            size = PAGE if limit is None else min(PAGE, limit - offset)
            page = self.get(path, limit=size, offset=offset or None, **query)
            yield from page["rows"]
            offset += len(page["rows"])
            if not page["rows"] or offset >= page["total"]:
                return

    def _ask(self, request: Request) -> Any:
        return self._read(self._fetch(request))

    def _fetch(self, request: Request) -> bytes:
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                data: bytes = answer.read(MAX_ANSWER + 1)
        except HTTPError as error:
            with error:
                said = self._read(error.read(MAX_ANSWER))
            reason = said.get("error", error.reason) if isinstance(said, dict) else error.reason
            raise CoveyError(f"{self.url} answers: {reason!s:.300}") from None
        except URLError as error:
            raise CoveyError(f"no broker shows its pages at {self.url}: {error.reason!s:.200}") from None
        except (OSError, HTTPException) as error:
            raise CoveyError(f"{self.url} does not answer as a broker does: {error!s:.200}") from None
        if len(data) > MAX_ANSWER:
            raise CoveyError(f"{self.url} answers with more than {MAX_ANSWER:,} bytes")
        return data

    def _read(self, data: bytes) -> Any:
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            raise CoveyError(f"{self.url} does not answer with JSON: is it a broker's admin port?") from None


def install_plan(pages: Pages, plan: bytes, wait_s: float = 60.0) -> Any:
    """Install a plan's file, b"" for the overlay's own tree; return what the broker says once it is in use."""
    pages.post_bytes("/planz", plan)
    return wait_for_plan(pages, wait_s)


def roll_back_plan(pages: Pages, wait_s: float = 60.0) -> Any:
    """Take back the plan that was installed at this broker last; return what it says once that is done."""
    pages.delete("/planz")
    return wait_for_plan(pages, wait_s)


def wait_for_plan(pages: Pages, wait_s: float) -> Any:
    """Return what a broker says once its installation has switched, or failed: then CoveyError."""
    until_s = time.monotonic() + wait_s
    while True:
        said = pages.get("/planz")
        installation = said["installation"] or {}
        step = installation.get("step", "done")
        if step == "failed" and installation["reason"] != "rolled back":
            raise CoveyError(f"the plan is not installed: {installation['reason']}")
        if step in ("switched", "back", "done", "failed"):
            return said
        if time.monotonic() >= until_s:
            raise CoveyError(
                f"the plan is not in use yet: {installation['says']} (hint: ask again with /planz)"
            )
        time.sleep(STEP_S)
