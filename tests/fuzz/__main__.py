"""Run a target for some time: python -m tests.fuzz TARGET --seconds 600 --seed 1; `all` runs each for that long.

It ends with 1 if an input fails, says which, and how to see it again. --only runs one input of a seed.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from tests.fuzz.harness import FailureError, attempt, drawn, report, run
from tests.fuzz.targets import TARGETS


def main(words: list[str]) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="the number of one input of the seed")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    names = list(TARGETS) if asked.target == "all" else [asked.target]
    code = 0
    for name in names:
        target = TARGETS[name]
        if asked.only is not None:
            given = drawn(target, asked.seed, asked.only)
            try:
                took_s = attempt(target, given)
            except FailureError as failure:
                print(report(target, asked.seed, asked.only, given, failure))
                code = 1
            else:
                print(
                    f"{name}: input {asked.only} of seed {asked.seed} takes {took_s * 1e3:.1f} ms and is no failure"
                )
            continue
        counts = run(target, asked.seed, seconds=asked.seconds)
        if asked.json:
            print(json.dumps({"target": name, "seed": asked.seed, **asdict(counts)}))
        else:
            print(
                f"{name}: seed {asked.seed}, {counts.inputs:,} inputs, {counts.read:,} of them read, "
                f"the others refused; slowest {counts.slowest_s * 1e3:.1f} ms (input {counts.slowest}); at most "
                f"{counts.peak_bytes / (1 << 20):.1f} MiB; {len(counts.failures)} failures",
                flush=True,
            )
        for one in counts.failures:
            print(one, flush=True)
        code = code or bool(counts.failures)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
