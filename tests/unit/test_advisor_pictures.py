"""Pictures and pages as people see them: light and dark, names that can be read, true legends and captions."""

from __future__ import annotations

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import covey
from covey.advisor import network
from covey.advisor.advice import Advice, Tried
from covey.advisor.charts import draw_tried
from covey.advisor.replay import Candidate, Measured
from covey.advisor.rounds import rounds_page
from covey.planning.plan import Plan, PlannedTree
from covey.reports.drawing import STYLE as DRAWN
from covey.reports.drawing import picture, sheet_of
from covey.reports.labels import Box, Mark, places
from covey.reports.page import said
from covey.reports.theme import DARK, LIGHT, MARKS, TEXTS, css, themed

# -- colours -------------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_texts_and_marks_have_enough_contrast(colours: dict[str, str]) -> None:
    poor = [
        (text, on)
        for text, grounds in TEXTS.items()
        for on in grounds
        if contrast(colours[text], colours[on]) < 4.5
    ]
    assert poor == []
    assert [mark for mark in MARKS if contrast(colours[mark], colours["paper"]) < 3] == []
    assert contrast("#000000", "#ffffff") == 21
    assert luminance(LIGHT["paper"]) > 0.9
    assert luminance(DARK["paper"]) < 0.05


def test_a_page_uses_variables_alone_and_each_has_a_light_and_a_dark_value() -> None:
    style = rounds_page([]).partition("<style>")[2].partition("</style>")[0].strip()
    assert style.startswith(css(":root"))
    rules = style.removeprefix(css(":root"))
    assert "@media screen and (prefers-color-scheme: dark)" in style
    assert "color-scheme: light dark" in style
    used = set(re.findall(r"var\(--([\w-]+)\)", rules))
    assert used <= set(LIGHT) == set(DARK)
    on_screen = rules.partition("@media print")[0]
    assert re.findall(r"#[0-9a-f]{3,6}\b", on_screen) == []
    # What is written in a colour stands on grounds for which the contrast is checked.
    assert set(re.findall(r"[^-]color: var\(--([\w-]+)\)", rules)) <= set(TEXTS)


def pictures_in(page: str) -> list[str]:
    return [
        b64decode(found).decode() for found in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    ]


def assert_follows(picture: str) -> None:
    """Every colour of a picture is a variable with a dark value."""
    style, rest = (
        re.search(r"<style>(.*?)</style>", picture, re.DOTALL),
        re.sub("<style>.*?</style>", "", picture, flags=re.DOTALL),
    )
    assert style is not None
    assert "@media screen and (prefers-color-scheme: dark)" in style[1]
    used = set(re.findall(r"var\(--([\w-]+)\)", rest))
    for colours in (LIGHT, DARK):
        assert all(f"--{name}: {colours[name]}" in style[1] for name in used)
    styles = re.findall(r'style="([^"]*)"', rest)
    plain = [one for one in styles if re.search(r"#[0-9a-f]{3,6}\b", re.sub(r"var\([^)]*\)", "", one))]
    assert plain == []
    # A text without a colour would be black in the dark.
    assert all("fill: var(--ink" in text for text in re.findall(r"<text [^>]*>", rest))


def test_only_styles_are_changed_and_unknown_colours_stay() -> None:
    svg = '<svg a="1"><text style="fill: #1e293b">fill: #1e293b</text><g style="stroke: #123456"/></svg>'
    got = themed(svg)
    assert '<text style="fill: var(--ink)">fill: #1e293b</text><g style="stroke: #123456"/>' in got
    assert got.startswith('<svg a="1"><style>svg { color-scheme')
    assert "--ink: #e2e8f0" in got


def test_large_pictures_are_light_in_the_dark_too() -> None:
    assert picture("a", (1, 1), lambda _: "", "png").is_light
    assert not picture("a", (1, 1), lambda _: "").is_light


# -- the network ---------------------------------------------------------------------------------------------


def link(one: str, other: str) -> tuple[str, str]:
    return min(one, other), max(one, other)


def a_plan(brokers: int = 40, trees: int = 3, name: str = "s{}.1", extra: int = 20) -> Plan:
    """A plan on a random overlay; filters of tree t are at every t-th broker."""
    draw = np.random.default_rng(7)
    names = sorted(name.format(place) for place in range(brokers))
    every = [
        {link(names[int(draw.integers(max(0, n - 9), n))], names[n]) for n in range(1, brokers)}
        for _ in range(trees)
    ]
    others = {link(*map(str, draw.choice(names, 2, replace=False))) for _ in range(extra)}
    overlay = sorted(others.union(*every))
    planned = tuple(PlannedTree(names[place], tuple(sorted(every[place]))) for place in range(trees))
    filters = [covey.parse(f"x > {place}").encode() for place in range(2 * brokers)]
    groups = {(names[place % brokers], encoded): place % trees for place, encoded in enumerate(filters)}
    return Plan(
        "m",
        1,
        tuple(names),
        tuple((a, b, 1.0) for a, b in overlay),
        planned,
        groups=groups,
    )


