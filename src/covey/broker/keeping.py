"""What is installed, kept over a restart: one small file in the data directory.

The file is a checksum and the state, as brokers tell it to each other. It is replaced as a whole. One that cannot be
read is an error and not a fresh start: a broker that forgot its plan would tell its neighbours nothing new, and learn
the plan from them, but the operator should know that a disk forgets.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import Final

from covey.broker.private_files import opener
from covey.errors import ConfigError, ProtocolError
from covey.wire.plans import BARE, PlanState, decode_plan, encode_plan

FILE: Final = "plans.bin"
_SUM: Final = 16  # bytes of the checksum
MOST_BYTES: Final = 256 << 20


def load_state(directory: Path) -> PlanState:
    """Return the state that was kept there, the bare one if none was; ConfigError if it is damaged."""
    file = directory / FILE
    try:
        if file.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{file} is larger than a state of plans can be (hint: remove it)")
        data = file.read_bytes()
    except FileNotFoundError:
        return BARE
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from None
    body = data[_SUM:]
    try:
        if blake2b(body, digest_size=_SUM).digest() != data[:_SUM]:
            raise ProtocolError("its checksum is wrong")
        state = decode_plan(body)
        if not isinstance(state, PlanState):
            raise ProtocolError("it is no state")
    except ProtocolError as error:
        raise ConfigError(f"{file} is damaged: {error} (hint: remove it; neighbours know the plan)") from None
    return state


def keep_state(directory: Path, state: PlanState) -> None:
    """Keep a state in place of the one before; OSError if the disk does not take it."""
    body = encode_plan(state)
    beside = directory / f"{FILE}.new"
    with open(beside, "wb", opener=opener) as file:
        file.write(blake2b(body, digest_size=_SUM).digest() + body)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(directory / FILE)
