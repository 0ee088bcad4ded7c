"""Plans of a running network, changed through the admin pages of any one broker."""

from __future__ import annotations

import time
from typing import Any, Final

from covey.client.pages import Pages
from covey.errors import CoveyError

STEP_S: Final = 0.2


def install(pages: Pages, plan: bytes, wait_s: float = 60.0) -> Any:
    """Install a plan's file, b"" for the overlay's own tree; return what the broker says once it is in use."""
    pages.post_bytes("/planz", plan)
    return wait_for(pages, wait_s)


def roll_back(pages: Pages, wait_s: float = 60.0) -> Any:
    """Take back the plan that was installed at this broker last; return what it says once that is done."""
    pages.delete("/planz")
    return wait_for(pages, wait_s)


def wait_for(pages: Pages, wait_s: float) -> Any:
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
