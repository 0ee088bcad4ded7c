"""A live network that plans itself: samples become a plan, which is installed, watched, and taken back if it fails."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from tests.e2e.helpers.network import Live
from tests.e2e.helpers.running import eventually
from tests.spark.brokers import Loop
from tests.spark.cluster import cluster
from tests.spark.conftest import MASTER

from covey import cli
from covey.broker.config import AdminConfig
from covey.broker.security import hash_token
from covey.client import admin
from covey.client.client import Client
from covey.coordinator import coordinator as module
from covey.coordinator.coordinator import Coordinator
from covey.coordinator.rounds import FILE, Round
from covey.coordinator.samples import FUTURE, NO_NAME, NO_TIME, NOT_ITS_OWN
from covey.coordinator.settings import Settings
from covey.errors import ConfigError, CoveyError
from covey.pipeline import jobs
from covey.pipeline.jobs import Outcome
from covey.pipeline.stream import Streams, Windows
from covey.planning.plan import Plan, PlannedTree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(
    MASTER.startswith("connect:"), reason="the coordinator's own session is classic"
)

#    a ─ b ─ c ─ d ─ e ─ f ─ a      a ring, whose last link is in reserve: the overlay's own tree is the chain
RING = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "a")]
CHAIN = RING[:-1]
WANTED = {"a": "n >= 0 and k = 'far'", "d": "n >= 0 and k = 'near'"}
FROM = {"far": "f", "near": "c"}
TOKEN = "let me"


class Scene:
    """The ring, two subscribers, two publishers, and all that was published and delivered."""

    def __init__(self, directory: Path) -> None:
        self.loop = Loop()
        self.published = 0
        self.got: dict[str, list[int]] = {name: [] for name in WANTED}
        self.due: dict[str, list[int]] = {name: [] for name in WANTED}
        self._stack = AsyncExitStack()
        self._readers: list[asyncio.Task[None]] = []
        admin = AdminConfig(port=0, token=hash_token(TOKEN))
        per_broker = {}
        for name in "abcdef":
            (directory / name).mkdir(parents=True)
            per_broker[name] = {"data_dir": str(directory / name), "admin": admin}
        self.net = Live(
            RING,
            priorities={("f", "a"): 9},
            waits_for=CHAIN,
            per_broker=per_broker,
            sample=1.0,
            sample_every_s=0.2,
        )
        self.clients: dict[str, Client] = {}
        self.loop.run(self._open())

    async def _open(self) -> None:
        await self._stack.enter_async_context(self.net)
        for broker, text in WANTED.items():
            client = await self._stack.enter_async_context(self.net.client(broker))
            ready = asyncio.Event()
            self._readers.append(asyncio.create_task(self._read(client, broker, text, ready)))
            await ready.wait()
        for broker in FROM.values():
            self.clients[broker] = await self._stack.enter_async_context(self.net.client(broker))
            await self.clients[broker].advertise("n >= 0")
            await self.clients[broker].flush()

    async def _read(self, client: Client, broker: str, text: str, ready: asyncio.Event) -> None:
        async with client.subscribe(text) as events:
            await client.flush()
            ready.set()
            async for event in events:
                self.got[broker].append(event["n"])

    def close(self) -> None:
        async def close() -> None:
            for reader in self._readers:
                reader.cancel()
            await asyncio.gather(*self._readers, return_exceptions=True)
            await self._stack.aclose()

        self.loop.run(close())
        self.loop.close()

    def publish(self, count: int) -> None:
        async def main() -> None:
            for number in range(self.published, self.published + count):
                kind = ("far", "near")[number % 2]
                await self.clients[FROM[kind]].publish({"n": number, "k": kind})
                self.due["a" if kind == "far" else "d"].append(number)
                if number % 50 == 0:
                    await asyncio.sleep(0.01)
            for client in self.clients.values():
                await client.flush()

        self.loop.run(main())
        self.published += count

    def check(self) -> None:
        """Every event came to whoever wanted it, once, in order."""
        until_s = time.monotonic() + 30
        while self.got != self.due and time.monotonic() < until_s:
            time.sleep(0.05)
        assert self.got == self.due

    def is_whole(self) -> bool:
        """Whether all links are there, and what brokers must know of each other is known in all epochs."""
        return all(
            len(broker.core.linked) == 2 and all(map(broker.core.epochs.is_ready, broker.core.epochs.routers))
            for broker in self.net.brokers.values()
        )

    def is_planned(self) -> bool:
        """Whether events set out on a plan's trees, at any broker."""
        every = (broker.core.epochs for broker in self.net.brokers.values())
        return any(epochs.is_planned(epochs.current) for epochs in every)

    def epochs(self) -> set[int]:
        return {broker.core.epochs.current for broker in self.net.brokers.values()}

    def urls(self) -> tuple[str, ...]:
        ports = [broker.admin.port for broker in self.net.brokers.values() if broker.admin is not None]
        return tuple(f"http://127.0.0.1:{port}" for port in ports)

    def settings(self, directory: Path, **more: Any) -> Settings:
        values: dict[str, Any] = {
            "urls": self.urls(),
            "data_dir": directory,
            "token": TOKEN,
            "master": MASTER,
            "windows": Windows(600, 5, 30),
            "every_s": 0.0,
            "least_events": 550,
            "probation_events": 200,
            "method": "regions-cheapest",
        }
        return Settings(**{**values, **more})


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path / "brokers")
    yield made
    made.close()


