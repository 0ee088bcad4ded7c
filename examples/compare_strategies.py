"""Compare all routing strategies: one simulated workload, one table.

Subscribers to price intervals at 35 brokers come and go, then a source publishes. The scenario is `quotes`
with fewer symbols and events; one of these runs alone is

    covey sim quotes --set workload.symbols=20 --set workload.events=200 --strategy covering

For a workload of your own, write a scenario (docs/simulator.md) and give its file's name:

    python examples/compare_strategies.py my-own.toml

The table that this prints is in docs/strategies/README.md.
"""

from __future__ import annotations

import sys

import covey
from covey.sim.library import Changes, load
from covey.sim.runner import run

CHANGES = ("workload.symbols=20", "workload.events=200")


def row(scenario: str, strategy: str, settings: tuple[str, ...]) -> str:
    """Run the scenario under a strategy, and return what it came to as a line of a table."""
    end = run(load(scenario, Changes(strategy=strategy, settings=settings))).last
    numbers = (
        end.remote_entries,
        end.remote_entries_max,
        end.control_messages,
        end.forwarded_events,
        end.false_positives,
        end.delivered_events,
    )
    return f"| `{strategy}` | " + " | ".join(f"{number:,}" for number in numbers) + " |"


scenario, settings = (sys.argv[1], ()) if len(sys.argv) > 1 else ("quotes", CHANGES)
print("| strategy | entries | largest table | control messages | events forwarded | for nobody | delivered |")
print("|---|---|---|---|---|---|---|")
for strategy in covey.strategies():
    print(row(scenario, strategy, settings), flush=True)
