"""The check for import cycles finds them, and keeps the list of known ones from growing."""

from __future__ import annotations

from checks.import_cycles import cycles, differences


def test_cycles_are_the_sets_of_modules_that_reach_each_other() -> None:
    imports = {
        "a": ["b", "outside"],
        "b": ["c"],
        "c": ["a", "d"],
        "d": ["e"],
        "e": ["d"],
        "f": ["a", "d"],
        "g": [],
    }
    assert set(cycles(imports)) == {frozenset("abc"), frozenset("de")}


def test_no_cycle_is_seen_where_two_ways_lead_to_one_module() -> None:
    assert cycles({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}) == []


def test_long_chains_do_not_exhaust_the_stack() -> None:
    names = [f"m{number:05}" for number in range(5_000)]
    imports = {name: [after] for name, after in zip(names, [*names[1:], names[0]], strict=True)}
    assert cycles(imports) == [frozenset(names)]


def test_a_new_a_grown_and_a_vanished_cycle_are_told() -> None:
    known = {frozenset("ab"), frozenset("cd"), frozenset("xy")}
    lines = list(differences([frozenset("abe"), frozenset("cd"), frozenset("fg")], known))
    assert [line.rpartition(": ")[2] for line in lines] == ["a, b, e", "f, g", "a, b", "x, y"]
    assert not list(differences(known, known))
