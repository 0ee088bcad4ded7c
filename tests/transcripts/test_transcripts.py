"""Transcripts: what a strategy says, message by message, in its basic moves. They are for reading.

A transcript is a text file of commands, each line beginning with `>`, and below each command what follows from it:
messages and deliveries in the order of their arrival. Lines that begin with `#` are remarks. To rewrite the files after
a change of behaviour, and then to read the difference:

    COVEY_REWRITE_TRANSCRIPTS=1 .venv/bin/python -m pytest tests/transcripts
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.transcripts.playing import played

import covey

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_is_what_happens(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    now = played(text)
    if os.environ.get("COVEY_REWRITE_TRANSCRIPTS"):
        path.write_text(now, encoding="utf-8")
        return
    assert now == text, (
        f"{path.name} has changed; see tests/transcripts/test_transcripts.py for how to rewrite it"
    )


def test_every_strategy_has_a_transcript() -> None:
    assert [name for name in covey.strategies() if not (HERE / f"{name}.txt").exists()] == []
