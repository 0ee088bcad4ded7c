"""The order in which passwords are checked: known names first, addresses in turn, one check for the same, bounds."""

from __future__ import annotations

from typing import Any

import pytest

from covey.broker import admission as module
from covey.broker.actions import Action, Denied, Entered, Verify, Verifying
from covey.broker.admission import CHECKS, MAX_CHECKS_OF_ADDRESS, MAX_UNKNOWN, Logins, Shown
from covey.broker.security import Security, hash_password, hash_token, read_security
from covey.errors import BusyError

HASH = str(hash_password("horse", log2_n=4))


def users(*names: str, **more: Any) -> Security:
    return Security(read_security({"users": [{"name": name, "password": HASH} for name in names], **more}))


class Desk:
    """Logins whose checks are done when a test says so."""

    def __init__(self, security: Security) -> None:
        self.logins = Logins(security, 1_000)
        self.running: dict[int, str] = {}  # passwords
        self.begun: list[str] = []
        self.entered: list[int] = []
        self.denied: dict[int, Exception] = {}

    def show(self, login: int, user: str, password: str = "", address: str = "near") -> None:
        self.take(self.logins.show(login, Shown(user, password or user), address, 0.0))

    def done(self, password: str, is_right: bool = False) -> None:
        number = next(number for number, one in self.running.items() if one == password)
        del self.running[number]
        self.take(self.logins.verified(number, is_right, 0.0))

    def finish(self) -> None:
        """Find every password wrong."""
        while self.running:
            self.done(next(iter(self.running.values())))

    def take(self, found: Any) -> None:
        action: Action
        for action in found:
            if isinstance(action, Verify):
                self.running[action.check] = action.password
                self.begun.append(action.password)
            elif isinstance(action, Entered):
                self.entered.append(action.login)
            elif isinstance(action, Denied):
                self.denied[action.login] = action.error
            else:
                assert isinstance(action, Verifying)


def test_a_flood_of_unknown_names_leaves_known_ones_alone() -> None:
    desk = Desk(users("ann", "bob"))
    for number in range(500):
        desk.show(number, f"nobody {number}")
    assert len(desk.running) == 1, "one at a time, so that a check is free for who exists"
    assert len(desk.denied) == 500 - MAX_UNKNOWN - 1
    assert all(isinstance(error, BusyError) for error in desk.denied.values())
    desk.show(500, "ann")
    assert "ann" in desk.running.values(), "at once"
    desk.show(501, "bob")
    desk.done("nobody 0")
    assert "bob" in desk.running.values(), "before all unknown names that wait"
    desk.done("ann", True)
    desk.done("bob", True)
    assert desk.entered == [500, 501]
    desk.finish()
    assert len(desk.denied) == 500
    assert not desk.logins.waiting


def observed(name: str) -> list[object]:
    """Return all that somebody sees who tries twelve passwords for a name at a time, twice, while nobody else comes."""
    desk, seen = Desk(users("ann")), list[object]()
    for number in range(24):
        desk.show(number, name, f"guess {number}")
        seen.append((sorted(desk.denied), sorted(desk.running.values())))
        if number == 11:
            while desk.running:
                desk.done(next(iter(desk.running.values())))
                seen.append((sorted(desk.denied), sorted(desk.running.values())))
    return [*seen, [(number, type(error), str(error)) for number, error in desk.denied.items()]]


def test_who_tries_many_passwords_of_one_name_does_not_learn_whether_it_exists() -> None:
    """Neither by who is told to come back later, nor by how many are checked at a time."""
    assert observed("ann") == observed("nobody")


def test_passwords_of_one_name_are_checked_one_after_the_other_for_each_address() -> None:
    desk = Desk(users("ann", "bob"))
    for number in range(3):
        desk.show(number, "ann", f"guess {number}", "guesser")
    assert desk.begun == ["guess 0"]
    desk.show(3, "bob", address="guesser")
    assert desk.begun == ["guess 0", "bob"]
    desk.done("bob", True)
    desk.show(4, "ann", "horse", "home")
    assert desk.begun == ["guess 0", "bob", "horse"], "whoever guesses from elsewhere delays nobody"
    desk.done("horse", True)
    desk.finish()
    assert desk.entered == [3, 4]
    assert sorted(desk.denied) == [0, 1, 2]
    assert not desk.logins.waiting


def test_the_same_login_is_checked_once() -> None:
    desk = Desk(users("ann"))
    for number in range(1_000):
        desk.show(number, "ann", "horse", f"host {number % 7}")
    assert desk.begun == ["horse"]
    desk.logins.left(3)
    desk.done("horse", True)
    assert desk.entered == [number for number in range(1_000) if number != 3]


def test_logins_that_wait_for_one_check_are_bounded_too() -> None:
    desk = Desk(users("ann"))
    for number in range(1_500):
        desk.show(number, "ann", "horse")
    assert len(desk.denied) == 500
    desk.done("horse", True)
    assert len(desk.entered) == 1_000


def test_addresses_take_turns() -> None:
    names = [f"user {number}" for number in range(30)]
    desk = Desk(users(*names, "ann"))
    for number, name in enumerate(names):
        desk.show(number, name, address="guesser")
    assert len(desk.denied) == len(names) - MAX_CHECKS_OF_ADDRESS - CHECKS
    desk.show(100, "ann", address="elsewhere")
    desk.done("user 0")
    desk.done("user 1")
    assert "ann" in desk.running.values()


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHECKS", 3)
    desk = Desk(users(*map(str, range(9))))
    for number in range(9):
        desk.show(number, str(number), address=str(number))
    assert len(desk.denied) == 9 - 3 - CHECKS
    assert desk.logins.waiting == 3
    desk.logins.left(2)  # the first of those that wait
    assert desk.logins.waiting == 2
    desk.finish()
    assert "2" not in desk.begun


def test_other_users_never_mean_more_checks_at_a_time() -> None:
    """What was running is done before something else begins; what waited is judged by the new users."""
    desk = Desk(users("ann", "bob", "eve", "joe"))
    for number, name in enumerate(("ann", "bob", "eve", "joe", "nobody")):
        desk.show(number, name)
    assert desk.begun == ["ann", "bob"]
    for _ in range(3):
        desk.take(desk.logins.renewed(users("ann", "eve", "nobody"), 0.0))
        assert desk.begun == ["ann", "bob"]
    desk.done("ann", True)
    assert desk.entered == [], "its password is judged again"
    assert len(desk.running) == CHECKS
    while desk.running:
        desk.done(next(iter(desk.running.values())), True)
    assert desk.entered == [2, 4, 0]
    assert sorted(desk.denied) == [1, 3]


def test_a_token_is_always_let_in_and_wrong_ones_are_told_to_wait() -> None:
    """Whoever guesses at a peer's address does not keep it out."""
    desk = Desk(users("ann", tokens=[{"name": "till", "hash": hash_token("battery")}]))
    for number in range(20):
        desk.take(desk.logins.show(number, Shown(token="guess"), "near", 0.0))
    assert [isinstance(desk.denied[number], BusyError) for number in range(20)] == [False] * 5 + [True] * 15
    desk.take(desk.logins.show(20, Shown(token="battery"), "near", 0.0))
    assert desk.entered == [20]


def test_neither_texts_nor_errors_have_secrets() -> None:
    assert "horse" not in repr(Shown("ann", "horse", "horse")) + str(Shown("ann", "horse"))
