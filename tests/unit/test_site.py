"""The documents as a site: it builds without a warning, needs nothing from elsewhere, and has every public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from checks.site import TOP, led, page_of, source_of

import covey
from covey import pipeline

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:script|img|iframe)\b[^>]*?\bsrc=\"?([^\s\">]+)|<link\b[^>]*?\bhref=\"?([^\s\">]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        for groups in LOADED.findall(page.read_text(encoding="utf-8")):
            assert not re.match(r"(https?:)?//", "".join(groups)), f"{page.name} loads {groups}"


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in sorted((site / "api").glob("*.html")))
    documented = {one.rpartition(".")[2] for one in re.findall(r'id="(covey\.[\w.]+)"', text)}
    public = {name for name in covey.__all__ if name not in {"__version__", "strategies"}}
    assert sorted(public - documented) == []
    assert sorted({*pipeline.__all__} - documented) == []


@pytest.mark.parametrize(
    ("page", "text", "becomes"),
    [
        ("clients.md", "[a](filters.md#values)", "[a](filters.md#values)"),
        ("clients.md", "[a](../ARCHITECTURE.md)", "[a](architecture.md)"),
        ("tutorials/network.md", "[a](../../examples/mesh/trade.py)", "[a](../examples/mesh/trade.py.md)"),
        ("start.md", "![a](docs/images/demo.svg)", "![a](images/demo.svg)"),
        ("start.md", "[a](docs/README.md)", "[a](README.md)"),
        ("examples/README.md", "[a](mesh/topology.toml)", "[a](mesh/topology.toml.md)"),
        ("clients.md", "[the source](../src/covey/cli.py)", "the source"),
        ("clients.md", "[a](#there) [b](https://example.org)", "[a](#there) [b](https://example.org)"),
        ("clients.md", "```\n[a](../ARCHITECTURE.md)\n```", "```\n[a](../ARCHITECTURE.md)\n```"),
    ],
)  # fmt: skip
def test_links_lead_to_pages_of_the_site(page: str, text: str, becomes: str) -> None:
    assert led(text, page) == becomes


def test_a_page_and_its_file_know_each_other() -> None:
    for path in (
        *TOP,
        "docs/clients.md",
        "docs/strategies/README.md",
        "examples/README.md",
        "examples/mesh/trade.py",
    ):
        page = page_of(path)
        assert page is not None
        assert source_of(page) == path
