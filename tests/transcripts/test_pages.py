"""The transcripts in documents are what happens: blocks marked `transcript` are played as the files here are.

A label that is a digest is cut short in documents. To write down what happens now, after the commands of each block:

    COVEY_REWRITE_TRANSCRIPTS=1 .venv/bin/python -m pytest tests/transcripts
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.transcripts.playing import played

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(?<=^```transcript\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
DIGEST = re.compile(r"\b(m[0-9a-f]{6})[0-9a-f]{26}\b")
PAGES = [path for path in sorted(ROOT.glob("docs/**/*.md")) if BLOCK.search(path.read_text(encoding="utf-8"))]


def shown(block: str) -> str:
    """Return a block with what happens now."""
    return DIGEST.sub(r"\1…", played(block))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_transcripts_of_a_page_are_what_happens(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    now = BLOCK.sub(lambda found: shown(found[0]), text)
    if os.environ.get("COVEY_REWRITE_TRANSCRIPTS"):
        path.write_text(now, encoding="utf-8")
        return
    assert now == text, f"{path.name} has changed; see tests/transcripts/test_pages.py for how to rewrite it"
