"""Who may come in: what the sections of a configuration mean, without sockets."""

from __future__ import annotations

from typing import Any

import pytest

import covey
from covey.broker.security import (
    Allowed,
    Permissions,
    Security,
    check_password,
    hash_password,
    hash_token,
    is_loopback,
    network_of,
    read_security,
)
from covey.errors import AccessError, BusyError, ConfigError

PASSWORD = str(hash_password("horse", log2_n=4))
TOKEN = hash_token("battery")
USERS = {"users": [{"name": "ann", "password": PASSWORD}]}
TOKENS = {"tokens": [{"name": "till", "hash": TOKEN}]}


def made(document: dict[str, Any], host: str = "127.0.0.1") -> Security:
    return Security(read_security(document), host)


def known(of: Security, **said: Any) -> Permissions | None:
    return of.known(**{"user": "", "password": "", "token": "", "address": "a", "now_s": 0.0, **said})


def proved(of: Security, user: str, password: str, address: str = "a", now_s: float = 0.0) -> Permissions:
    expected = of.expected(user)
    return of.proved(user, password, check_password(password, expected), address, now_s)


@pytest.mark.parametrize(
    ("document", "host", "allowed"),
    [
        ({}, "127.0.0.1", True),
        ({}, "::1", True),
        ({}, "localhost", True),
        ({}, "0.0.0.0", False),
        ({}, "", False),
        ({}, "broker.example", False),
        (USERS, "127.0.0.1", False),
        (TOKENS, "127.0.0.1", False),
        ({**USERS, "anonymous": {}}, "0.0.0.0", True),
        ({"anonymous": {"allow": False}}, "127.0.0.1", False),
    ],
)
def test_anonymous(document: dict[str, Any], host: str, allowed: bool) -> None:
    if allowed:
        assert known(made(document, host)) is not None
    else:
        with pytest.raises(AccessError, match="wants a token"):
            known(made(document, host))


def test_where_nobody_has_credentials_none_are_looked_at() -> None:
    assert known(made({}), token="any") == known(made({}))
    assert known(made({}), user="ann", password="any") == known(made({}))
    with pytest.raises(AccessError, match="not those of anybody"):
        known(made({}, "0.0.0.0"), token="any")


def test_loopback_is_what_only_this_machine_reaches() -> None:
    assert is_loopback("127.3.2.1")
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.168.0.1", "localhost.example"]))


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::7", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::1", "::"),
        ("a:socket", "a:socket"),
        ("", ""),
    ],
)
def test_what_counts_as_one_address(host: str, network: str) -> None:
    assert network_of(host) == network


def test_a_token_has_its_permissions() -> None:
    rules = {"subscribe": "a = 1", "publish": ["b > 2", {"language": "xpath", "filter": "/order"}]}
    asked = made({"tokens": [{"name": "till", "hash": TOKEN, **rules}]})
    found = known(asked, token="battery")
    assert found is not None
    assert found.subscribe is not None
    assert found.publish is not None
    assert found.subscribe.covers(covey.parse("a = 1 AND c = 2"))
    assert not found.subscribe.covers(covey.parse("c = 2"))
    assert found.publish.matches({"b": 3})
    assert not found.publish.matches({"b": 1})
    assert found.publish.matches("<order/>")
    assert not found.publish.matches("<bill/>")
    assert not found.publish.matches(frozenset({"b"}))
    with pytest.raises(AccessError, match="not those of anybody"):
        known(asked, token="batterz")


def test_permissions_of_all_languages() -> None:
    allowed = Allowed(
        [
            covey.parse("a BETWEEN 1 AND 5"),
            covey.parse("a BETWEEN 6 AND 9 OR a > 5 AND a < 6"),
            covey.parse("/a/b", "xpath"),
            covey.parse("new AND york", "keywords"),
            covey.parse("taxi", "keywords"),
        ]
    )
    assert allowed.covers(covey.parse("a BETWEEN 2 AND 8"))  # by no part alone
    assert allowed.covers(covey.parse("/a/b[@c]", "xpath"))
    assert not allowed.covers(covey.parse("/a", "xpath"))
    assert not allowed.covers(covey.parse("//b", "xpath"))
    assert allowed.covers(covey.parse("taxi AND rain", "keywords"))
    assert allowed.covers(covey.parse("new AND york AND taxi", "keywords"))
    assert not allowed.covers(covey.parse("york", "keywords"))
    assert allowed.matches(frozenset({"new", "york"}))
    assert not allowed.matches(frozenset({"york"}))
    assert not Allowed([]).matches({})


def test_a_user_has_a_password() -> None:
    asked = made(USERS)
    assert known(asked, user="ann", password="horse") is None  # to be proved
    assert proved(asked, "ann", "horse").name == "ann"
    assert known(asked, user="ann", password="horse") is not None  # remembered
    assert known(asked, user="ann", password="cow") is None
    assert known(asked, user="annh", password="orse") is None
    for user, password in (("ann", "cow"), ("ann", ""), ("eve", "horse"), ("ann", "x" * 5_000)):
        with pytest.raises(AccessError, match="not those of anybody"):
            proved(asked, user, password, address=user + password[:9])


