"""How large a simulation may be: time and memory of the scenario `burst-80000`, by strategy and by size.

The claim: 80,000 subscriptions over 49 brokers, 20 departures of what covers many others, and 20,000 events take no
more than 5 minutes and 4 GB under each covering strategy. Each run has a process of its own, so that its peak memory is
its own.

    python benchmarks/simulation.py                                  the claim, for four strategies
    python benchmarks/simulation.py --sizes 10000,40000,160000       how time and memory grow
    python benchmarks/simulation.py --strategies covering --json

On a machine with other work, wall time says little; compare processor time.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

LIMIT_S = 300.0
LIMIT_MB = 4096.0

Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description="Time and memory of large simulations.")
    parser.add_argument("--strategies", default="active,lazy,packing,incremental", help="with commas between")
    parser.add_argument("--sizes", default="80000", help="numbers of subscriptions, with commas between")
    parser.add_argument("--scenario", default="burst-80000")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as for covey sim")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds after which a run is given up")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[Row] = []
    warm_up(options.strategies.split(","))
    for strategy in options.strategies.split(","):
        mine: list[Row] = []
        for size in sorted(map(int, options.sizes.split(","))):
            print(f"{strategy}, {size:,} subscriptions", file=sys.stderr)
            mine.append(measure(options.scenario, strategy, size, options.set, options.timeout))
            mine[-1]["cpu_exponent"] = exponent(mine, "cpu_s")
            mine[-1]["memory_exponent"] = exponent(mine, "peak_mb")
        rows += mine
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print_rows(rows)
    return 0 if all("failed" not in row for row in rows) else 1


def warm_up(strategies: list[str]) -> None:
    """Let kernels be compiled and cached, so that no measured run compiles any."""
    for strategy in strategies:
        small = [
            sys.executable,
            "-m",
            "covey",
            "sim",
            "burst",
            "--strategy",
            strategy,
            "--set",
            "workload.subscriptions=1000",
        ]
        subprocess.run(small, capture_output=True, check=False)


def measure(scenario: str, strategy: str, size: int, settings: list[str], timeout_s: float) -> Row:
    """Run the scenario in a process of its own and return its figures."""
    row: Row = {"strategy": strategy, "subscriptions": size}
    command = [sys.executable, "-m", "covey", "sim", scenario, "--strategy", strategy, "--json"]
    for setting in [f"workload.subscriptions={size}", *settings]:
        command += ["--set", setting]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return row | {"failed": f"more than {timeout_s:g} s"}
    if done.returncode:
        return row | {"failed": done.stderr.strip().rpartition("\n")[2][-200:]}
    result = json.loads(done.stdout)
    run, machine = result["run"], result["machine"]
    last = run["samples"][-1]
    return row | {
        "wall_s": machine["wall_s"],
        "cpu_s": machine["cpu_s"],
        "peak_mb": machine["peak_memory_mb"],
        "within": machine["wall_s"] <= LIMIT_S and machine["peak_memory_mb"] <= LIMIT_MB,
        "arrivals": machine["arrivals"],
        "us_an_arrival": round(machine["cpu_s"] / machine["arrivals"] * 1e6, 1),
        "control_messages": last["control_messages"],
        "events_forwarded": last["forwarded_events"],
        "events_delivered": last["delivered_events"],
        "remote_entries": last["remote_entries"],
        "triggered_at_core": " ".join(str(run["by_broker"][broker]["triggered"]) for broker in run["core"]),
    }


def exponent(rows: list[Row], column: str) -> float | None:
    """Return e if the column grows as size**e from the first row to the last; None where that is not known."""
    first, last = rows[0], rows[-1]
    if first is last or not first.get(column) or not last.get(column):
        return None
    growth = last["subscriptions"] / first["subscriptions"]
    return round(math.log(last[column] / first[column]) / math.log(growth), 2)


def print_rows(rows: list[Row]) -> None:
    """Print a table, a line for each run."""
    names = list(dict.fromkeys(name for row in rows for name, value in row.items() if value is not None))
    table = Table(title=f"Limits: {LIMIT_S:g} s, {LIMIT_MB:,.0f} MB", title_justify="left")
    for name in names:
        table.add_column(
            name.replace("_", " "), justify="left" if name in ("strategy", "failed") else "right"
        )
    for row in rows:
        table.add_row(*(text(row.get(name)) for name in names))
    Console(width=200).print(table)


def text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    return "" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
