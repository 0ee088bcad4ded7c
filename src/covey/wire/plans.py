"""What brokers tell each other of plans: the bodies of PLAN frames.

PlanState   which plans are installed, each under an epoch, and the epoch in which events set out; the larger
            version counts, and is passed on to everyone
Ready       a broker's tables of all epochs of a version are complete
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from covey.errors import ProtocolError
from covey.wire.decoding import decoder

MOST_EPOCHS: Final = 4  # at one time
LAST_EPOCH: Final = (1 << 16) - 1
LAST_VERSION: Final = 1 << 62


class PlanState(msgspec.Struct, frozen=True, tag="state", array_like=True):
    """All that is installed. An epoch without a plan, b"", is the overlay itself with the configured strategy."""

    version: int
    author: str  # the broker that made this version; of two with one number, the larger name counts
    current: int
    plans: dict[int, bytes]

    @property
    def order(self) -> tuple[int, str]:
        """What decides between two states."""
        return self.version, self.author


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The broker has synchronised with all its neighbours in every epoch of that version."""

    version: int
    author: str
    broker: str


PlanMessage: TypeAlias = PlanState | Ready

BARE: Final = PlanState(0, "", 0, {0: b""})

encode_plan: Final = msgspec.msgpack.Encoder().encode
_decode: Final = decoder(PlanMessage)


def decode_plan(body: bytes | memoryview) -> PlanMessage:
    """Return what a neighbour says of plans; ProtocolError for any other bytes."""
    said: PlanMessage = _decode(body)
    if not 0 <= said.version < LAST_VERSION:
        raise ProtocolError("a state of plans has a version after which there is none")
    if isinstance(said, PlanState):
        epochs = said.plans
        if (
            said.current not in epochs
            or len(epochs) > MOST_EPOCHS
            or not all(0 <= e <= LAST_EPOCH for e in epochs)
        ):
            raise ProtocolError("a state of plans names epochs that cannot be")
    return said
