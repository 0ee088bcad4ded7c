"""What spark-submit is given: plans from one directory to another, where spark-submit says."""

from __future__ import annotations

import sys
from pathlib import Path

from covey.pipeline.jobs import Progress, Request, plan
from covey.pipeline.session import running


def show(step: Progress) -> None:
    if step.seconds is not None:
        print(f"{step.number}/{step.count} {step.stage}: {step.seconds:.1f} s  {step.detail}", flush=True)


if __name__ == "__main__":
    source, out = sys.argv[1:]
    outcome = plan(Request(Path(source), Path(out), method="held-out", aggregate=False), show)
    print(outcome.explain)
    print(f"ran on {outcome.master}")
    spark = running()
    assert spark is not None
    for name in (
        "spark.ui.enabled",
        "spark.sql.session.timeZone",
        "spark.app.name",
        "spark.sql.shuffle.partitions",
    ):
        print(f"{name} is {spark.conf.get(name)}")
