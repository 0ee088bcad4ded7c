"""What spark-submit is given: plans from one directory to another, on the master that is the third argument."""

from __future__ import annotations

import sys
from pathlib import Path

from covey.pipeline.jobs import Progress, Request, plan


def show(step: Progress) -> None:
    if step.seconds is not None:
        print(f"{step.number}/{step.count} {step.stage}: {step.seconds:.1f} s  {step.detail}", flush=True)


if __name__ == "__main__":
    source, out, master = sys.argv[1:]
    request = Request(Path(source), Path(out), master=master, method="held-out", aggregate=False)
    print(plan(request, show).explain)
