"""axe-core, the usual rules of accessibility, from npm: fetched by the version and the digest that stand here."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest
from tests.tools import tool

VERSION: Final = "4.14.0"
SHA256: Final = "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af"
TAGS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def fetch(folder: Path) -> str:
    """Return the program's text; the test is skipped where npm cannot fetch it, or fails if all tools must be there."""
    npm = tool("npm", "Debian's package npm")
    command = [
        npm,
        "pack",
        f"axe-core@{VERSION}",
        "--prefer-offline",
        "--silent",
        "--pack-destination",
        str(folder),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder)
        why = done.stderr.strip() if done.returncode else ""
    except subprocess.TimeoutExpired:
        why = "npm did not answer"
    file = folder / f"axe-core-{VERSION}.tgz"
    if not file.exists():
        reason = f"axe-core {VERSION} cannot be fetched: {why:.200}"
        if os.environ.get("COVEY_ALL_TOOLS"):
            pytest.fail(reason)
        pytest.skip(reason)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == SHA256
    with tarfile.open(file) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def violations(page: Any, program: str) -> list[str]:
    """Return what a page does against the rules: rule, element and why, a line each."""
    page.evaluate(program)
    found = page.evaluate("(tags) => axe.run(document, {runOnly: tags}).then((one) => one.violations)", TAGS)
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']}: {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]
