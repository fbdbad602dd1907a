"""Messages between a node and the replay process; `docs/replay.md` describes their bytes.

A message is a msgpack array of its kind and its fields in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.wire import codec
from broker.wire.codec import Count, Schema, WireErrorFields, pack

#: Limit of a message. A request may name thousands of origins, and a page one large event.
MAX_MESSAGE_BYTES: Final = 64 << 20


class Message(codec.Message, frozen=True):
    """Base of the messages. Its tag is the kind."""


# ----------------------------------------------------------------------------- from the node


class Replay(Message, frozen=True, tag=0x01):
    """Request events. The node chooses an `id` that no other remembered replay has."""

    id: Count
    request: Any
    """See `ReplayRequest.to_wire`."""


class More(Message, frozen=True, tag=0x02):
    """Allow more pages to be sent."""

    id: Count
    pages: Count


class Cancel(Message, frozen=True, tag=0x03):
    """Forget a replay in any state. There is no answer."""

    id: Count


class Resume(Message, frozen=True, tag=0x04):
    """Continue a replay over a new connection, from this event number (the first is 0)."""

    id: Count
    first: Count


class Status(Message, frozen=True, tag=0x05):
    """Request the state of the process; the answer is `State`."""


# ----------------------------------------------------------------------------- to the node


class Accepted(Message, frozen=True, tag=0x41):
    """The request is valid, and waits for its job or is in it."""

    id: Count


class Progress(Message, frozen=True, tag=0x42):
    """Rows that the job has scanned, and their total."""

    id: Count
    done: Count
    of: Count


class Found(Message, frozen=True, tag=0x43):
    """The job is over; pages will follow."""

    id: Count
    report: Any
    """See `Report.to_wire`."""


class Page(Message, frozen=True, tag=0x44):
    """Events in order, from the event number `first` on."""

    id: Count
    first: Count
    chunks: tuple[bytes, ...]
    """Chunks as in the log (`broker.log.chunk`), one for each run of one origin."""


class Done(Message, frozen=True, tag=0x45):
    id: Count


class Failed(Message, frozen=True, tag=0x46):
    """The replay failed and is forgotten."""

    id: Count
    error: WireErrorFields


class Notice(Message, frozen=True, tag=0x47):
    """A text for the operator."""

    text: str


class State(Message, frozen=True, tag=0x48):
    """The state of the process."""

    figures: Mapping[str, Any]
    """Names, with numbers or texts."""


_FROM_NODE = Replay | More | Cancel | Resume | Status
_TO_NODE = Accepted | Progress | Found | Page | Done | Failed | Notice | State
_SCHEMA: Final = Schema[Message](_FROM_NODE | _TO_NODE, "replay message")


def encode(message: Message) -> bytes:
    return pack(message)


def decode(data: bytes) -> Message:
    """Decode a message. Raises `ProtocolError` if it is invalid."""
    return _SCHEMA.decode(data)
