"""The planner: a process of its own that has Spark running, so that a plan is there soon after it is asked for.

    python -m covey.demo.planner DIRECTORY

Where nothing is compiled yet, others take one to two minutes for it. Meanwhile this one rehearses: it plans a small
network, for which it compiles what only planning needs, and Java gets to know its work. Then each line on its standard
input, {"input_dir": …}, is a plan to make. What it says are lines of JSON, too:

    {"says": …}        what it does
    {"ready": true}    it can begin
    {"plan": …}        the plan's file, with "explain" and "seconds"
    {"error": …}       in one line

The end of its input ends it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from covey.errors import CoveyError

MASTER: Final = "local[1]"
METHOD: Final = "regions-cheapest"
COMPILED_S: Final = 8.0  # of processor time: whoever has used more had to compile
REHEARSED: Final = 40  # subscriptions and events of the rehearsal


def say(**what: Any) -> None:
    """Tell whoever started this."""
    print(json.dumps(what), flush=True)


def compile_documents() -> None:
    """Compile what indexes of keywords and XPath need, while somebody else compiles what attributes need."""
    from covey.core.families import parse
    from covey.matching.index import Index

    for text, language, event in (
        ("a and b or c", "keywords", frozenset("abc")),
        ("/a[b]", "xpath", "<a><b/></a>"),
    ):
        index = Index()
        filter = parse(text, language)
        index.add_batch([0], [filter], ["link"])
        index.links_batch([event])
        index.match(event)
        for ask in (index.covering, index.covered, index.overlapping):
            ask(filter)
        index.remove_batch([0])


def rehearse(directory: Path) -> None:
    """Plan a small network of keywords, so that Spark and what it runs is loaded."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    from covey.demo.scene import CITIES, LINKS

    source = directory / "rehearsal"
    source.mkdir(parents=True)
    brokers = [list(CITIES)[number % len(CITIES)] for number in range(REHEARSED)]
    numbers = [str(number) for number in range(REHEARSED)]
    tables = {
        "topology": {"a": [a for a, _ in LINKS], "b": [b for _, b in LINKS], "cost": [1.0] * len(LINKS)},
        "subscriptions": {
            "subscription": numbers,
            "broker": brokers,
            "language": ["keywords"] * REHEARSED,
            "filter": [f"w{number % 7}" for number in range(REHEARSED)],
        },
        "events": {
            "event": numbers,
            "publisher": numbers,
            "broker": brokers,
            "language": ["keywords"] * REHEARSED,
            "content": [json.dumps([f"w{number % 5}", "news"]) for number in range(REHEARSED)],
        },
    }
    for name, columns in tables.items():
        parquet.write_table(pa.table(columns), source / f"{name}.parquet")
    make(source, directory / "rehearsed", directory / "spark.log")


def make(input_dir: Path, out_dir: Path, log: Path, told: bool = False) -> dict[str, Any]:
    """Plan; return what is to be said of it."""
    from covey.pipeline.jobs import Progress, Request, plan

    def on_progress(step: Progress) -> None:
        if told and step.seconds is None and not step.note:
            say(says=f"planning on Spark: {step.number} of {step.count}, {step.stage}")

    begun_s = time.monotonic()
    out_dir.mkdir(parents=True, exist_ok=True)
    outcome = plan(Request(input_dir, out_dir, MASTER, METHOD, aggregate=False, log=log), on_progress)
    return {
        "plan": str(outcome.plan_file),
        "explain": outcome.explain,
        "seconds": time.monotonic() - begun_s,
        "set_aside": sum(sum(reasons.values()) for reasons in outcome.quarantined.values()),
    }


def main(directory: Path) -> None:
    """Rehearse, then plan what is asked for."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "spark.log"
    try:
        say(says="compiling kernels for documents and words")
        compile_documents()
        say(says="starting Spark")
        from covey.pipeline.session import session

        spark = session(MASTER, log)
        if time.process_time() > COMPILED_S:
            say(says="rehearsing a small plan on Spark")
            rehearse(directory)
        say(ready=True)
        for number, line in enumerate(sys.stdin):
            asked = json.loads(line)
            say(**make(Path(asked["input_dir"]), directory / f"plan-{number}", log, told=True))
        spark.stop()
    except CoveyError as error:
        say(error=str(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
