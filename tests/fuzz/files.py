"""Files: plans, the kept state of plans, configurations, and the tables that ingestion and the coordinator read."""

from __future__ import annotations

import contextlib
import gzip
import json
import tempfile
import zlib
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as parquet

from covey.broker.config import is_topology, read_config, read_toml, topology_of
from covey.broker.plans import FILE, keep_state, load_state
from covey.broker.security import hash_password, hash_token
from covey.coordinator.samples import Times
from covey.coordinator.samples import check as check_samples
from covey.core.families import LANGUAGES
from covey.errors import ConfigError, PlanError
from covey.pipeline.ingest import REASON, judge_batches
from covey.pipeline.inputs import read_batches
from covey.pipeline.schemas import INPUTS, SOURCE
from covey.pipeline.text_tables import header_of, pieces_of
from covey.planning.plan import FORMAT, VERSION, Plan, PlannedTree, _checksum
from covey.protocol.control import PlanState
from tests.fuzz.filters import ENCODED, TEXTS
from tests.fuzz.harness import Input, Target
from tests.fuzz.mutation import changed, mutated, some_value

_FOLDER: Final = tempfile.TemporaryDirectory(prefix="covey-fuzz-")
FOLDER: Final = Path(_FOLDER.name)

# -- plans ---------------------------------------------------------------------------------------------------

SQUARE: Final = (("a", "b", 1.0), ("a", "d", 2.5), ("b", "c", 1.0), ("c", "d", 1.0))


def some_plan() -> Plan:
    """Return a plan that has something of everything."""
    trees = (
        PlannedTree("a", (("a", "b"), ("b", "c"), ("c", "d"))),
        PlannedTree("d", (("a", "b"), ("a", "d"), ("c", "d"))),
    )
    return Plan(
        "groups", 7, tuple("abcd"), SQUARE, trees,
        groups={("a", ENCODED[0]): 1, ("c", ENCODED[-1]): 0},
        home={"b": 1},
        aggregation=({"broker": "a", "tree": 1, "filter": "a > 1"},),
        predictions={"groups": {"cost": 12.5}},
        basis={"events": 100},
    )  # fmt: skip


@cache
def plan_values() -> dict[str, Any]:
    """Return the plan as its file has it, with witnesses."""
    plan: dict[str, Any] = json.loads(some_plan().encode())["plan"]
    plan["witnesses"] = [
        {"publisher": "a", "language": language, "content": content, "wanted": {"0": ["b"], "1": ["c", "d"]}}
        for language, content in (("attributes", '{"a": 1}'), ("keywords", '["a"]'), ("xpath", "<a/>"))
    ]
    return plan


def _plan_file(plan: Any) -> bytes:
    try:
        checksum = _checksum(plan)
    except PlanError:
        checksum = "?"
    return json.dumps({"format": FORMAT, "version": VERSION, "checksum": checksum, "plan": plan}).encode()


@cache
def state_file() -> bytes:
    """Return what a broker keeps of its plans."""
    keep_state(FOLDER, PlanState(3, "a", 1, {0: b"", 1: some_plan().encode()}))
    return (FOLDER / FILE).read_bytes()


def draw_plan(draw: Random) -> Input:
    """Return a plan with other values and the right checksum, a file with other bytes, or a kept state."""
    lot = draw.random()
    if lot < 0.7:
        plan = plan_values()
        for _ in range(draw.randrange(1, 4)):
            plan = changed(draw, plan)
        return (b"plan", _plan_file(plan))
    if lot < 0.9:
        return (b"plan", mutated(draw, [_plan_file(plan_values()), some_plan().encode()]))
    return (b"state", mutated(draw, [state_file()]))


def read_plan(given: Input) -> None:
    """Read it; a plan that is read can be used, and is written as it was read."""
    if len(given) != 2:
        return
    kind, data = given
    if kind == b"state":
        (FOLDER / FILE).write_bytes(data)
        load_state(FOLDER)
        return
    plan = Plan.decode(data)
    assert Plan.decode(plan.encode()).encode() == plan.encode()
    trees = plan.to_tree_plan()
    assert trees is not None


# -- configuration -------------------------------------------------------------------------------------------

