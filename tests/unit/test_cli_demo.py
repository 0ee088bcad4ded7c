"""The demonstration: small, it still checks itself; and it notices a wrong answer."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from covey import demo


def test_the_demo_is_right() -> None:
    output = io.StringIO()
    assert demo.run(Console(file=output, width=120), subscriptions=2000)
    assert "Every answer was checked and right" in output.getvalue()
    assert "/news//item[title]/body" in output.getvalue()
    assert "events forwarded" in output.getvalue()


def test_the_demo_notices_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(demo.Demo, "naive", lambda self, quote: {0})
    assert not demo.run(Console(file=output, width=120), subscriptions=500)
    assert "Wrong answers" in output.getvalue()
