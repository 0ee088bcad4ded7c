"""The sections about security and sight in a configuration file, and what a running broker takes of new ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from tests.e2e.helpers.pairs import url
from tests.e2e.helpers.running import run

from covey.broker.config import AdminConfig, BrokerConfig, read_config, topology_of
from covey.broker.security import SecurityConfig, hash_password, hash_token, read_security
from covey.broker.server import Broker
from covey.client.client import connect
from covey.errors import ConfigError, CoveyError

PASSWORD = str(hash_password("horse", log2_n=4))
FILE = f"""
name = "paris"
log_format = "json"

[tls]
certificate = "a.pem"
key = "a.key"
authority = "ca.pem"

[[users]]
name = "ann"
password = "{PASSWORD}"
subscribe = "price > 10"
publish = ["price > 0", {{ language = "xpath", filter = "/order" }}]

[[tokens]]
name = "till"
hash = "{hash_token("battery")}"

[anonymous]
publish = "FALSE"

[neighbours]
token = "shared"

[admin]
port = 0
"""


def written(folder: Path, text: str = FILE) -> Path:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    leaf = authority.issue_cert("paris")
    leaf.private_key_pem.write_to_path(folder / "a.key")
    leaf.cert_chain_pems[0].write_to_path(folder / "a.pem")
    file = folder / "broker.toml"
    file.write_text(text)
    return file


def test_a_file_with_all_sections(tmp_path: Path) -> None:
    config = read_config(written(tmp_path))
    assert config.log_format == "json"
    assert config.admin == AdminConfig(port=0)
    assert config.security.folder == str(tmp_path)
    assert [user.name for user in config.security.users] == ["ann"]
    assert Broker(config).security.has_credentials


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"a.pem"', '"b.pem"', "broker.toml: tls: the certificate b.pem"),
        ('"ca.pem"', '"a.key"', "broker.toml: tls: the authority a.key"),
        ("price > 10", "price >", "broker.toml: ann, subscribe: "),
        (PASSWORD, "horse", "broker.toml: a password's hash cannot be read"),
        ("port = 0", 'host = "0.0.0.0"', "broker.toml: admin.host"),
        ("port = 0", "prot = 0", "broker.toml: admin: .*unknown field `prot`"),
        ("[anonymous]", "[anonymus]", "there is no setting 'anonymus'.*did you mean anonymous"),
        ('name = "till"', "name = 5", r"tokens\[0\].name: Expected `str`"),
    ],
    ids=range(8),  # the password's salt is another one each time
)
def test_mistakes(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in FILE
    with pytest.raises(ConfigError, match=message) as caught:
        read_config(written(tmp_path, FILE.replace(old, new)))
    assert "\n" not in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_a_running_broker_takes_other_credentials(tmp_path: Path) -> None:
    def guarded(token: str) -> SecurityConfig:
        return read_security({"tokens": [{"name": "t", "hash": hash_token(token)}]})

    async def work() -> None:
        async with (
            Broker(BrokerConfig("a", port=0, security=guarded("one"))) as broker,
            connect(url(broker), token="one") as old,
        ):
            new = replace(broker.config, security=guarded("two"))
            assert broker.reconfigure(new) == []
            with pytest.raises(CoveyError, match="not those of anybody"):
                await old.flush()
            async with connect(url(broker), token="two"):
                pass
            with pytest.raises(CoveyError, match="not those of anybody"):
                async with connect(url(broker), token="one"):
                    pass
            tls = read_config(written(tmp_path)).security
            with pytest.raises(ConfigError, match="tls cannot begin or end"):
                broker.reconfigure(replace(broker.config, security=tls))
            async with connect(url(broker), token="two"):
                pass

    run(work())


def test_an_overlays_brokers_have_their_own_directories(tmp_path: Path) -> None:
    """One store belongs to one broker, so a common `data_dir` is where their directories are."""
    values = {
        "links": [["a", "b"], ["b", "c"]],
        "settings": {"data_dir": "data"},
        "broker": {"c": {"data_dir": "own"}},
    }
    configs = topology_of(values, str(tmp_path / "overlay.toml")).configs({"a": 1, "b": 2, "c": 3})
    folders = [config.data_dir for config in configs.values()]
    assert folders == ["data/a", "data/b", "own"]


def test_an_overlays_brokers_have_their_own_pages(tmp_path: Path) -> None:
    values = {"first_admin_port": 7500, "links": [["a", "b"]], "settings": {"admin": {"tls": False}}}
    topology = topology_of(values, str(tmp_path / "overlay.toml"))
    configs = topology.configs({"a": 1, "b": 2})
    assert [config.admin and config.admin.port for config in configs.values()] == [7500, 7501]
    assert topology_of({"links": [["a", "b"]]}, "here").configs({"a": 1, "b": 2})["a"].admin is None
    with pytest.raises(ConfigError, match="first_admin_port: expected a port"):
        topology_of({**values, "first_admin_port": 70_000}, "here")
