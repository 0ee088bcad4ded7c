"""Plan from logs of your own, on a Spark cluster of your own.

Logs of web servers say what happened where; a list says which team wants to hear of what; a third file has the links
between sites. A few lines of PySpark turn them into the tables that Covey reads (docs/pipeline.md), and
`covey.pipeline.jobs.plan` plans from these.

    python examples/plan_from_logs.py                           makes logs and plans from them, on this machine
    python examples/plan_from_logs.py LOGS OUT                  plans from yours
    spark-submit --master spark://head:7077 examples/plan_from_logs.py LOGS OUT

On a cluster LOGS and OUT are directories that all workers see, and every worker has Covey installed. OUT/plan.json is
the plan: `covey install` gives it to a live network.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from covey.pipeline.jobs import Request, plan
from covey.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SITES = ["paris", "lyon", "nice", "milan", "geneva", "basel"]
SECTIONS = ["shop", "news", "mail", "maps", "games", "search"]  # one a site


def make_logs(folder: Path, lines: int = 300, seed: int = 1) -> None:
    """Write logs as a web site might have them: a ring of sites, each with a section that its neighbours watch."""
    chance = random.Random(seed)
    with (folder / "access.jsonl").open("w", encoding="utf-8") as file:
        for number in range(lines):
            place = chance.randrange(len(SITES))
            line = {
                "id": f"r{number}",
                "time": f"2026-05-04T10:{number // 60:02}:{number % 60:02}Z",
                "site": SITES[place],
                "request": f"GET /{SECTIONS[place]}/{chance.randrange(100)} HTTP/1.1",
                "status": chance.choice([200, 200, 200, 404, 500]),
                "ms": chance.randrange(5, 900),
            }
            file.write(json.dumps(line) + "\n")
    with (folder / "wanted.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["team", "site", "wanted"])
        for place, section in enumerate(SECTIONS):
            for neighbour in (place - 1, place, (place + 1) % len(SITES)):
                site, slow = SITES[neighbour], chance.randrange(100, 300)
                rows.writerow([f"{section} operators", site, f"section = '{section}' and status >= 500"])
                rows.writerow([f"{section} speed", site, f"section = '{section}' and ms > {slow}"])
    with (folder / "network.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["from", "to", "cost"])
        rows.writerows([a, b, 1] for a, b in zip(SITES, SITES[1:] + SITES[:1], strict=True))


def tables(spark: SparkSession, logs: Path) -> dict[str, DataFrame]:
    """Return Covey's tables, from what the files in `logs` have."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    access = spark.read.json(str(logs / "access.jsonl"))
    events = access.select(
        F.col("id").alias("event"),
        F.col("site").alias("broker"),
        F.to_timestamp("time").alias("at"),
        F.lit("attributes").alias("language"),
        F.to_json(
            F.struct(F.regexp_extract("request", r"^\w+ /(\w+)", 1).alias("section"), "status", "ms")
        ).alias("content"),
    )
    wanted = spark.read.csv(str(logs / "wanted.csv"), header=True)
    subscriptions = wanted.select(
        F.concat_ws(" at ", "team", "site").alias("subscription"),
        F.col("site").alias("broker"),
        F.lit("attributes").alias("language"),
        F.col("wanted").alias("filter"),
    )
    network = spark.read.csv(str(logs / "network.csv"), header=True)
    topology = network.select(
        F.col("from").alias("a"), F.col("to").alias("b"), F.col("cost").cast("double").alias("cost")
    )
    return {"topology": topology, "subscriptions": subscriptions, "events": events}


def plan_from(logs: Path, out: Path, master: str | None, method: str = "best") -> str:
    """Write the tables and the plan into `out`, and return why it is this plan."""
    out.mkdir(parents=True, exist_ok=True)
    spark = session(master, out / "spark.log")
    for name, table in tables(spark, logs).items():
        table.write.mode("overwrite").parquet(str(out / "tables" / name))
    outcome = plan(Request(out / "tables", out, method=method), spark=spark)
    for table_name, reasons in outcome.quarantined.items():
        for reason, count in reasons.items():
            print(f"{count} rows of {table_name} were set aside: {reason}")
    return outcome.explain


def main(words: Sequence[str] | None = None) -> None:
    """Plan from the logs that are named, or from some that are made."""
    parser = argparse.ArgumentParser(description="Plan dissemination trees from logs.")
    parser.add_argument("logs", nargs="?", type=Path, help="has access.jsonl, wanted.csv and network.csv")
    parser.add_argument("out", nargs="?", type=Path, help="gets the tables and the plan")
    parser.add_argument("--master", help="where Spark runs; by default where spark-submit says, or here")
    parser.add_argument("--method", default="best", help="as in `covey plan --method`")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        if given.logs is None:
            make_logs(Path(folder))
        print(
            plan_from(
                given.logs or Path(folder), given.out or Path(folder, "plan"), given.master, given.method
            )
        )


if __name__ == "__main__":
    main()