def drawn(plan: Plan, hosted: dict[str, int]) -> tuple[Any, str]:
    with mpl.rc_context(DRAWN):
        sheet = sheet_of((8.4, 9.0), constrained=False)
        caption = network.draw_network(sheet, plan, hosted)
        sheet.canvas.draw()
    return sheet, caption


def discs(axes: Any) -> Iterator[tuple[float, float, float]]:
    """All dots and rings: centre and radius, in pixels."""
    scale = axes.get_figure().dpi / 72
    for marks in axes.collections:
        if hasattr(marks, "get_sizes") and len(marks.get_offsets()):
            points = axes.transData.transform(marks.get_offsets())
            for point, size in zip(points, np.broadcast_to(marks.get_sizes(), len(points)), strict=True):
                yield float(point[0]), float(point[1]), float(np.sqrt(size)) / 2 * scale


def assert_readable(axes: Any, texts: Any) -> None:
    boxes = [text.get_window_extent() for text in texts]
    assert all(text.get_fontsize() >= 9 for text in texts)
    room = axes.get_figure().bbox
    for text, box in zip(texts, boxes, strict=True):
        assert room.x0 <= box.x0 < box.x1 <= room.x1, text
        assert room.y0 <= box.y0 < box.y1 <= room.y1, text
        for x, y, radius in discs(axes):
            nearest = np.hypot(x - np.clip(x, box.x0, box.x1), y - np.clip(y, box.y0, box.y1))
            assert nearest >= radius - 0.01, (text, x, y)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@pytest.mark.parametrize(
    ("brokers", "name"), [(2, "s{}"), (12, "a-long-name-{}-of-a-broker"), (40, "s{}.1"), (60, "broker-{}-x")]
)
def test_names_can_be_read(brokers: int, name: str) -> None:
    plan = a_plan(brokers, min(3, brokers), name)
    sheet, caption = drawn(plan, {broker: 1 + place % 7 for place, broker in enumerate(plan.brokers)})
    (axes,) = sheet.axes
    assert_readable(axes, axes.texts)
    missing = len(plan.brokers) - len(axes.texts)
    assert len(axes.texts) >= 0.7 * brokers
    assert ("left out" in caption) is (missing > 0)
    if missing:
        assert f"{missing} name" in caption
    legend = sheet.legends[0].get_window_extent()
    assert legend.y1 <= axes.get_window_extent().y0 + 1, "the legend is outside the axes"


def test_a_name_without_room_is_left_out() -> None:
    room = Box(0, 0, 30, 12)
    marks = [Mark("one", 5, 6, 2, 18, 9), Mark("two", 25, 6, 2, 18, 9)]
    assert places(marks, marks, (), room, (0, 6)) == {}
    assert list(places(marks, marks, (), Box(-40, -40, 80, 80), (0, 6))) == [0, 1]
    # Where a line runs is worse than where none does.
    free = places(marks[:1], marks[:1], [((5.0, 6.0), (40.0, 6.0))], Box(-40, -40, 80, 80), (0, 6))
    assert not free[0].crossed(((5.0, 6.0), (40.0, 6.0)))


@pytest.mark.parametrize(
    ("trees", "hosts", "extra"),
    [(1, "all", 0), (1, "none", 5), (3, "some", 20), (9, "all", 20), (2, "all", 0)],
)
def test_the_legend_has_what_is_drawn_and_nothing_else(trees: int, hosts: str, extra: int) -> None:
    plan = a_plan(20, trees, extra=extra)
    hosted = {
        broker: 1
        for place, broker in enumerate(plan.brokers)
        if hosts == "all" or (hosts == "some" and place % 2)
    }
    sheet, caption = drawn(plan, hosted)
    (axes,) = sheet.axes
    entries = [text.get_text() for text in sheet.legends[0].get_texts()]
    marks = {one.get_label(): one for one in axes.collections}
    assert sorted(entries) == sorted(marks)
    assert all(
        len(one.get_offsets() if hasattr(one, "get_sizes") else one.get_segments()) for one in marks.values()
    )
    assert ("hosts subscriptions" in entries) is (hosts != "none")
    assert ("hosts no subscription" in entries) is (hosts != "all")
    assert ("not on this tree" in entries) is ("grey" in caption) is (len(plan.links) >= len(plan.brokers))
    links = [entry for entry in entries if entry.startswith("on ")]
    assert ("width of a link" in caption) is (len(links) > 1) is (trees > 1)
    assert "larger a dot" not in caption, "all dots of hosts have one size"
    assert ("root of this tree" if trees in (1, 9) else "root of a tree") in entries


def test_a_root_is_a_ring_around_a_dot_that_stays_visible() -> None:
    plan = a_plan(20, 1)
    sheet, _ = drawn(plan, dict.fromkeys(plan.brokers, 3))
    marks = {one.get_label(): one for one in sheet.axes[0].collections}
    ring, dots = marks["root of this tree"], marks["hosts subscriptions"]
    assert len(ring.get_facecolors()) == 0
    assert ring.get_sizes()[0] > max(dots.get_sizes())
    assert tuple(ring.get_offsets()[0]) in {tuple(point) for point in dots.get_offsets()}


