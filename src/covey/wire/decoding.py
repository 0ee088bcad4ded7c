"""How the body of a control frame is read: MessagePack of known types, and a ProtocolError for all other bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from covey.errors import FilterError, ProtocolError


def decoder(
    types: Any, hook: Callable[[type, Any], Any] | None = None
) -> Callable[[bytes | memoryview], Any]:
    """Return what reads a value of one of these types; `hook` makes those that MessagePack does not know.

    It raises ProtocolError for any other bytes, whatever they are.
    """
    decode = msgspec.msgpack.Decoder(types, dec_hook=hook).decode

    def checked(body: bytes | memoryview) -> Any:
        try:
            return decode(body)
        except FilterError as error:
            raise ProtocolError(f"a frame has a filter that is none: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"a frame cannot be read: {error!s:.120}") from None

    return checked
