"""Messages between a node and the replay process; `docs/replay.md` describes their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.wire import codec
from broker.wire.codec import Codec, Count, WireErrorFields


class Message(codec.Message, frozen=True):
    """Base of the messages."""


CODEC: Final = Codec[Message]()


# ----------------------------------------------------------------------------- from the node


@CODEC.register
class Replay(Message, frozen=True):
    """Request events. No other remembered replay has this `id`."""

    kind = 0x01
    id: Count
    request: Any
    """See `ReplayRequest.to_wire`."""


@CODEC.register
class More(Message, frozen=True):
    """Allow more pages."""

    kind = 0x02
    id: Count
    pages: Count


@CODEC.register
class Cancel(Message, frozen=True):
    """Forget a replay in any state, without an answer."""

    kind = 0x03
    id: Count


@CODEC.register
class Status(Message, frozen=True):
    """The answer is `State`."""

    kind = 0x04


# ----------------------------------------------------------------------------- to the node


@CODEC.register
class Accepted(Message, frozen=True):
    """The request is valid, and waits for its job."""

    kind = 0x41
    id: Count


@CODEC.register
class Progress(Message, frozen=True):
    """Rows that the job has scanned, and their total."""

    kind = 0x42
    id: Count
    done: Count
    of: Count


@CODEC.register
class Found(Message, frozen=True):
    """The job is over; pages follow."""

    kind = 0x43
    id: Count
    report: Any
    """See `Report.to_wire`."""


@CODEC.register
class Page(Message, frozen=True):
    """Events in order, from the event number `first` on."""

    kind = 0x44
    id: Count
    first: Count
    chunks: tuple[bytes, ...]
    """As in the log (`broker.log.chunk`), one for each run of an origin."""


@CODEC.register
class Done(Message, frozen=True):
    kind = 0x45
    id: Count


@CODEC.register
class Failed(Message, frozen=True):
    """The replay is forgotten."""

    kind = 0x46
    id: Count
    error: WireErrorFields


@CODEC.register
class Notice(Message, frozen=True):
    """A text for the operator."""

    kind = 0x47
    text: str


@CODEC.register
class State(Message, frozen=True):
    """Answer to `Status`."""

    kind = 0x48
    figures: Mapping[str, Any]
    """Numbers or texts, by name."""