def on_the_chain(directory: Path) -> float:
    """Return how many links of the chain the fresh events of the last plan cross on average, by who wants them."""
    documents = parquet.read_table(directory / "plan" / "stages" / "documents").to_pylist()
    fresh = [row["broker"] for row in documents if row["part"] == "fresh"]
    return sum(5 if broker == FROM["far"] else 1 for broker in fresh) / len(fresh)


def until(coordinator: Coordinator, is_so: Callable[[Round], bool], most: int = 8) -> Round:
    """Return the first round of which it is so; samples take a moment to be written."""
    rounds = []
    for _ in range(most):
        rounds.append(coordinator.round())
        if is_so(rounds[-1]):
            return rounds[-1]
        time.sleep(0.5)
    raise AssertionError("\n".join(one.line() for one in rounds))


HOSTILE: list[tuple[Any, ...]] = [  # event, broker, how far its time is from now, language, content
    ("next year", "a", 366 * 86_400, "attributes", '{"n": 1, "k": "far"}'),
    ("never", "a", None, "attributes", '{"n": 1, "k": "far"}'),
    (None, "a", 0, "attributes", '{"n": 1, "k": "far"}'),
    ("other", "f", 0, "attributes", '{"n": 1, "k": "far"}'),
    ("half a character", "a", 0, "keywords", '["\\ud800"]'),
    ("no object", "a", 0, "attributes", "[1]"),
    ("no json", "a", 0, "attributes", "{"),
    ("no language", "a", 0, "klingon", "{}"),
    ("no text", "a", 0, None, None),
]


def write_hostile(samples: Path) -> None:
    """Write files beside those of the broker a, with every kind of row that cannot be used."""
    now_us = round(time.time() * 1e6)
    names, brokers, offsets, languages, contents = zip(*HOSTILE, strict=True)
    at = pa.array([None if one is None else now_us + one * 1_000_000 for one in offsets], pa.int64())
    texts = {
        "event": names,
        "publisher": names,
        "broker": brokers,
        "language": languages,
        "content": contents,
    }
    columns = {name: pa.array(values, pa.string()) for name, values in texts.items()}
    (samples / "events").mkdir(parents=True, exist_ok=True)
    parquet.write_table(
        pa.table({**columns, "at": at.cast(pa.timestamp("us", tz="UTC"))}),
        samples / "events" / "hostile.parquet",
    )
    (samples / "events" / "garbage.parquet").write_bytes(b"PAR1 and no more")


