"""The harness finds what it is there for, says how to see it again, and makes it smaller."""

from __future__ import annotations

import json
import time
from random import Random

import pytest

from covey.errors import CoveyError
from tests.fuzz.__main__ import main
from tests.fuzz.harness import MOST_CPU_S, FailureError, Input, Target, attempt, drawn, run, shrunk


def draw(random: Random) -> Input:
    return tuple(random.randbytes(random.randrange(40)) for _ in range(random.randrange(1, 4)))


def target(read: object, name: str = "toy") -> Target:
    return Target(name, draw, read, ())  # type: ignore[arg-type]


def crash(given: Input) -> None:
    if any(b"\x07" in part for part in given):
        raise KeyError("seven")


def refuse_badly(given: Input) -> None:
    error = CoveyError("fine")
    error.args = ("two\nlines",)
    raise error


def waste(given: Input) -> None:
    assert len(bytearray(128 << 20)) > len(given)


def work(given: Input) -> None:
    """Take too long on any machine, however fast it is."""
    began_s = time.process_time()
    while time.process_time() < began_s + 1.5 * MOST_CPU_S:
        pass


def test_a_crash_is_found_shown_and_made_smaller() -> None:
    counts = run(target(crash), 3, inputs=500)
    (text,) = counts.failures
    assert "KeyError: 'seven'" in text
    assert "python -m tests.fuzz toy --seed 3 --only" in text
    assert "to 1 bytes: (b'\\x07',)" in text


@pytest.mark.parametrize(
    ("read", "kind"), [(refuse_badly, "crash"), (waste, "memory"), (work, "slow"), (crash, "crash")]
)
def test_what_is_a_failure(read: object, kind: str) -> None:
    with pytest.raises(FailureError) as caught:
        attempt(target(read), (b"a", b"\x07"), look=kind == "memory")
    assert caught.value.kind == kind


def test_a_refusal_in_one_line_is_none() -> None:
    def refuse(given: Input) -> None:
        raise CoveyError("no")

    counts = run(target(refuse), 3, inputs=50)
    assert (counts.inputs, counts.read, counts.failures) == (50, 0, [])


def test_a_smaller_input_fails_in_the_same_way() -> None:
    failure = FailureError("crash", "", "KeyError in crash")
    assert shrunk(target(crash), (b"abc", b"de\x07fgh\x07", b""), failure) == (b"\x07",)


def test_the_same_seed_draws_the_same_inputs() -> None:
    assert drawn(target(crash), 5, 17) == drawn(target(crash), 5, 17) != drawn(target(crash), 6, 17)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keywords-text", "--seconds", "0.1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failures"] == []
    assert main(["keywords-text", "--only", "3"]) == 0
    assert "input 3 of seed 1" in capsys.readouterr().out
