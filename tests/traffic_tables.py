"""A network's traffic as the Parquet tables that commands read."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from covey.advisor.traffic import Traffic


def write_tables(traffic: Traffic, directory: Path) -> None:
    """Write topology, subscriptions and events of filters of attributes."""
    tables = {
        "topology": [{"a": a, "b": b, "cost": cost} for a, b, cost in traffic.links],
        "subscriptions": [
            {
                "subscription": f"s{n}",
                "broker": one.broker,
                "language": "attributes",
                "filter": str(one.filter),
            }
            for n, one in enumerate(traffic.subscriptions)
        ],
        "events": [
            {
                "event": f"e{n}",
                "broker": one.broker,
                "language": "attributes",
                "content": json.dumps(one.content),
            }
            for n, one in enumerate(traffic.events)
        ],
    }
    for name, rows in tables.items():
        pq.write_table(pa.Table.from_pylist(rows), directory / f"{name}.parquet")