def test_the_loop_is_closed(
    spark: SparkSession, scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "coordinator"
    with Coordinator(scene.settings(directory)) as coordinator:
        write_hostile(tmp_path / "brokers" / "a" / "samples")
        first = coordinator.round()
        assert first.action == "wait"
        assert "fewer than 550 events" in first.reason
        assert first.subscriptions == 2
        assert set(first.skew_s) == set("abcdef")
        assert first.dropped == {"events": dict.fromkeys([FUTURE, NO_TIME, NO_NAME, NOT_ITS_OWN], 1)}
        assert "garbage.parquet is left out" in first.problems[0]
        scene.publish(600)
        told = until(coordinator, lambda one: one.action != "wait")
    assert told.action == "install", told.line()
    assert sum(told.quarantined["events"].values()) == 5
    # Far events crossed five links of the chain and near ones one; each pair of brokers has a link of its own.
    before = on_the_chain(directory)
    assert told.planned == pytest.approx(1.0)
    assert told.installed == pytest.approx(before)
    assert told.predicted_saving == pytest.approx(1 - 1 / before)
    assert scene.epochs() == {1}
    # Another process goes on: it knows what is installed, and that it is on probation.
    with Coordinator(scene.settings(directory)) as coordinator:
        scene.publish(20)
        assert coordinator.round().action == "probation"
        scene.loop.run(scene.net.stop("e"))
        away = coordinator.round()
        assert (away.action, len(away.away)) == ("wait", 1)
        assert away.reason.startswith("away: no broker shows its pages")
        # It comes back, on another port of its pages, counts from nothing, and finds the plan on its disk.
        scene.loop.run(scene.net.start("e"))
        scene.loop.run(eventually(scene.is_whole))
    with Coordinator(scene.settings(directory)) as coordinator:
        until(coordinator, lambda one: one.action == "probation")
        scene.publish(400)
        told = until(coordinator, lambda one: one.action not in ("wait", "probation"))
        assert told.action == "confirm", told.line()
        # Three links were measured before, as half of all events were far, and one is now. How many are far among the
        # fresh ones is chance, and another one by now.
        assert told.measured == pytest.approx(1.0)
        assert told.measured_saving == pytest.approx(1 - 1 / (on_the_chain(directory) * 3 / before))
        assert told.predicted_saving == pytest.approx(1 - 1 / before)
    scene.check()
    # The command does the same, and takes no directory that somebody has.
    words = ["coordinator", *scene.urls(), "--data-dir", str(directory), "--token", TOKEN, "--master", MASTER]
    words += ["--rounds", "1", "--least-events", "200", "--window", "600", "--slide", "5", "--json"]
    words += ["--method", "regions-cheapest"]
    capsys.readouterr()
    assert cli.run([*words, "--dry-run"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["action"], shown["predicted_saving"]) == ("keep", pytest.approx(0.0, abs=0.02))
    assert shown["trees"] >= 1
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert "1 plan was installed." in page
    assert "<svg" in page or "data:image/svg" in page
    lines = (directory / FILE).read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == list(range(1, len(lines) + 1))
    with Coordinator(scene.settings(directory)):
        assert cli.run(words) == 2
    assert "another coordinator uses" in capsys.readouterr().err


def ended_after(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does the work and is then interrupted."""

    def interrupted(*arguments: Any) -> None:
        work(*arguments)
        raise KeyboardInterrupt

    return interrupted


def refusing(*_: Any) -> None:
    raise CoveyError("the plan is not installed: no")


def test_a_plan_that_does_not_keep_its_promise_is_taken_back(
    spark: SparkSession, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tuple(sorted((*sorted(pair), 1.0) for pair in RING))
    tree = PlannedTree("a", tuple(link[:2] for link in links if link[:2] != ("c", "d")))  # type: ignore[misc]
    bad = Plan("bad", 1, tuple("abcdef"), links, (tree,))  # type: ignore[arg-type]
    real = jobs.plan

    def promising(request: Any, on_progress: Any, **given: Any) -> Outcome:
        outcome = real(request, on_progress, **given)
        said = {**outcome.plan.predictions, "bad": {"cost_fresh": 0.1 * outcome.plan.basis["fresh"]}}
        return replace(outcome, plan=replace(bad, predictions=said, basis=outcome.plan.basis))

    with Coordinator(scene.settings(tmp_path / "coordinator", tolerance=0.02)) as coordinator:
        # From c alone: to a and d two links and one on the chain, two and five on the bad plan.
        scene.clients["f"] = scene.clients["c"]
        scene.publish(600)
        monkeypatch.setattr(module, "compute", promising)
        install = admin.install_plan
        monkeypatch.setattr(admin, "install_plan", refusing)
        told = until(coordinator, lambda one: one.action != "wait")
        assert (told.action, told.reason) == ("failed", "the plan is not installed: no")
        assert not scene.is_planned()
        # What was refused is not on probation: the next round sees what is in use, and tries again.
        monkeypatch.setattr(admin, "install_plan", ended_after(install))
        with pytest.raises(KeyboardInterrupt):
            until(coordinator, lambda one: one.action != "wait")
        assert scene.is_planned()
        monkeypatch.undo()
    # Whoever was ended while the plan went in knows that it is on probation.
    with Coordinator(scene.settings(tmp_path / "coordinator", tolerance=0.02)) as coordinator:
        assert coordinator.memory.probation is not None
        scene.publish(400)
        told = until(coordinator, lambda one: one.action not in ("wait", "probation"))
        assert told.action == "take back", told.line()
        assert (told.measured_saving or 0) < -0.02
        scene.loop.run(eventually(lambda: not scene.is_planned()))
        assert coordinator.memory.caution == 1
        scene.publish(100)
    scene.check()


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        Coordinator(Settings(("http://127.0.0.1:1",), tmp_path / "file"))
    (tmp_path / "coordinator.json").write_text("{")
    with pytest.raises(ConfigError, match="hint: remove it"):
        Coordinator(Settings(("http://127.0.0.1:1",), tmp_path))


@pytest.mark.long
def test_a_coordinator_that_is_killed_at_any_moment_goes_on(
    spark: SparkSession, scene: Scene, tmp_path: Path
) -> None:
    directory = tmp_path / "coordinator"
    words = [sys.executable, "-m", "covey", "coordinator", *scene.urls(), "--data-dir", str(directory)]
    words += [
        "--master",
        "local[2]",
        "--every",
        "0.2",
        "--window",
        "600",
        "--slide",
        "5",
        "--lateness",
        "600",
    ]
    words += ["--least-events", "200", "--probation-events", "200", "--json"]
    environment = {**os.environ, "COVEY_ADMIN_TOKEN": TOKEN}
    for life_s in (14.0, 19.0, 25.0, 32.0):
        process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
        until_s = time.monotonic() + life_s
        while time.monotonic() < until_s:
            scene.publish(20)
            time.sleep(0.5)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    time.sleep(1.0)  # what was sampled last is written
    done = subprocess.run(
        [*words, "--rounds", "2"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(one["action"] != "failed" for one in rounds), rounds
    window = Streams(spark, directory, Windows(600, 5, 600)).window("events")
    assert window is not None
    numbers = sorted(json.loads(row["content"])["n"] for row in window.select("content").collect())
    assert numbers == list(range(scene.published)), "each event is in the window, once"
    scene.check()


@pytest.mark.long
def test_a_cluster_does_the_work(scene: Scene, tmp_path: Path) -> None:
    scene.publish(600)
    time.sleep(1.0)  # what was sampled is written
    words = [sys.executable, "-m", "covey", "coordinator", *scene.urls(), "--data-dir", str(tmp_path / "own")]
    words += ["--rounds", "1", "--least-events", "200", "--json"]
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    with cluster(tmp_path / "cluster", workers=2) as master:
        done = subprocess.run(
            [*words, "--master", master],
            env=ours | {"COVEY_ADMIN_TOKEN": TOKEN},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert (told["action"], scene.is_planned()) == ("install", True), told
    scene.publish(100)
    scene.check()
