"""The dashboard's pure part: what brokers said becomes what is shown."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from covey.core.families import parse
from covey.dashboard import server
from covey.dashboard.covering import tree_of
from covey.dashboard.history import POINTS, SERIES, STEP_S, History, added, bursts, percentile
from covey.dashboard.layout import LEAST_APART, layout_of
from covey.dashboard.model import DOWN, SILENT_S, UNKNOWN, UP, Source, view_of
from covey.dashboard.reading import MAX_LINKS, Snapshot, read_snapshot, trees_of
from covey.dashboard.sessions import ADMIN, MAX_SESSIONS, SESSION_S, VIEWER, Sessions
from covey.errors import CoveyError


def said(broker: str, uptime_s: float = 10.0, links: Any = (), **more: Any) -> dict[str, Any]:
    """Return what a broker says on /watchz."""
    return {
        "broker": broker,
        "version": "1",
        "strategy": "covering",
        "uptime_s": uptime_s,
        "ready": True,
        "clients": 1,
        "subscriptions": 2,
        "entries": 3,
        "totals": {"events_published": 0, "events_received": 0, "events_forwarded": 0, "events_delivered": 0},
        "links": [{"up": True, "open": True, **link} for link in links],
        **more,
    }


def snapshot(broker: str, uptime_s: float = 10.0, links: Any = (), **more: Any) -> Snapshot:
    return read_snapshot(msgspec.json.encode(said(broker, uptime_s, links, **more)))


def source(*snapshots: Snapshot, heard_s: float = 100.0) -> Source:
    found = Source(f"http://{snapshots[-1].broker}:1")
    for one in snapshots:
        found.hear(one, heard_s)
    return found


# == reading ===============================================================================================


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff\xfe",
        b'{"broker": 1}',
        b"[" * 100_000,
        msgspec.json.encode(said("")),
        msgspec.json.encode(said("x" * 201)),
        msgspec.json.encode(said("a", links=[{"link": "b"}] * (MAX_LINKS + 1))),
        msgspec.json.encode({**said("a"), "totals": {"events_published": "many"}}),
    ],
)
def test_what_is_no_snapshot_is_one_line(line: bytes) -> None:
    with pytest.raises(CoveyError, match=r"^/watchz "):
        read_snapshot(line)


@pytest.mark.parametrize("page", [None, {}, {"epochs": []}, {"epochs": [{"current": True}]}, {"epochs": [1]}])
def test_what_is_no_plan_page_is_one_line(page: Any) -> None:
    with pytest.raises(CoveyError, match=r"^/planz "):
        trees_of(page)


# == the model =============================================================================================


def test_rates_are_by_the_clock_of_the_broker() -> None:
    before = snapshot("a", 10.0, totals={"events_published": 100}, control_in=5)
    now = snapshot("a", 12.0, totals={"events_published": 300}, control_in=6, control_out=3)
    (row,) = view_of([source(before, now)], 100.0)["brokers"]
    assert (row["published"], row["control"], row["nobody"], row["state"]) == (100.0, 2.0, 100.0, UP)


def test_a_broker_that_was_started_again_has_no_rate_at_first() -> None:
    found = source(snapshot("a", 500.0, totals={"events_published": 900}), snapshot("a", 1.0))
    assert found.before is None
    assert view_of([found], 100.0)["brokers"][0]["published"] == 0.0
    found.hear(snapshot("a", 2.0, totals={"events_published": 7}), 101.0)
    assert view_of([found], 101.0)["brokers"][0]["published"] == 7.0


def test_counts_that_go_back_are_no_rate() -> None:
    found = source(
        snapshot("a", 1.0, totals={"events_published": 9}), snapshot("a", 2.0, totals={"events_published": 1})
    )
    assert view_of([found], 100.0)["brokers"][0]["published"] == 0.0


def test_a_broker_is_down_at_once_if_its_stream_ends_and_soon_if_it_is_silent() -> None:
    found = source(snapshot("a"))
    assert found.state(100.0 + SILENT_S) == UP
    assert found.state(100.1 + SILENT_S) == DOWN
    # With what lies between two looks, that is within three seconds of the last line that came in time.
    assert SILENT_S + server.TICK_S < 3.5
    found.fail("connection refused")
    assert found.state(100.0) == DOWN
    found.hear(snapshot("a", gap_s=4.0), 100.0)  # one with ten thousand clients
    assert (found.state(110.5), found.state(110.6)) == (UP, DOWN)
    found.hear(snapshot("a", gap_s=1e9), 100.0)
    assert found.state(200.0) == DOWN
    found.fail("connection refused")
    (row,) = view_of([found], 100.0)["brokers"]
    assert (row["state"], row["error"]) == (DOWN, "connection refused")
    assert "published" not in row  # what it did last is not what it does


def test_links_are_what_both_ends_say() -> None:
    a = source(
        snapshot("a", 1.0, [{"link": "b", "sent": 0}, {"link": "x"}]),
        snapshot("a", 2.0, [{"link": "b", "sent": 40, "queue_events": 80}, {"link": "x"}]),
    )
    b = source(
        snapshot("b", 1.0, [{"link": "a", "sent": 0}]), snapshot("b", 2.0, [{"link": "a", "sent": 10}])
    )
    view = view_of([b, a], 100.0)
    assert [row["name"] for row in view["brokers"]] == ["a", "b", "x"]
    assert view["brokers"][2]["state"] == UNKNOWN
    both, outside = view["links"]
    assert (both["a"], both["b"], both["state"], both["ab"], both["ba"]) == ("a", "b", UP, 40.0, 10.0)
    assert (both["queue"], both["delay_s"]) == (80, 2.0)
    assert outside["state"] == UP  # as far as the one that is asked can see


@pytest.mark.parametrize(
    ("one", "two", "state"),
    [
        ({}, {}, UP),
        ({"up": False, "open": False}, {}, DOWN),
        ({}, {"up": False, "open": False}, DOWN),
        ({"open": False}, {}, "opening"),
    ],
)
def test_a_link_is_down_if_one_end_says_so(one: dict[str, bool], two: dict[str, bool], state: str) -> None:
    a, b = (
        source(snapshot("a", links=[{"link": "b", **one}])),
        source(snapshot("b", links=[{"link": "a", **two}])),
    )
    assert view_of([a, b], 100.0)["links"][0]["state"] == state


def test_links_of_a_broker_that_is_down_are_down() -> None:
    a, b = source(snapshot("a", links=[{"link": "b"}])), source(snapshot("b", links=[{"link": "a"}]))
    b.fail("gone")
    view = view_of([a, b], 100.0)
    assert view["links"][0]["state"] == DOWN
    assert view["totals"]["down"] == 1


def test_trees_are_the_links_that_either_end_names() -> None:
    a, b = source(snapshot("a")), source(snapshot("b"))
    a.trees, b.trees = {0: ["b"], 1: []}, {0: ["a", "c"]}
    assert view_of([a, b], 100.0)["trees"] == {0: [("a", "b"), ("b", "c")], 1: []}


def test_slow_consumers_the_slowest_first() -> None:
    slow = [
        {"link": "~1", "name": "ann", "queue_events": 5},
        {"link": "~2", "name": "bob", "queue_events": 9},
    ]
    assert [row["name"] for row in view_of([source(snapshot("a", slow=slow))], 100.0)["slow"]] == [
        "bob",
        "ann",
    ]


def test_histograms_of_the_last_minute() -> None:
    found = source(snapshot("a", 1.0, latencies={"hop": [1, 2, 3]}))
    assert found.recent("hop") == [1, 2, 3]
    found.mark()
    found.hear(snapshot("a", 2.0, latencies={"hop": [1, 4, 3]}), 101.0)
    assert found.recent("hop") == [0, 2, 0]
    assert found.recent("commit") == []
    found.hear(snapshot("a", 0.5, latencies={"hop": [1, 0, 0]}), 102.0)  # started again
    assert found.recent("hop") == [1, 0, 0]


# == the last hour =========================================================================================


def test_curves_have_a_point_a_step_and_an_hour_of_them() -> None:
    history, now_s = History(), 0.0
    for _ in range(2 * POINTS):
        history.add({"totals": {"published": 10.0, "queue": 3.0}, "brokers": []}, now_s)
        history.add({"totals": {"published": 20.0, "queue": 1.0}, "brokers": []}, now_s + 1)
        now_s += STEP_S
    found = history.curves()
    assert found["series"]["published"] == [15.0] * POINTS
    assert found["series"]["queue"] == [3.0] * POINTS  # the most
    assert set(found["series"]) == set(SERIES)
    assert history.curves("nobody")["series"]["published"] == []


def test_a_pause_leaves_zeros() -> None:
    history = History()
    history.add({"totals": {"published": 10.0}, "brokers": [{"name": "a", "published": 4.0}]}, 0.0)
    history.add({"totals": {"published": 10.0}, "brokers": []}, 3 * STEP_S)
    assert history.curves()["series"]["published"] == [10.0, 0.0, 0.0]
    assert history.curves("a")["series"]["published"] == [4.0, 0.0, 0.0]
    history.add({"totals": {}, "brokers": []}, 1e9)  # a machine that slept for years
    assert len(history.curves()["series"]["published"]) == POINTS


def test_brokers_beyond_the_most_have_no_curve() -> None:
    history = History(most=2)
    for now_s in (0.0, STEP_S):
        history.add({"totals": {}, "brokers": [{"name": name} for name in "abc"]}, now_s)
    assert [len(history.curves(name)["series"]["queue"]) for name in "abc"] == [1, 1, 0]


def test_bursts() -> None:
    calm = [10.0, 11.0, 9.0] * 10
    assert bursts(calm) == []
    assert bursts([*calm, 90.0, 80.0, 10.0, 70.0]) == [(30, 31), (33, 33)]
    assert bursts([0.0] * 20 + [4.0]) == []  # too few to matter
    assert bursts([0.0] * 20 + [400.0] * 50) == [(20, 69)]  # a long one is one
    assert bursts([400.0]) == []  # nothing to compare with


def test_percentiles_beside_all_samples() -> None:
    random, bounds = Random(1), [0.001, 0.01, 0.1, 1.0]
    samples = sorted(random.choice([0.0005, 0.004, 0.02, 0.3]) for _ in range(1_000))
    counts = [
        sum(low < one <= high for one in samples)
        for low, high in zip([-1.0, *bounds], [*bounds, 9.9], strict=True)
    ]
    for share in (0.1, 0.5, 0.95, 0.99):
        exact = samples[int(share * len(samples)) - 1]
        found = percentile(bounds, counts, share)
        assert found is not None
        place = next(at for at, bound in enumerate(bounds) if exact <= bound)
        assert (bounds[place - 1] if place else 0.0) <= found <= bounds[place]
    assert percentile(bounds, [0, 0, 0, 0, 7], 0.5) == 1.0
    assert percentile(bounds, [0] * 5, 0.5) is None
    assert percentile(bounds, [1], 0.5) is None
    assert added([[1, 2], [3, 4], [5]]) == [4, 6]
    assert added([]) == []


# == the map ===============================================================================================


def ring(count: int, stem: str = "b") -> tuple[list[str], list[tuple[str, str]]]:
    names = [f"{stem}{number}" for number in range(count)]
    return names, list(zip(names, [*names[1:], names[0]], strict=True))


def test_the_map_is_the_same_whatever_the_order() -> None:
    names, links = ring(20)
    random = Random(1)
    first = layout_of(names, links)
    for _ in range(3):
        random.shuffle(names)
        turned = [(b, a) if random.random() < 0.5 else (a, b) for a, b in links]
        random.shuffle(turned)
        assert layout_of(names, turned) == first


@pytest.mark.parametrize("count", [1, 2, 3, 12, 120])
def test_no_two_brokers_are_on_top_of_each_other(count: int) -> None:
    random = Random(count)
    names = [f"n{number}" for number in range(count)]
    links = [(name, random.choice(names[:place])) for place, name in enumerate(names) if place]
    places = list(layout_of(names, links).places.values())
    for place, (x, y) in enumerate(places):
        for a, b in places[:place]:
            assert (x - a) ** 2 + (y - b) ** 2 > (0.6 * LEAST_APART) ** 2


def test_neighbours_are_nearer_than_others() -> None:
    names, links = ring(24)
    places = layout_of(names, links).places

    def apart(a: str, b: str) -> float:
        return float(((places[a][0] - places[b][0]) ** 2 + (places[a][1] - places[b][1]) ** 2) ** 0.5)

    assert max(apart(a, b) for a, b in links) < min(apart(names[n], names[(n + 12) % 24]) for n in range(24))


def test_parts_without_links_between_them_are_side_by_side() -> None:
    names, links = ring(6)
    others, more = ring(5, "z")
    places = layout_of(
        [*names, *others, "alone"], [*links, *more, ("alone", "alone"), ("alone", "unknown")]
    ).places
    assert max(places[name][0] for name in names) < min(places[name][0] for name in others)
    assert len(places) == 12


def test_groups_by_what_names_have_in_common() -> None:
    names = [f"{city}-{number}" for city in ("paris", "rome", "oslo") for number in range(12)]
    links = [(name, names[place // 12 * 12]) for place, name in enumerate(names) if place % 12]
    links += [("paris-0", "rome-0"), ("rome-0", "oslo-0")]
    groups = layout_of(names, links).groups
    assert {name: len(group["brokers"]) for name, group in groups.items()} == {
        "oslo": 12,
        "paris": 12,
        "rome": 12,
    }
    assert all(len(group["hull"]) >= 3 for group in groups.values())


def test_groups_of_a_tree_if_names_say_nothing() -> None:
    random = Random(2)
    names = [str(random.getrandbits(60)) + "x" for _ in range(100)]
    links = [(name, names[(place - 1) // 3]) for place, name in enumerate(names) if place]
    groups = layout_of(names, links).groups
    members = [name for group in groups.values() for name in group["brokers"]]
    assert 3 <= len(groups) <= 40
    assert len(members) == len(set(members)) >= 80
    assert layout_of(names[:12], links[:11]).groups == {}  # a small map needs none


# == covering ==============================================================================================


def test_the_tree_of_covering_is_what_the_filters_say() -> None:
    texts = ["price < 5", "price < 10", "price < 5 AND a = 1", "b = 1", "price < 10", "price < 7"]
    rows = [{"broker": "x", "filter": text, "language": "attributes"} for text in texts]
    found = tree_of([*rows, {"filter": "price < 1 …"}, {"filter": "price <"}, {}])
    assert found["unread"] == 3
    nodes = {row["filter"]: row for row in found["rows"]}
    places = {row["place"]: row for row in found["rows"]}
    assert len(nodes) == 5
    assert len(nodes["price < 10"]["holders"]) == 2
    for row in found["rows"]:
        above = [
            other
            for other in nodes.values()
            if other is not row and parse(other["filter"]).covers(parse(row["filter"]))
        ]
        assert (row["parent"] is None) == (not above)
        if above:
            parent = parse(places[row["parent"]]["filter"])
            assert parent.covers(parse(row["filter"]))
            assert not any(
                parent.covers(parse(other["filter"])) for other in above if other["place"] != row["parent"]
            )
    assert nodes["price < 10"]["uncovered"] == [nodes["price < 7"]["place"]]
    assert nodes["price < 7"]["uncovered"] == []  # what is below it is covered by price < 10, too


# == sessions ==============================================================================================


def test_sessions() -> None:
    sessions = Sessions({"secret-token": ADMIN, "other-token": VIEWER})
    assert sessions.log_in("wrong", 0.0) is None
    assert sessions.log_in("", 0.0) is None
    assert sessions.log_in("\ud800", 0.0) is None
    name, role = sessions.log_in("secret-token", 0.0) or ("", "")
    assert (role, sessions.role(name, 1.0), sessions.role("other", 1.0)) == (ADMIN, ADMIN, None)
    assert sessions.role(name, SESSION_S) is None
    viewer, role = sessions.log_in("other-token", 0.0) or ("", "")
    assert role == VIEWER
    sessions.log_out(viewer)
    assert sessions.role(viewer, 1.0) is None
    first, _ = sessions.log_in("secret-token", 5.0) or ("", "")
    for _ in range(MAX_SESSIONS):
        sessions.log_in("secret-token", 5.0)
    assert sessions.role(first, 6.0) is None  # there is an end
