"""Others who carry events, to be measured beside Covey: their servers, each on loopback and ended by its process id,
and how a program uses them.

nats-server and mosquitto route by a name. RabbitMQ's headers exchange is the one content filter among them: it has a
binding for each filter that Covey has, on three headers.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from covey.bench.network_ends import WANTED, End, OnPayload, payload_of_now
from covey.bench.network_programs import Served
from covey.errors import CoveyError

START_S: Final = 60.0


class NatsEnd:
    """A client of nats-server, by nats-py; events travel by subject."""

    def __init__(self, filters: int) -> None:
        self._client: Any = None

    async def open(self, port: int) -> None:
        """Connect."""
        library: Any = import_module("nats")
        self._client = await library.connect(f"nats://127.0.0.1:{port}", pending_size=1 << 26)

    async def subscribe(self, on_payload: OnPayload) -> None:
        """Subscribe with a callback."""

        async def take(message: Any) -> None:
            on_payload(message.data)

        limits = {"pending_msgs_limit": 10_000_000, "pending_bytes_limit": 1 << 32}
        await self._client.subscribe(WANTED, cb=take, **limits)
        await self._client.flush()

    async def announce(self) -> None:
        """Nothing to say."""

    async def publish(self, events: Iterable[int]) -> None:
        """Publish them one after the other: there is no other way."""
        publish = self._client.publish
        for _ in events:
            await publish(WANTED, payload_of_now())

    async def flush(self) -> None:
        """Ask the server."""
        await self._client.flush(60)

    async def close(self) -> None:
        """Disconnect."""
        await self._client.close()


class MosquittoEnd:
    """A client of mosquitto, by paho-mqtt; events travel by topic, at most once."""

    def __init__(self, filters: int) -> None:
        self._client: Any = None

    async def open(self, port: int) -> None:
        """Connect, with a thread of the library's own."""
        mqtt: Any = import_module("paho.mqtt.client")
        versions: Any = import_module("paho.mqtt.enums")
        self._client = mqtt.Client(versions.CallbackAPIVersion.VERSION2)
        connected = threading.Event()
        self._client.on_connect = lambda *_: connected.set()
        self._client.max_queued_messages_set(0)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        await asyncio.to_thread(connected.wait, 10)

    async def subscribe(self, on_payload: OnPayload) -> None:
        """Subscribe with a callback."""
        done = threading.Event()
        self._client.on_message = lambda client, data, message: on_payload(message.payload)
        self._client.on_subscribe = lambda *_: done.set()
        self._client.subscribe(WANTED)
        await asyncio.to_thread(done.wait, 10)

    async def announce(self) -> None:
        """Nothing to say."""

    async def publish(self, events: Iterable[int]) -> None:
        """Publish them one after the other."""
        for number, _ in enumerate(events):
            self._client.publish(WANTED, payload_of_now())
            if not number % 100:
                await asyncio.sleep(0)

    async def flush(self) -> None:
        """Wait until everything has gone out."""
        done = self._client.publish("covey-bench-end", b"")
        await asyncio.to_thread(done.wait_for_publish, 60)

    async def close(self) -> None:
        """Disconnect."""
        self._client.loop_stop()


