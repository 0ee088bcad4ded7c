"""A client as a process, of whichever version of Covey is on its path; only names that both have are used.

python either_client.py NAME PORT

It has a durable subscription and a plain one, and says a line for each event: "durable SOURCE N", "plain SOURCE N".
Told "confirm A B", it publishes its events A to B - 1 confirmed, one after another, and says "confirmed N" for each.
Told "plain A B", it publishes them unconfirmed. "end" ends it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import covey


def say(line: str) -> None:
    """Say a line at once."""
    print(line, flush=True)


async def read_durable(client: Any) -> None:
    """Say what comes of confirmed events, and acknowledge it."""
    async with client.subscribe("kind = 'durable'", durable="all") as events:
        say("subscribed durable")
        async for event in events:
            say(f"durable {event['source']} {event['n']}")
            await event.ack()


async def read_plain(client: Any) -> None:
    """Say what comes of others."""
    async with client.subscribe("kind = 'plain'") as events:
        say("subscribed plain")
        async for event in events:
            say(f"plain {event['source']} {event['n']}")


async def main(name: str, port: str) -> None:
    """Do what is told."""
    loop = asyncio.get_running_loop()
    url = f"covey://127.0.0.1:{port}"
    async with covey.connect(url, name=name, timeout_s=60.0, longest_pause_s=0.1) as client:
        await client.advertise(f"source = '{name}'")
        tasks = [loop.create_task(read_durable(client)), loop.create_task(read_plain(client))]
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command, *numbers = line.split()
            if command == "end":
                break
            for n in range(*map(int, numbers)):
                event = {"source": name, "n": n, "kind": "durable" if command == "confirm" else "plain"}
                await client.publish(event, confirm=command == "confirm")
                if command == "confirm":
                    say(f"confirmed {n}")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
