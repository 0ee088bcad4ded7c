"""docs/clients.md: its curl commands, against a broker that serves events."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from tests.e2e.helpers.running import eventually, run
from tests.e2e.helpers.scripted import broker

from covey.broker.config import AdminConfig

DOCUMENT = Path(__file__).parents[2] / "docs" / "clients.md"
COMMAND = re.compile(r"^```sh\n(curl .*?)^```$", re.MULTILINE | re.DOTALL)


async def shell(command: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_shell(
        command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


def test_its_commands_post_and_listen() -> None:
    commands = COMMAND.findall(DOCUMENT.read_text(encoding="utf-8"))
    listening = [command for command in commands if "--data-urlencode" in command]
    posting = [command for command in commands if command not in listening]
    assert (len(posting), len(listening)) == (3, 1)

    async def main() -> None:
        async with broker(admin=AdminConfig(port=0, events=True)) as a:
            assert a.admin is not None
            here = f"127.0.0.1:{a.admin.port}"
            assert all("127.0.0.1:7401" in command for command in commands)
            listener = asyncio.create_task(shell(listening[0].replace("127.0.0.1:7401", here)))
            await eventually(lambda: a.core.clients)
            for command in posting:
                code, out, err = await shell(command.replace("127.0.0.1:7401", here))
                assert code == 0, err
                assert json.loads(out)["events"] >= 1
            code, out, _ = await listener
            assert code == 28  # --max-time, which is how it ends
            heard = [json.loads(line[6:]) for line in out.splitlines() if line.startswith("data: ")]
            assert [(event["id"], event["data"]) for event in heard] == [
                ("1", {"total": 150}),
                ("2", {"total": 250}),
                ("4", {"total": 350}),
            ]

    run(main())
