"""What a stream has received: nothing is lost or doubled over restarts, and what would be a loss is an error."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.helpers.running import free_port
from tests.e2e.test_security import ANN, GUARDED, Certificates
from tests.spark.brokers import Running, publishing, running, until

from covey.broker.config import QueueLimits
from covey.broker.security import read_security
from covey.client.subscription import Delivered
from covey.errors import ConfigError, CoveyError, LinkError, RefusedError, SlowError, TimedOutError
from covey.pipeline.network.columns import Arrival
from covey.pipeline.network.intake import Intake, Offset
from covey.pipeline.network.options import STREAM, options_of


def make(url: str, **given: Any) -> Intake:
    return Intake(options_of({"url": url, **{name: str(value) for name, value in given.items()}}, STREAM))


@contextmanager
def intake(broker: Running, **given: Any) -> Iterator[Intake]:
    one = make(broker.url, **given)
    try:
        yield one
    finally:
        one.close()


def publish(broker: Running, numbers: range, *, confirm: bool = True) -> None:
    with broker.client() as client:
        client.publish_many([{"n": number} for number in numbers], confirm=confirm)
        client.flush()


def ask_on(one: Intake, start: Offset) -> None:
    """Ask as Spark does while nothing comes, for some seconds."""
    for _ in range(100):
        one.latest(start, None, 0.05)


def numbers(arrivals: list[Arrival]) -> list[int]:
    return [Delivered(one.frame)["n"] for one in arrivals]


def read(one: Intake, start: Offset, count: int, most: int | None = None) -> tuple[Offset, list[int]]:
    """Read batches as Spark does, until there are so many events."""
    found: list[int] = []
    until_s = time.monotonic() + 20
    while len(found) < count:
        assert time.monotonic() < until_s, found[-3:]
        end = one.latest(start, most, 0.05)
        if end != start:
            found += numbers(one.between(start, end))
            one.done(start)  # as Spark does: when it has planned the next batch
        start = end
    return start, found


def test_a_durable_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    with running(data_dir=tmp_path, durable=QueueLimits(window=40)) as broker:
        with intake(broker, durable="jobs", filter="n >= 0") as one:
            start = one.beginning()
            assert start == Offset("paris", 0)
            assert one.latest(start, None) == start
            publish(broker, range(100))
            # The window is smaller than what waits: batches must make room for each other.
            middle, found = read(one, start, 60, most=25)
            assert found == list(range(len(found)))
            under_way = one.latest(middle, 10, 1.0)
            twice = [numbers(one.between(middle, under_way)) for _ in range(2)]
            assert twice[0] == twice[1] == list(range(len(found), len(found) + len(twice[0])))
        publish(broker, range(100, 110))
        with intake(broker, durable="jobs", filter="n >= 0") as one:
            # The batch that was under way is the same again; then all others, each once.
            assert numbers(one.between(middle, under_way)) == twice[0]
            last, rest = read(one, under_way, 110 - len(found) - len(twice[0]))
            assert found + twice[0] + rest == list(range(110))
            assert one.latest(last, None) == last
        with intake(broker, durable="jobs", filter="n >= 0") as one:
            assert one.latest(last, None, 0.3) == last


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 20))]
)
def test_spark_with_crashes_gets_each_event_once(tmp_path: Path, seed: int) -> None:
    """The steps of Spark's micro-batches, with its two logs, ended at any of them."""
    chance = random.Random(seed)
    offsets: list[Offset] = []
    committed = published = 0
    output: dict[int, list[int]] = {}
    limits = QueueLimits(window=20, again_after_s=0.2)
    with running(data_dir=tmp_path, durable=limits) as broker, ExitStack() as open_ones:

        def begin() -> Intake:
            return open_ones.enter_context(intake(broker, durable="jobs", events=15))

        one = begin()
        first = one.beginning()
        for step in range(150):
            if step < 120 and chance.random() < 0.5:
                more = chance.randrange(12)
                publish(broker, range(published, published + more))
                published += more
            crash_at = chance.randrange(12)
            start = offsets[committed - 1] if committed else first
            if len(offsets) == committed:
                end = one.latest(start, 15, 0.02)
                if crash_at != 0 and end != start:
                    offsets.append(end)  # Spark's log of offsets, before the batch
                    one.done(start)
            if crash_at > 1 and len(offsets) > committed:
                output[committed] = numbers(one.between(start, offsets[committed]))
                if crash_at > 2:
                    committed += 1  # Spark's log of batches that are done
            if crash_at <= 2:
                if chance.random() < 0.5:
                    one.close()  # otherwise the old process is still there when the new one comes
                one = begin()
            if step >= 120 and sum(map(len, output.values())) == published and len(offsets) == committed:
                break
    assert published > 100
    assert [number for batch in sorted(output) for number in output[batch]] == list(range(published))