TOML: Final = (
    f"""
name = "paris"
port = 7400
strategy = "covering"
lease_s = 2.5
data_dir = "data"
[durable]
events = 1000
[client_bounds]
policy = "drop-oldest"
events = 10
[[links]]
name = "lyon"
address = "10.0.0.2:7400"
priority = 2
[[links]]
name = "nice"
[[tokens]]
name = "till"
hash = "{hash_token("x")}"
[anonymous]
subscribe = "FALSE"
[neighbours]
token = "between us"
[admin]
port = 0
token = "{hash_token("y")}"
""",
    """
first_port = 7400
first_admin_port = 7500
brokers = ["nice"]
links = [["paris", "lyon"], { ends = ["paris", "lille"], priority = 2 }]
[settings]
strategy = "merging"
[broker.paris]
lease_s = 2
[broker.lyon.durable]
age_s = 60
""",
    f"""
name = "with-users"  # whose check takes 50 ms by design
[[users]]
name = "ann"
password = "{hash_password("horse", bytes(16), log2_n=4)}"
subscribe = "symbol = 'IBM'"
publish = ["price > 0", {{ language = "xpath", filter = "/order" }}]
""",
    """
name = "b"
host = "0.0.0.0"
[neighbours]
trusted = true
[options]
merge = "perfect"
[tls]
certificate = "paris.pem"
key = "paris.key"
authority = "ca.pem"
""",
)
VARIABLES: Final = (
    b"COVEY_NAME=x",
    b"COVEY_LINKS=a=1.2.3.4:5,b",
    b"COVEY_LEASE_S=1e9",
    b"COVEY_DURABLE_EVENTS=5",
)


def _toml(value: Any) -> str:
    """Return a value as TOML has it inline; what it cannot have, nevertheless."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def draw_configuration(draw: Random) -> Input:
    """Return a file with other bytes or other values, and sometimes variables of the environment."""
    corpus = [one.encode() for one in (*TOML[:2], *TOML)]
    if draw.random() < 0.5:
        data = mutated(draw, corpus)
    else:
        lines = draw.choices(TOML, (3, 3, 1, 3))[0].splitlines()
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(lines))
            key, equals, _ = lines[at].partition(" = ")
            if equals and draw.random() < 0.8:
                lines[at] = f"{key} = {_toml(some_value(draw))}"
            else:
                lines.insert(at, draw.choice(lines))
        data = "\n".join(lines).encode(errors="surrogatepass")
    given = [mutated(draw, VARIABLES) for _ in range(draw.randrange(3))] if draw.random() < 0.2 else []
    return (data, *given)


def read_configuration(given: Input) -> None:
    """Read a broker's configuration, or that of an overlay, as the commands do."""
    if not given:
        return
    file = FOLDER / "broker.toml"
    file.write_bytes(given[0])
    pairs = [one.decode(errors="replace").partition("=") for one in given[1:]]
    values = read_toml(file)
    if is_topology(values):
        topology = topology_of(values, str(file))
        topology.configs({name: 1_000 + number for number, name in enumerate(topology.brokers)})
    else:
        read_config(file, {name: value for name, _, value in pairs})


# -- samples -------------------------------------------------------------------------------------------------


@cache
def rows() -> dict[str, list[dict[str, Any]]]:
    """Return good rows of every table of the input."""
    contents = {
        "attributes": '{"a": 1, "b": {"c": "x"}}',
        "xpath": "<a><b k='1'/></a>",
        "keywords": '["a", "b"]',
    }
    filters = [(language, text) for language in LANGUAGES for text in TEXTS[language]]
    at = "2026-01-02T03:04:05.678+01:00"
    return {
        "topology": [{"a": "a", "b": "b", "cost": 1.5}, {"a": "b", "b": "c", "cost": None}],
        "subscriptions": [
            {"subscription": f"s{n}", "broker": "a", "language": language, "filter": text}
            for n, (language, text) in enumerate(filters)
        ],
        "advertisements": [
            {"advertisement": f"p{n}", "broker": "a", "language": language, "filter": text}
            for n, (language, text) in enumerate(filters)
        ],
        "events": [
            {"event": f"e{n}", "publisher": "p", "broker": "a", "at": at, "language": language, "content": content}
            for n, (language, content) in enumerate(contents.items())
        ],
        "deliveries": [{"event": "e1", "subscription": "s1", "broker": "b", "distance": 2, "at": at}],
    }  # fmt: skip


def _lines(table: str, some: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(row) for row in some).encode()


def _csv(table: str, some: list[dict[str, Any]]) -> bytes:
    names = [column.name for spec in INPUTS if spec.name == table for column in spec.columns]

    def quoted(value: Any) -> str:
        text = "" if value is None else str(value)
        return f'"{text.replace(chr(34), chr(34) * 2)}"'

    return "\r\n".join(
        [",".join(names), *(",".join(quoted(row.get(name)) for name in names) for row in some)]
    ).encode()


