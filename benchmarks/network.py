"""Events through real brokers on this machine, beside other servers that are installed, as JSON lines.

    python benchmarks/network.py [--events 200000]

A line says how loaded the machine was when a measurement ended: figures of one that others use mean little.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from covey.bench import network


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=network.EVENTS)
    parser.add_argument("--filters", type=int, default=network.FILTERS)
    chosen = parser.parse_args()
    for row in network.run(
        lambda news: print(news, file=sys.stderr), events=chosen.events, filters=chosen.filters
    ):
        print(json.dumps({**row, "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
