"""Metrics: the histogram's promise, and samples of a network whose figures are known."""

from __future__ import annotations

import math
from random import Random

import pytest

from covey.sim import Network
from covey.sim.metrics import RELATIVE_ERROR, Collector, Histogram, since


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_are_as_exact_as_promised(seed: int) -> None:
    random = Random(seed)
    times = [random.expovariate(1.0) * 10.0 ** random.randrange(-4, 4) for _ in range(1000)]
    histogram = Histogram()
    for time_s in times:
        histogram.add(time_s)
    times.sort()
    for share in (0.0, 0.01, 0.5, 0.9, 0.99, 1.0):
        exact = times[max(1, math.ceil(share * len(times))) - 1]
        assert histogram.quantile(share) == pytest.approx(exact, rel=RELATIVE_ERROR + 1e-9)
    delays = histogram.delays()
    assert delays.deliveries == 1000
    assert delays.max_s == times[-1]
    assert delays.mean_s == pytest.approx(sum(times) / 1000)


def test_no_delay_and_no_delivery() -> None:
    histogram = Histogram()
    assert histogram.delays().p99_s == 0.0
    histogram.add(0.0)
    histogram.add(0.0)
    histogram.add(2.0)
    assert histogram.quantile(0.5) == 0.0
    assert histogram.quantile(1.0) == pytest.approx(2.0, rel=0.01)


def test_merging_is_counting_both() -> None:
    one, other, both = Histogram(), Histogram(), Histogram()
    for number in range(1, 200):
        (one if number % 3 else other).add(number / 7)
        both.add(number / 7)
    one.merge(other)
    assert one.delays().p50_s == both.delays().p50_s
    assert one.delays().max_s == both.delays().max_s
    assert one.delays().deliveries == both.delays().deliveries


def test_buckets_stay_few() -> None:
    histogram = Histogram()
    random = Random(1)
    for _ in range(20_000):
        histogram.add(10.0 ** random.uniform(-6, 5))
    assert len(histogram._buckets) < 1_400


def line() -> tuple[Network, Collector]:
    net = Network([("a", "b"), ("b", "c")], keep=False)
    return net, Collector(net, core=("b",), by_broker=True)


def test_a_sample_has_what_happened() -> None:
    net, collector = line()
    net.advertise("a", "price >= 0")
    net.settle()
    net.subscribe("c", "price > 10")
    net.subscribe("c", "price > 20")
    net.settle()
    first = collector.sample(1.0, "subscribed")
    assert (first.remote_entries, first.remote_entries_max, first.local_entries) == (2, 1, 2)
    assert first.remote_entries_mean == pytest.approx(2 / 3)
    assert first.remote_by_broker == (1, 1, 0)
    assert first.control_by_kind == {"advertise": 2, "subscribe": 2}
    assert first.delays.deliveries == 0
    net.publish("a", {"price": 12})
    net.publish("a", {"price": 5})
    net.settle()
    second = collector.sample(2.0)
    assert (second.published_events, second.forwarded_events, second.delivered_events) == (2, 2, 1)
    assert second.delays.deliveries == 1
    assert second.delays.max_s == pytest.approx(0.02)
    assert collector.sample(3.0).delays.deliveries == 0
    assert collector.delays.count == 1
    assert since(first, second)["delivered_events"] == 1
    assert since(first, second)["control_messages"] == 0
    assert collector.brokers()["c"].local_entries == 2


def test_a_broker_that_is_down_has_no_table_and_keeps_its_counts() -> None:
    net, collector = line()
    net.advertise("a", "price >= 0")
    broad = net.subscribe("c", "price > 10")
    net.subscribe("c", "price > 20")
    net.settle()
    net.unsubscribe(broad)
    net.settle()
    assert collector.sample(1.0).triggered == 2
    triggered = {broker: figures.triggered for broker, figures in collector.brokers().items()}
    assert triggered == {"a": 0, "b": 1, "c": 1}
    net.crash("c")
    net.settle()
    down = collector.sample(2.0)
    assert (down.remote_entries, down.local_entries, down.triggered) == (0, 0, 2)
    net.restart("c")
    net.settle()
    again = collector.sample(3.0)
    assert (again.remote_entries, again.local_entries, again.triggered) == (2, 1, 2)


def test_queues_are_longest_since_the_sample_before() -> None:
    net = Network([("a", "b")], service_times="table-ii", keep=False)
    collector = Collector(net, core=("b",))
    net.advertise("a", "price >= 0")
    net.settle()
    collector.sample(1.0)
    for bound in range(5):
        net.subscribe("b", f"price > {10 - bound}")
    net.run(net.now_s + 0.001)
    sample = collector.sample(2.0)
    assert sample.queue_peak == sample.core_queue_peak >= 5
    assert sample.queued >= 4
    net.settle()
    collector.sample(3.0)
    assert collector.sample(4.0).queue_peak == 0
    assert collector.brokers()["b"].queue_peak >= 5
    assert collector.brokers()["b"].busy_s > 0