@pytest.mark.parametrize("log2_n", [4, 14])
def test_a_wrong_user_takes_as_long_as_a_wrong_password(log2_n: int) -> None:
    asked = made({"users": [{"name": "ann", "password": str(hash_password("horse", log2_n=log2_n))}]})
    nobody, somebody = (asked.expected(user) for user in ("eve", "ann"))
    assert nobody[:3] == somebody[:3], "the same effort"
    assert (len(nobody.salt), len(nobody.key)) == (len(somebody.salt), len(somebody.key))
    with pytest.raises(AccessError):
        asked.proved("eve", "horse", True, "a", 0.0)  # not even when the password is right by chance


def test_reading_users_derives_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker reads its users again while it runs, and must not stop for that."""
    derived: list[object] = []
    monkeypatch.setattr("covey.broker.security.scrypt", lambda *args, **options: derived.append(args))
    for document in (USERS, TOKENS, {}, USERS):
        made({}).renewed(read_security(document), "127.0.0.1").renewed(read_security(USERS), "127.0.0.1")
    assert not derived


def test_after_a_reload_passwords_of_unchanged_users_are_remembered() -> None:
    """Otherwise all users that reconnect after it wait for checks."""
    horse, cow = (str(hash_password(password, log2_n=4)) for password in ("horse", "cow"))

    def users(**passwords: str) -> dict[str, Any]:
        return {"users": [{"name": name, "password": password} for name, password in passwords.items()]}

    before = made(users(ann=horse, bob=horse, eve=horse))
    for name in ("ann", "bob", "eve"):
        proved(before, name, "horse")
    document = users(ann=horse, bob=cow)
    document["users"][0]["subscribe"] = "a = 1"
    after = before.renewed(read_security(document), "127.0.0.1")
    found = known(after, user="ann", password="horse")
    assert found is not None
    assert found == after.permissions_of("ann"), "as they are now"
    assert known(after, user="ann", password="cow") is None
    assert known(after, user="bob", password="horse") is None, "its password has changed"
    assert known(after, user="eve", password="horse") is None, "it is gone"
    again = after.renewed(read_security(users(ann=horse, eve=horse)), "127.0.0.1")
    assert known(again, user="ann", password="horse") is not None
    assert known(again, user="eve", password="horse") is None, "it has to prove it again"


def test_failures_are_throttled() -> None:
    asked = made({**USERS, **TOKENS})
    for _ in range(5):
        with pytest.raises(AccessError, match="not those"):
            proved(asked, "ann", "cow")
        with pytest.raises(AccessError, match="not those"):
            known(asked, token="guess")
    said = {"user": "ann", "password": "horse"}
    with pytest.raises(BusyError, match="come back in"):
        known(asked, **said)
    known(asked, **said, address="elsewhere")
    known(asked, **said, now_s=1_000.0)
    with pytest.raises(BusyError, match="come back in"):
        known(asked, token="guess")
    assert known(asked, token="battery") is not None, "it cannot have been guessed"
    with pytest.raises(BusyError, match="come back in"):
        proved(asked, "ann", "horse")  # a check that began before the failures


@pytest.mark.parametrize(
    ("document", "host", "token", "accepted"),
    [
        ({}, "127.0.0.1", "", True),
        ({}, "0.0.0.0", "", False),
        (USERS, "127.0.0.1", "", False),
        ({"neighbours": {"trusted": True}}, "0.0.0.0", "", True),
        ({"neighbours": {"token": "shared"}}, "0.0.0.0", "shared", True),
        ({"neighbours": {"token": "shared"}}, "127.0.0.1", "", False),
        ({"neighbours": {"token": "shared", "trusted": True}}, "127.0.0.1", "other", False),
    ],
)
def test_neighbours_without_certificates(
    document: dict[str, Any], host: str, token: str, accepted: bool
) -> None:
    asked = made(document, host)
    if accepted:
        asked.check_neighbour(None, "b", token, "a", 0.0)
    else:
        with pytest.raises(AccessError):
            asked.check_neighbour(None, "b", token, "a", 0.0)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"users": [{"name": "ann"}]}, r"users\[0\]: Object missing required field `password`"),
        ({"users": [{"name": "ann", "password": "horse"}]}, "covey password"),
        ({"tokens": [{"name": "ann", "hash": "horse"}]}, "covey token"),
        ({"users": USERS["users"] * 2}, "same name"),
        ({"tls": {"certificate": "a.pem", "key": "b.pem", "cipher": 1}}, "tls: .*unknown field `cipher`"),
        ({"tls": {"certificate": "/none/a.pem", "key": "b.pem"}}, "cannot be used: No such file"),
        ({"anonymous": {"subscribe": "price >"}}, "somebody anonymous, subscribe: "),
        ({"anonymous": {"publish": [{"filter": "a", "language": "sql"}]}}, "anonymous, publish: .*sql"),
    ],
)
def test_settings_that_mean_nothing(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(document)


def test_no_text_of_a_configuration_has_secrets() -> None:
    document = {**USERS, **TOKENS, "neighbours": {"token": "shared"}}
    text = repr(read_security(document))
    assert PASSWORD not in text
    assert TOKEN not in text
    assert "shared" not in text