@cache
def _parquet(table: str) -> bytes:
    spec = next(one for one in INPUTS if one.name == table)
    types = {
        "string": pa.string(),
        "double": pa.float64(),
        "int": pa.int32(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    columns = {}
    for column in spec.columns:
        values = [row.get(column.name) for row in rows()[table]]
        if column.type == "timestamp":
            values = [None if one is None else 1_767_319_445_678_000 for one in values]
        columns[column.name] = pa.array(values, types[column.type])
    out = BytesIO()
    parquet.write_table(pa.table(columns), out, compression=None)
    return out.getvalue()


MOST_LINES: Final = 1_000  # a record is what must not take long: files are as long as they are
SAMPLED: Final = ("events", "deliveries", "subscriptions", "advertisements")
TEXT_KINDS: Final = {"jsonl": _lines, "csv": _csv}


def draw_samples(draw: Random) -> Input:
    """Return a table's name, the kind of its file, and what is in it."""
    if draw.random() < 0.3:
        table = draw.choice(SAMPLED)
        return (table.encode(), b"parquet", mutated(draw, [_parquet(table)]))
    table, kind = draw.choice(sorted(rows())), draw.choice(sorted(TEXT_KINDS))
    some = rows()[table]
    if draw.random() < 0.5:
        for _ in range(draw.randrange(1, 5)):
            other = changed(draw, some)
            some = [row for row in other if isinstance(row, dict)] if isinstance(other, list) else some
        data = TEXT_KINDS[kind](table, some)
    else:
        data = mutated(draw, [TEXT_KINDS[kind](table, some)])
    data = b"\n".join(data.split(b"\n")[:MOST_LINES])
    if draw.random() < 0.1:
        data = gzip.compress(data, 1)
        other = mutated(draw, [data]) if draw.random() < 0.5 else data
        data = (
            other if _line_count(other) <= MOST_LINES else data
        )  # a piece that is repeated may be many lines
        kind += ".gz"
    return (table.encode(), kind.encode(), data)


def _line_count(packed: bytes) -> int:
    """Return how many lines can be read of what is compressed, or a number above `MOST_LINES`."""
    count, unpack = 0, zlib.decompressobj(zlib.MAX_WBITS | 16)
    with contextlib.suppress(zlib.error):
        while packed and count <= MOST_LINES:
            count += unpack.decompress(packed, 1 << 16).count(b"\n")
            packed = unpack.unconsumed_tail
    return count


def read_samples(given: Input) -> None:
    """Read and judge every row: each is good, or has a reason in one line."""
    if len(given) != 3 or given[0].decode(errors="replace") not in rows():
        return
    table, kind, data = given[0].decode(), given[1].decode(errors="replace"), given[2]
    if kind == "parquet":
        checked = check_samples(data, table, "a", Times(1.8e9))
        assert checked.problem or checked.encode()
        assert "\n" not in checked.problem
        return
    packed = kind.endswith(".gz")
    folder = FOLDER / f"{table}.{kind.removesuffix('.gz')}"
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    file = folder / f"part.{kind}"
    file.write_bytes(data)
    if kind.startswith("csv"):
        header_of(file)
    pieces = pa.RecordBatch.from_pylist([piece._asdict() for piece in pieces_of(folder)])
    assert packed or kind in TEXT_KINDS
    for batch in read_batches(iter([pieces]), table=table, units={}, columns={}):
        source = batch.column(SOURCE)
        given_rows = pa.RecordBatch.from_arrays(
            [*batch.columns, source.field("reason")], [*batch.schema.names, REASON]
        )
        for judged in judge_batches(iter([given_rows]), table=table):
            for reason in judged.column(REASON).to_pylist():
                assert reason is None or ("\n" not in reason and reason), reason


def _valid_samples() -> tuple[Input, ...]:
    texts = [
        (table.encode(), kind.encode(), write(table, rows()[table]))
        for table in rows()
        for kind, write in TEXT_KINDS.items()
    ]
    return (*texts, *((table.encode(), b"parquet", _parquet(table)) for table in SAMPLED))


PLANS: Final = (
    (b"plan", some_plan().encode()),
    (b"plan", _plan_file(plan_values())),
    (b"state", state_file()),
)
CONFIGURATIONS: Final = tuple((one.encode(),) for one in TOML[:3])
TARGETS: Final = (
    Target("plans", draw_plan, read_plan, PLANS, (PlanError, ConfigError)),
    Target("configuration", draw_configuration, read_configuration, CONFIGURATIONS, (ConfigError,)),
    Target("samples", draw_samples, read_samples, _valid_samples(), (ConfigError,)),
)