def test_a_large_network_names_its_root_alone() -> None:
    plan = a_plan(100, 9)
    sheet, caption = drawn(plan, dict.fromkeys(plan.brokers, 1))
    assert [text.get_text() for text in sheet.axes[0].texts] == [plan.trees[network.main_tree(plan)].root]
    assert "Only the root is named." in caption


def test_links_are_in_steps_that_cover_every_number_of_trees() -> None:
    for count in (2, 3, 5, 6, 7, 40, 97):
        steps = [network.use_step(used, count) for used in range(1, count + 1)]
        shown = Counter(step for step, _, _ in steps)
        assert steps == sorted(steps)
        assert len(shown) == min(5, count)
        assert all(low <= used <= high for used, (_, low, high) in enumerate(steps, start=1))
        assert all(shown[step] == high - low + 1 for step, low, high in steps)


# -- the trees -----------------------------------------------------------------------------------------------


def panels(plan: Plan) -> tuple[Any, str]:
    with mpl.rc_context(DRAWN):
        sheet = sheet_of((9.3, 7.0), constrained=False)
        caption = network.draw_trees(sheet, plan)
    return sheet, caption


def test_captions_of_trees_promise_what_is_drawn() -> None:
    sheet, caption = panels(a_plan(20, 9))
    assert len(sheet.axes) == 6
    assert "The 6 trees with the most filters" in caption
    assert "Dots are the brokers whose filters belong to the tree." in caption
    for axes in sheet.axes:
        dots, ring = (one for one in axes.collections if hasattr(one, "get_sizes"))
        assert len(dots.get_offsets()) >= 1
        assert len(ring.get_offsets()) == 1
    plain = a_plan(20, 2)
    first = {key: 0 for key in plain.groups if key[0] == plain.trees[0].root}
    regions = Plan("regions", 1, plain.brokers, plain.links, plain.trees, "nearest", first)
    sheet, caption = panels(regions)
    assert caption.startswith("The 2 trees, each")
    assert (
        "Dots are the brokers of the region that the tree serves. For these trees that is the root alone."
        in caption
    )
    dots, ring = (one for one in sheet.axes[0].collections if hasattr(one, "get_sizes"))
    assert dots.get_sizes()[0] < ring.get_sizes()[0], "the dot is inside the ring"
    empty = Plan("m", 1, plain.brokers, plain.links, plain.trees)
    assert "ots" not in panels(empty)[1].replace("roots", "")


# -- charts --------------------------------------------------------------------------------------------------


def advice(*costs: tuple[str, float, int]) -> Advice:
    tried = [
        Tried(Candidate(name, name, told), Measured(cost, 1, 0, entries, 1, 9, 1, 0.0))
        for name, cost, entries in costs
        for told in (True, False)
    ]
    return Advice(tried, tried[-1], tried[0], "", "", (), 10, 10)


@pytest.mark.parametrize("entries", [(50, 60, 70, 80), (1, 50, 900, 80_000)])
def test_what_was_replayed_can_be_read(entries: tuple[int, ...]) -> None:
    near = advice(
        *((f"a-strategy-with-a-name-{place}", 10.0 + place, size) for place, size in enumerate(entries))
    )
    with mpl.rc_context(DRAWN):
        sheet = sheet_of((7.6, 5.0), constrained=False)
        caption = draw_tried(sheet, near)
        sheet.canvas.draw()
    (axes,) = sheet.axes
    assert_readable(axes, axes.texts)
    assert len(axes.texts) >= 3
    assert "times the cheapest" not in caption
    texts = [text.get_text() for text in sheet.legends[0].get_texts()]
    assert texts == ["with advertisements", "without advertisements", "runs now", "recommended"]
    with mpl.rc_context(DRAWN):
        sheet = sheet_of((7.6, 5.0), constrained=False)
        caption = draw_tried(sheet, advice(("a", 10.0, 5), ("flooding", 100.0, 0)))
    assert "2 ways of routing that cost more than 5 times the cheapest are left out" in caption
    texts = [text.get_text() for text in sheet.legends[0].get_texts()]
    assert texts == ["with advertisements", "without advertisements", "recommended"], (
        "what runs now is too far off"
    )


# -- pages ---------------------------------------------------------------------------------------------------


def test_rounds_follow_light_and_dark_and_count_in_words() -> None:
    def one(number: int, action: str, **more: Any) -> dict[str, Any]:
        return {"number": number, "at_s": 0.0, "action": action, "reason": "x", **more}

    page = rounds_page([one(1, "keep", measured=3.0), one(2, "install", measured=2.0, planned=1.0)])
    (picture,) = pictures_in(page)
    assert_follows(picture)
    words = re.findall(r">([^<>]+)</text>", picture)
    assert "plan installed" in words
    assert "plan taken back" not in words
    assert "2 rounds: 1 plan was installed." in page
    assert "Nothing has been measured yet." in rounds_page([])
    assert "Upright lines" not in rounds_page([one(1, "keep", measured=3.0)])


def test_what_stands_between_backticks_is_code_and_nothing_else_is() -> None:
    assert said("use `a<b` and c") == "use <code>a&lt;b</code> and c"
    assert said("a ` b") == "a ` b"