class RabbitEnd:
    """A client of RabbitMQ, by pika: a headers exchange with many bindings, of which one matches."""

    def __init__(self, filters: int) -> None:
        self._filters = filters
        self._port = 0
        self._connection: Any = None
        self._channel: Any = None

    async def open(self, port: int) -> None:
        """Connect."""
        self._port = port
        self._connection, self._channel = await asyncio.to_thread(self._connect)

    def _connect(self) -> tuple[Any, Any]:
        pika: Any = import_module("pika")
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self._port, heartbeat=0))
        channel = connection.channel()
        channel.exchange_declare("covey-bench", "headers")
        return connection, channel

    async def subscribe(self, on_payload: OnPayload) -> None:
        """Bind a queue for what is wanted and one for what is not, and consume the first in a thread."""
        await asyncio.to_thread(self._bind)
        threading.Thread(target=self._consume, args=(on_payload,), daemon=True).start()

    def _bind(self) -> None:
        channel = self._channel
        for queue in ("wanted", "others"):
            channel.queue_declare(queue, exclusive=queue == "wanted")
        match = {"x-match": "all", "symbol": WANTED}
        channel.queue_bind("wanted", "covey-bench", arguments=match)
        for number in range(self._filters):
            other = {"x-match": "all", "symbol": f"S{number % 500}", "price": number % 97, "volume": number}
            channel.queue_bind("others", "covey-bench", arguments=other)

    def _consume(self, on_payload: OnPayload) -> None:
        def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            on_payload(body)

        self._channel.basic_consume("wanted", take, auto_ack=True)
        with contextlib.suppress(Exception):  # the program ends while it waits
            self._channel.start_consuming()

    async def announce(self) -> None:
        """Nothing to say."""

    async def publish(self, events: Iterable[int]) -> None:
        """Publish them one after the other."""
        await asyncio.to_thread(self._publish, list(events))

    def _publish(self, events: list[int]) -> None:
        pika: Any = import_module("pika")
        for number in events:
            headers = {"symbol": WANTED, "price": number % 100, "volume": number % 1000, "venue": "XNYS"}
            self._channel.basic_publish(
                "covey-bench", "", payload_of_now(), pika.BasicProperties(headers=headers)
            )

    async def flush(self) -> None:
        """Ask the server."""
        await asyncio.to_thread(self._connection.process_data_events)

    async def close(self) -> None:
        """Disconnect."""
        self._connection.close()


# -- servers -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _running(command: list[str], port: int, environment: dict[str, str] | None = None) -> Iterator[Served]:
    """Run a server in a process group of its own, give it when its port answers, and end the group."""
    server = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | (environment or {}),
        start_new_session=True,
    )
    try:
        until_s = time.monotonic() + START_S
        while server.poll() is None and time.monotonic() < until_s:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        else:
            raise CoveyError(f"{command[0]} does not answer")
        yield Served((port, port), (server.pid,))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


@contextlib.contextmanager
def nats() -> Iterator[Served]:
    """Run nats-server."""
    port = _free_port()
    with _running(["nats-server", "-a", "127.0.0.1", "-p", str(port)], port) as served:
        yield served


@contextlib.contextmanager
def mosquitto() -> Iterator[Served]:
    """Run mosquitto."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "mosquitto.conf")
        config.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n", encoding="utf-8"
        )
        with _running(["mosquitto", "-c", str(config)], port) as served:
            yield served


@contextlib.contextmanager
def rabbitmq() -> Iterator[Served]:
    """Run RabbitMQ, with everything it writes in a directory that goes away."""
    port, names = _free_port(), str(_free_port())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o777)  # its script runs the server as another user
        environment = {
            "RABBITMQ_NODENAME": "covey-bench@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(_free_port()),
            "RABBITMQ_MNESIA_BASE": directory,
            "RABBITMQ_LOG_BASE": directory,
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(Path(directory, "plugins")),
            "RABBITMQ_PID_FILE": str(Path(directory, "pid")),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": names,
        }
        try:
            with _running(["rabbitmq-server"], port, environment) as served:
                yield served._replace(pids=())  # a script, which starts the server as another user
        finally:
            # The server and its daemon for names belong to no group of ours.
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(Path(directory, "pid").read_text(encoding="utf-8")), signal.SIGTERM)
            time.sleep(1.0)
            subprocess.run(["epmd", "-port", names, "-kill"], check=False, capture_output=True)


@dataclass(frozen=True)
class Peer:
    """A server to compare with: its program, the Python package of its client, and how it is run and used."""

    name: str
    program: str
    package: str
    server: Callable[[], AbstractContextManager[Served]]
    end: Callable[[int], End]
    is_slow: bool = False

    def is_installed(self) -> bool:
        """Return whether the program and the package are there."""
        return shutil.which(self.program) is not None and importlib.util.find_spec(self.package) is not None


PEERS: Final = (
    Peer("nats", "nats-server", "nats", nats, NatsEnd),
    Peer("mosquitto", "mosquitto", "paho", mosquitto, MosquittoEnd),
    Peer("rabbitmq headers", "rabbitmq-server", "pika", rabbitmq, RabbitEnd, is_slow=True),
)