@pytest.mark.parametrize("at_once", [None, 7])
def test_a_stream_ends_with_what_there_was_while_more_comes(tmp_path: Path, at_once: int | None) -> None:
    with running(data_dir=tmp_path) as broker:
        with intake(broker, durable="now") as one:
            one.beginning()
        publish(broker, range(50))
        with (
            publishing(broker, lambda number: {"n": 1_000 + number}, a_second=500),
            intake(broker, durable="now") as one,
        ):
            start, found = one.beginning(), []
            one.end_here()
            while (end := one.latest(start, at_once, 0.5)) != start:
                found += numbers(one.between(start, end))
                start = end
                assert len(found) < 5_000, "it follows what comes"
            assert one.latest(start, at_once, 0.5) == start, "what has come since is not looked at"
        assert found[:50] == list(range(50))
        publish(broker, range(9_000, 9_020))
        with intake(broker, durable="now") as again:
            _, rest = read(again, start, 20)
        # Traffic had begun before the end was set. The next run goes on where this one ended.
        traffic = [number for number in found[50:] + rest if number < 9_000]
        assert traffic == list(range(1_000, 1_000 + len(traffic)))
        assert len(found) - 50 <= len(traffic)


def test_repeated_deliveries_are_recognised(tmp_path: Path) -> None:
    with (
        running(data_dir=tmp_path, durable=QueueLimits(again_after_s=0.1)) as broker,
        intake(broker, durable="jobs") as one,
    ):
        start = one.beginning()
        assert one.latest(start, None) == start
        publish(broker, range(20))
        exchange = broker.broker.core
        until(lambda: sum(client.delivered for client in exchange.clients.values()) > 70)
        middle = one.latest(start, None)
        assert numbers(one.between(start, middle)) == list(range(20))
        publish(broker, range(20, 25))
        assert read(one, middle, 5)[1] == list(range(20, 25))


def test_a_checkpoint_that_the_broker_has_not_heard_of(tmp_path: Path) -> None:
    """The last batch is noted by Spark and not acknowledged: it must not come again, nor be in the way of others."""
    with running(data_dir=tmp_path, durable=QueueLimits(window=10)) as broker:
        with intake(broker, durable="jobs") as one:
            start = one.beginning()
            publish(broker, range(15))
            until(lambda: one.latest(start, None).position == 10)
            end = one.latest(start, None)
            assert numbers(one.between(start, end)) == list(range(10))
        with intake(broker, durable="jobs") as one:
            assert read(one, end, 5)[1] == list(range(10, 15))


def test_a_broker_that_comes_back(tmp_path: Path) -> None:
    port = free_port()
    one = make(f"covey://127.0.0.1:{port}", durable="jobs")
    try:
        with running(data_dir=tmp_path, port=port) as broker:
            start = one.beginning()
            publish(broker, range(10))
            end = one.latest(start, None, 5.0)
            before = numbers(one.between(start, end))
        # What had come and is not acknowledged is here, and comes again: it counts once.
        with running(data_dir=tmp_path, port=port) as broker:
            assert numbers(one.between(start, end)) == before
            publish(broker, range(10, 20))
            _, rest = read(one, end, 20 - len(before))
            assert before + rest == list(range(20))
    finally:
        one.close()


