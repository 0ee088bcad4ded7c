"""Comparisons: growth against known power laws, tables and the page's block from fixed rows, the picture, a run."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import msgspec
import pytest
from tests.unit.test_advisor_pictures import assert_follows

from covey.bench import parts, picture
from covey.bench.comparison import Comparison, Run, largest, load, save
from covey.bench.document import BEGIN, END, PICTURE, block, replaced, write_block
from covey.bench.growth import fitted, growths
from covey.bench.picture import check_picture, drawn, panels, write_picture
from covey.bench.tables import growth_lines, ratio_lines, ratio_text
from covey.errors import ConfigError, CoveyError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
ROWS = ROOT / "docs" / "performance.json"


def row(
    size: int, ours: float, theirs: float, baseline: str = "scan", equal: bool | None = True
) -> Comparison:
    return Comparison(
        part="toy",
        work="sorting",
        unit="µs",
        axis="numbers",
        size=size,
        ours=ours,
        baseline=baseline,
        theirs=theirs,
        equal=equal,
    )


LINEAR = [row(size, 3.0 * size**0.5, 2.0 * size) for size in (10, 100, 1_000)]
QUADRATIC = [row(size, 3.0 * size**0.5, 0.5 * size**2, "bubbles") for size in (10, 100, 1_000)]
MISSING = Comparison(part="other", work="could not run", note="there is no Java")


def made(comparisons: list[Comparison]) -> Run:
    return Run(
        made="2026-01-02 03:04 UTC",
        machine="2 cores",
        quick=False,
        load_before=0.5,
        load_after=1.25,
        seconds={"toy": 61.0, "other": 0.0},
        comparisons=comparisons,
    )


# -- growth --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-0.5, 0.0, 0.31, 1.0, 2.0])
def test_a_power_law_is_found(exponent: float) -> None:
    sizes = (10, 70, 300, 20_000)
    assert fitted(sizes, [7.0 * size**exponent for size in sizes]) == pytest.approx(exponent, abs=1e-9)


def test_noise_is_averaged_over_all_sizes_and_not_only_the_ends() -> None:
    """Least squares by the textbook: slope = cov(x, y) / var(x) on logarithms to base 10."""
    assert fitted((10, 100, 1_000), (1.0, 100.0, 10.0)) == pytest.approx((1 * 1 + 0 - 1 * 0) / 2)
    # The outlier in the middle does not tilt the line; one beside the middle of four does.
    assert fitted((1, 10, 100, 1_000), (1.0, 1.0, 10.0, 1.0)) == pytest.approx(0.5 / 5)


def test_two_sizes_are_too_few_and_nothing_has_no_logarithm() -> None:
    assert fitted((10, 100), (1.0, 2.0)) is None
    assert fitted((10, 10, 100), (1.0, 1.0, 2.0)) is None
    assert fitted((10, 100, 1_000), (1.0, 0.0, 2.0)) is None
    assert fitted((10, 100, 1_000), (1.0, None, 2.0)) is None


def test_growth_is_by_work_with_all_baselines() -> None:
    (found,) = growths([*LINEAR, *QUADRATIC, MISSING])
    assert found.sizes == (10, 100, 1_000)
    assert found.ours == pytest.approx(0.5)
    assert found.theirs == {"scan": pytest.approx(1.0), "bubbles": pytest.approx(2.0)}
    assert growths(LINEAR[:2]) == []


# -- tables --------------------------------------------------------------------------------------------------


def test_the_table_has_the_largest_size_of_each_and_says_what_is_missing() -> None:
    assert largest([*LINEAR, *QUADRATIC]) == [LINEAR[-1], QUADRATIC[-1]]
    assert ratio_lines([*LINEAR, MISSING]) == [
        ("toy", "sorting", "1,000 numbers", "94.9 µs", "scan", "2,000", "× 21", "yes"),
        ("other", "could not run", "–", "–", "there is no Java", "–", "–", "–"),
    ]
    assert growth_lines([*LINEAR, *QUADRATIC]) == [
        ("toy", "sorting", "numbers: 10, 100, 1,000", "0.50", "scan 1.00, bubbles 2.00")
    ]


def test_work_without_another_way_has_growth_and_no_ratio() -> None:
    alone = [
        Comparison(part="toy", work="alone", unit="s", axis="numbers", size=size, ours=2.0 * size)
        for size in (1, 10, 100)
    ]
    assert ratio_lines(alone) == []
    assert growth_lines(alone) == [("toy", "alone", "numbers: 1, 10, 100", "1.00", "–")]


def test_a_ratio_is_the_other_cost_over_ours() -> None:
    assert row(1, 4.0, 1.0).ratio == 0.25
    assert row(1, 0.0, 1.0).ratio is None
    assert [ratio_text(value) for value in (12_345.6, 12.3, 1.234, 0.0456, None)] == [
        "× 12,346",
        "× 12",
        "× 1.2",
        "× 0.046",
        "–",
    ]


def test_different_answers_are_shouted() -> None:
    wrong = row(10, 1.0, 2.0, equal=False)
    assert made([*LINEAR, wrong]).differing == [wrong]
    assert ratio_lines([wrong])[0][-1] == "NO"
    assert "1 of them differed" in block(made([wrong]), PICTURE)


# -- saved runs ----------------------------------------------------------------------------------------------


def test_a_saved_run_is_read_back(tmp_path: Path) -> None:
    run = made([*LINEAR, MISSING])
    save(run, tmp_path / "rows.json")
    assert load(tmp_path / "rows.json") == run


@pytest.mark.parametrize("text", ["", "[]", '{"made": 1}', '{"rows": []}', "\xff"])
def test_a_file_without_a_run_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="has no figures"):
        load(path)
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path / "none.json")


# -- the page ------------------------------------------------------------------------------------------------


def test_the_block_goes_between_the_markers_and_nothing_else_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\n## After\n")
    write_block(made([*LINEAR, MISSING]), page, PICTURE)
    text = page.read_text()
    assert text.startswith(f"# Title\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\n## After\n")
    assert "old" not in text
    assert "| toy | sorting | 1,000 numbers | 94.9 µs | scan | 2,000 | × 21 | yes |" in text
    assert "| toy | sorting | numbers: 10, 100, 1,000 | 0.50 | scan 1.00 |" in text
    assert "| other | could not run | – | – | there is no Java | – | – | – |" in text
    assert f"]({PICTURE})" in text
    assert "toy 61 s" in text
    write_block(made([*LINEAR, MISSING]), page, PICTURE)
    assert page.read_text() == text


def test_the_block_warns_of_small_sizes_and_of_a_busy_machine() -> None:
    calm = made(LINEAR)
    assert "**" not in block(calm, PICTURE)
    assert "small sizes" in block(msgspec.structs.replace(calm, quick=True), PICTURE)
    assert "Others were at work" in block(msgspec.structs.replace(calm, load_before=3.0), PICTURE)


@pytest.mark.parametrize(
    "page", ["", BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}", f"{BEGIN}{END}{END}"]
)
def test_a_page_without_a_place_is_refused(page: str) -> None:
    with pytest.raises(ConfigError, match="no place for the figures"):
        replaced(page, made(LINEAR), PICTURE)


def test_the_page_that_is_kept_has_the_figures_that_are_kept() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert replaced(text, load(ROWS), PICTURE) == text, "run: covey bench document docs/performance.json"
    picture = PAGE.parent / PICTURE
    assert picture.stat().st_size < 150_000
    assert_follows(picture.read_text(encoding="utf-8"))
    words = "".join(ElementTree.parse(picture).getroot().itertext())
    assert all(title in words for title in panels(load(ROWS).comparisons))


def test_the_run_that_is_kept_is_whole_and_its_answers_were_equal() -> None:
    run = load(ROWS)
    assert {one.part for one in run.comparisons} == set(parts.PARTS)
    assert not run.differing
    assert {one.part for one in growths(run.comparisons)} == set(parts.PARTS)


# -- the picture ---------------------------------------------------------------------------------------------


def test_the_picture_has_a_panel_for_each_part_that_grew(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "growth.svg"
    write_picture([*LINEAR, *QUADRATIC, MISSING], path)
    words = "".join(ElementTree.parse(path).getroot().itertext())
    for word in ("toy, µs by numbers", "sorting", "scan", "bubbles"):
        assert word in words
    assert drawn(LINEAR, ".svg") == drawn(LINEAR, ".svg")
    assert_follows(drawn(LINEAR, ".svg").decode())
    assert drawn(LINEAR, ".png").startswith(b"\x89PNG")


def test_nothing_to_draw_and_nowhere_to_draw_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to draw"):
        drawn(LINEAR[:2], ".svg")
    with pytest.raises(ConfigError, match="ends with"):
        check_picture(tmp_path / "growth.gif")
    with pytest.raises(ConfigError, match="directory that is there"):
        check_picture(tmp_path / "none" / "growth.svg")


# -- parts ---------------------------------------------------------------------------------------------------


class Toy:
    """Two parts, of which one cannot run."""

    @staticmethod
    def compare(progress: parts.Progress, *, fails: bool) -> list[Comparison]:
        progress("at work")
        if fails:
            raise CoveyError("there is\nno Java")
        return LINEAR


def test_a_part_that_cannot_run_says_so_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    toys = {
        "other": parts.Part("toy", {"fails": True}, {"fails": True}),
        "toy": parts.Part("toy", {"fails": False}, {"fails": True}),
    }
    monkeypatch.setattr(parts, "PARTS", toys)
    monkeypatch.setattr(parts, "import_module", lambda _: Toy)
    said: list[str] = []
    run = parts.run(["other", "toy"], said.append, quick=True)
    assert run.comparisons == [MISSING, *LINEAR]
    assert said == ["other: at work", "toy: at work"]
    assert list(run.seconds) == ["other", "toy"]
    assert parts.run(["toy"], said.append, quick=False).comparisons[0].note == "there is no Java"
    with pytest.raises(ConfigError, match="no part 'none'"):
        parts.measured("none", said.append, quick=True)


def test_every_part_has_three_sizes_or_more_of_what_grows() -> None:
    for part in parts.PARTS.values():
        for sizes in (part.quick, part.thorough):
            grown = [
                value
                for name, given in sizes.items()
                if name not in ("subscribers", "peers", "strategies")
                for value in (given.values() if isinstance(given, dict) else [given])
                if isinstance(value, tuple)
            ]
            assert all(len(set(value)) >= 3 for value in grown)
            assert len(sizes.get("subscribers", (0, 0))) >= 2  # and one subscriber


def test_panels_are_large_and_nothing_is_printed_over_anything_else() -> None:
    long_name = "a work whose name is as long as names of works become when they say all that they do"
    comparisons = [
        Comparison(
            part=part, work=f"{long_name}, {number}", unit="µs", axis="filters", size=size, ours=2.0 * size,
            baseline=baseline, theirs=3.0 * size * number, equal=True,
        )
        for part in ("matching", "covering", "routing")
        for number in range(1, 7)
        for size in (10_000, 50_000, 100_000, 250_000, 1_000_000)
        for baseline in ("the scan of all filters", "the counting index", "another way to do the same")
    ]  # fmt: skip
    with mpl.rc_context(picture.STYLE):
        sheet = picture.sheet_of(comparisons)
        sheet.canvas.draw()
        pixels = sheet.canvas.get_renderer()
        seen = sheet.bbox
        panels = []
        for axes in sheet.axes:
            inside = axes.get_window_extent(pixels)
            assert inside.width >= 4 * sheet.dpi
            assert inside.height >= 2 * sheet.dpi
            numbers = [label.get_window_extent(pixels) for label in axes.get_xticklabels()]
            assert not any(
                one.overlaps(two) for one, two in pairwise(sorted(numbers, key=lambda box: box.x0))
            )
            panels.append(axes.get_tightbbox(pixels))
        assert not any(one.overlaps(two) for one, two in combinations(panels, 2))
        for box in panels:
            assert seen.x0 <= box.x0
            assert box.x1 <= seen.x1
            assert seen.y0 <= box.y0
            assert box.y1 <= seen.y1
