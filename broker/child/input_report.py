"""Messages from the process of an input to its node, which sends none."""

from __future__ import annotations

from typing import Final

from broker.wire import codec
from broker.wire.codec import Codec, Count


class Message(codec.Message, frozen=True):
    """Base of the messages."""


CODEC: Final = Codec[Message]()


@CODEC.register
class InputReport(Message, frozen=True):
    """Counts since the process started, as `xmlbroker pub` prints them at its end."""

    kind = 0x01
    found: Count
    known: Count
    sent: Count
    durable: Count
    refused: Count