def test_a_broker_that_stays_away_is_an_error_in_time(tmp_path: Path) -> None:
    with running(data_dir=tmp_path) as broker:
        one = make(broker.url, durable="jobs", timeout=0.5)
        start = one.beginning()
        assert one.latest(start, None) == start
    began_s = time.monotonic()
    with pytest.raises(LinkError, match=r"127\.0\.0\.1"):
        ask_on(one, start)
    assert time.monotonic() - began_s < 20
    one.close()
    with pytest.raises(LinkError, match=r"no broker can be reached at 127\.0\.0\.1"):
        make(broker.url).beginning()


def test_the_checkpoint_of_another_broker_is_refused(tmp_path: Path) -> None:
    with running(data_dir=tmp_path) as broker, intake(broker, durable="jobs") as one:
        with pytest.raises(ConfigError, match="is of the broker 'rome', and this is 'paris'"):
            one.latest(Offset("rome", 7, ((7, "a.1"),)), None)
        with pytest.raises(ConfigError, match="is of the broker 'rome', and this is 'paris'"):
            one.between(Offset("rome", 0), Offset("rome", 7, ((7, "a.1"),)))
        with pytest.raises(ConfigError, match="not one of this source"):
            Offset.of({"partition": 3})


def test_a_store_that_began_anew_is_no_silent_loss(tmp_path: Path) -> None:
    with running(data_dir=tmp_path) as broker, intake(broker, durable="jobs") as one:
        start = one.beginning()
        publish(broker, range(20))
        checkpoint, _ = read(one, start, 20)
    shutil.rmtree(tmp_path)
    for count in (5, 20, 30):  # less than the checkpoint has, as many, more
        with running(data_dir=tmp_path / str(count)) as broker:
            with intake(broker, durable="jobs") as one:
                one.beginning()
            publish(broker, range(100, 100 + count))
            with (
                intake(broker, durable="jobs", timeout=0.3) as one,
                pytest.raises(ConfigError, match="the store of the broker 'paris' has begun anew"),
            ):
                ask_on(one, checkpoint)
            # With a checkpoint of its own everything is there.
            with intake(broker, durable="jobs") as one:
                assert read(one, one.beginning(), count)[1] == list(range(100, 100 + count))


def test_a_store_that_begins_anew_while_a_stream_runs(tmp_path: Path) -> None:
    port = free_port()
    one = make(f"covey://127.0.0.1:{port}", durable="jobs", timeout=3)
    try:
        with running(data_dir=tmp_path / "one", port=port) as broker:
            start = one.beginning()
            publish(broker, range(20))
            end, _ = read(one, start, 20, most=1)  # so that its offset does not remember the first
            one.latest(end, None)  # acknowledged
        with running(data_dir=tmp_path / "two", port=port) as broker:
            until(lambda: broker.broker.core.durable.subscriptions.all())  # type: ignore[union-attr]
            publish(broker, range(100, 104))
            with pytest.raises(ConfigError, match="the store of the broker 'paris' has begun anew"):
                ask_on(one, end)
    finally:
        one.close()


def test_a_store_whose_positions_are_others(tmp_path: Path) -> None:
    with running(data_dir=tmp_path / "one") as broker, intake(broker, durable="jobs") as one:
        start = one.beginning()
        publish(broker, range(20))
        checkpoint, _ = read(one, start, 20, most=1)
    with running(data_dir=tmp_path / "two") as broker:
        with intake(broker, durable="jobs", filter="n < 3 or n > 30") as one:
            one.beginning()
        with intake(broker, durable="others") as one:
            one.beginning()
        publish(broker, range(40))  # of which the stream's are 1 to 3 and 32 to 40, and none is at a mark
        with (
            intake(broker, durable="jobs", filter="n < 3 or n > 30") as one,
            pytest.raises(ConfigError, match="the store of the broker 'paris' has begun anew"),
        ):
            one.latest(checkpoint, None, 8.0)


def test_acknowledgements_that_a_broker_has_lost(tmp_path: Path) -> None:
    """Several batches come again, more than its window takes now: they are recognised from the first on."""
    limits = QueueLimits(window=1_000)
    with running(data_dir=tmp_path / "one", durable=limits) as broker, intake(broker, durable="jobs") as one:
        one.beginning()
        publish(broker, range(40))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with running(data_dir=tmp_path / "one", durable=limits) as broker, intake(broker, durable="jobs") as one:
        end, found = read(one, Offset("paris", 0), 30, most=10)
    with (
        running(data_dir=tmp_path / "two", durable=QueueLimits(window=4)) as broker,
        intake(broker, durable="jobs", timeout=3) as one,
    ):
        assert found + read(one, end, 40 - len(found))[1] == list(range(40))


