"""Logins: who a client is, at both doors, and in which order passwords are checked.

`show` is told what somebody shows, and yields the answer, Entered or Denied: at once if that is quick (a token, a
password that was right before, nothing at all), else after a check in a thread of the shell. A check takes some 50 ms
of a processor by design, so that a flood of logins is kept from delaying others:

    - CHECKS run at a time, whatever is configured meanwhile, and MAX_CHECKS wait; of one address a part of them
    - logins with the same name and password share one check
    - of one name and address, whether the name exists or not, one check runs at a time and few wait: whoever tries
      passwords of one name does not learn whether it exists
    - names that exist go first, and addresses take turns
    - a name that does not exist is checked like any other, but only while nothing else waits, one at a time, and few of
      them wait: a flood of names takes what is left over

Whoever finds no place in the queue is told to come back later (BusyError), and clients do.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from covey.broker.actions import Actions, Denied, Entered, Verify, Verifying
from covey.broker.security import Security
from covey.errors import AccessError, BusyError

CHECKS: Final = 2  # passwords that are checked at a time
MAX_CHECKS: Final = 200  # that wait, of names that exist
MAX_CHECKS_OF_ADDRESS: Final = 20  # of these, of one address
# That run or wait, of one name and address: after so many failures it has to pause anyway.
MAX_CHECKS_OF_NAME: Final = 5
MAX_UNKNOWN: Final = 8  # that wait, of names that do not exist

BUSY: Final = "the broker checks too many passwords already: come back a little later"


class Shown(NamedTuple):
    """What somebody shows; nothing, if they are anonymous."""

    user: str = ""
    password: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return "<credentials>"


@dataclass(eq=False, slots=True)
class _Check:
    """A password that is checked, or waits to be, and the logins that wait for it, with their addresses."""

    shown: Shown
    address: str  # of the first of them
    is_known: bool
    waiting: dict[int, str] = field(default_factory=dict)
    security: Security | None = None  # by which it is checked, once it is

    @property
    def whose(self) -> tuple[str, str]:
        """Whose passwords are checked one after the other."""
        return self.address, self.shown.user


class Logins:
    """The logins of one broker; see the module's text. A part: its methods yield what the owner is to do."""

    def __init__(self, security: Security, most_waiting: int) -> None:
        self.security = security
        self.most_waiting = most_waiting  # logins that wait for all checks together
        self._of: dict[int, _Check] = {}  # by login
        self._checks: dict[Shown, _Check] = {}
        self._known: dict[str, deque[_Check]] = {}  # that wait, by address; whose turn it is, is first
        self._unknown: deque[_Check] = deque()
        self._of_name: Counter[tuple[str, str]] = Counter()  # checks, by address and name
        self._running: dict[int, _Check] = {}
        self._last = 0

    @property
    def waiting(self) -> int:
        """How many checks wait."""
        return len(self._checks) - len(self._running)

    def show(self, login: int, shown: Shown, address: str, now_s: float) -> Actions:
        """Say who somebody is."""
        try:
            permissions = self.security.known(
                user=shown.user, password=shown.password, token=shown.token, address=address, now_s=now_s
            )
            if permissions is not None:
                yield Entered(login, permissions)
                return
            if len(self._of) >= self.most_waiting:
                raise BusyError(BUSY)
            check = self._checks.get(shown) or self._queued(shown, address)
        except (AccessError, BusyError) as error:
            yield Denied(login, address, error)
            return
        check.waiting[login] = address
        self._of[login] = check
        yield Verifying(login)
        yield from self._begin()

    def _queued(self, shown: Shown, address: str) -> _Check:
        """Return a new check that waits; BusyError if too many do."""
        check = _Check(shown, address, self.security.is_known(shown.user))
        if self._of_name[check.whose] >= MAX_CHECKS_OF_NAME:
            raise BusyError(BUSY)
        if check.is_known:
            others = self._known.get(address, ())
            if len(others) >= MAX_CHECKS_OF_ADDRESS or sum(map(len, self._known.values())) >= MAX_CHECKS:
                raise BusyError(BUSY)
            self._known.setdefault(address, deque()).append(check)
        else:
            if len(self._unknown) >= MAX_UNKNOWN:
                raise BusyError(BUSY)
            self._unknown.append(check)
        self._checks[shown] = check
        self._of_name[check.whose] += 1
        return check

    def _begin(self) -> Actions:
        """Begin the checks whose turn it is."""
        while len(self._running) < CHECKS and (check := self._next()) is not None:
            self._last += 1
            self._running[self._last] = check
            check.security = self.security
            yield Verify(self._last, check.shown.password, self.security.expected(check.shown.user))

    def _next(self) -> _Check | None:
        running = {one.whose for one in self._running.values()}
        for address, checks in self._known.items():
            check = next((one for one in checks if one.whose not in running), None)
            if check is None:
                continue
            checks.remove(check)
            del self._known[address]
            if checks:
                self._known[address] = checks  # behind all others
            return check
        if self._unknown and all(one.is_known for one in self._running.values()):
            return self._unknown.popleft()
        return None

    def verified(self, number: int, is_right: bool, now_s: float) -> Actions:
        """A check is done."""
        check = self._running.pop(number)
        self._forget(check)
        shown, security = check.shown, check.security
        assert security is not None, "by which it was checked"
        for login, address in check.waiting.items():
            self._of.pop(login, None)
            try:
                permissions = security.proved(shown.user, shown.password, is_right, address, now_s)
            except (AccessError, BusyError) as error:
                yield Denied(login, address, error)
                continue
            if security is self.security:
                yield Entered(login, permissions)
            else:  # users have changed while it was checked
                yield from self.show(login, shown, address, now_s)
        yield from self._begin()

    def renewed(self, security: Security, now_s: float) -> Actions:
        """Judge what waits by other users; what is being checked is judged again when that is done."""
        self.security = security
        for check in list(self._waiting()):
            self._forget(check)
            for login, address in check.waiting.items():
                del self._of[login]
                yield from self.show(login, check.shown, address, now_s)

    def left(self, login: int) -> None:
        """Somebody is gone: nobody waits for its check, unless others do."""
        check = self._of.pop(login, None)
        if check is not None:
            del check.waiting[login]
            if not check.waiting and check.security is None:
                self._forget(check)

    def _waiting(self) -> Iterator[_Check]:
        for checks in self._known.values():
            yield from checks
        yield from self._unknown

    def _forget(self, check: _Check) -> None:
        del self._checks[check.shown]
        self._of_name[check.whose] -= 1
        if not self._of_name[check.whose]:
            del self._of_name[check.whose]
        if check.security is not None:
            return  # it waits no longer
        if not check.is_known:
            self._unknown.remove(check)
            return
        self._known[check.address].remove(check)
        if not self._known[check.address]:
            del self._known[check.address]