def test_events_that_the_queue_has_dropped_are_an_error(tmp_path: Path) -> None:
    with running(data_dir=tmp_path) as broker:
        with intake(broker, durable="jobs") as one:
            start = one.beginning()
            publish(broker, range(10))
            until(lambda: one.latest(start, None).position == 10)
            end = one.latest(start, None)
        with broker.client(name="spark") as client:
            client.subscribe("TRUE", durable="jobs").unsubscribe(forget=True)
        with (
            intake(broker, durable="jobs", timeout=0.3) as one,
            pytest.raises(TimedOutError, match="has not sent again the events"),
        ):
            one.between(start, end)


def test_one_stream_a_durable_subscription(tmp_path: Path) -> None:
    with running(data_dir=tmp_path) as broker, intake(broker, durable="jobs") as one:
        start = one.beginning()
        with intake(broker, durable="jobs") as other:
            other.beginning()
            with pytest.raises(RefusedError, match="attached by another connection"):
                ask_on(one, start)


def test_a_broker_without_a_store_makes_no_durable_subscription() -> None:
    with (
        running() as broker,
        intake(broker, durable="jobs") as one,
        pytest.raises(CoveyError, match="data_dir"),
    ):
        one.beginning()


def test_tls_and_passwords(tmp_path: Path) -> None:
    guarded = Certificates(tmp_path).security("127.0.0.1")
    assert guarded.tls is not None
    tls = {name: getattr(guarded.tls, name) for name in ("certificate", "key", "authority")}
    security = read_security({**GUARDED, "tls": tls}, str(tmp_path))
    with running(security=security) as broker:
        secret = {"tls_ca": tmp_path / "authority.pem", **ANN}
        with intake(broker, filter="price > 10", **secret) as one:
            assert one.beginning().position == 0
        with intake(broker, **secret | {"password": "hunter2"}) as one, pytest.raises(RefusedError) as caught:
            one.beginning()
        assert "hunter2" not in str(caught.value)
        with intake(broker, filter="price > 9", **secret) as one, pytest.raises(RefusedError):
            one.beginning()  # more than ann may see
        with intake(broker, timeout=2, **ANN) as one, pytest.raises(CoveyError):
            one.beginning()  # without TLS


def test_a_live_stream_counts_its_own_events() -> None:
    with running() as broker:
        with intake(broker, filter="n < 20") as one:
            start = one.beginning()
            assert one.latest(start, 5) == start
            publish(broker, range(30), confirm=False)
            end, found = read(one, start, 20, most=6)
            assert found == list(range(20))
            assert end.position == 20
        with intake(broker, filter="n < 20") as one:
            # The run that the checkpoint is of is over: its batches are empty, and new events come.
            assert one.between(start, end) == []
            assert one.latest(end, None) == end
            publish(broker, range(10), confirm=False)
            after = one.latest(end, None, 5.0)
            assert after.origin != end.origin
            assert numbers(one.between(end, after)) == list(range(after.position))


@pytest.mark.parametrize("policy", ["drop-new", "error"])
def test_a_live_stream_that_is_too_slow(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    monkeypatch.setattr("covey.pipeline.network.intake.PENDING", 1_500)
    with running() as broker, intake(broker, events=10, policy=policy) as one:
        start = one.beginning()
        one.latest(start, None)
        publish(broker, range(20_000), confirm=False)
        # Two batches wait here, what the client may hold waits there, and the rest is dealt with.
        if policy == "error":
            with pytest.raises(SlowError):
                read(one, start, 20_000)
            return
        time.sleep(0.2)
        end = one.latest(start, None)
        assert numbers(one.between(start, end)) == list(range(20))
        _, rest = read(one, end, 1_000)
        assert rest == list(range(20, 20 + len(rest)))
