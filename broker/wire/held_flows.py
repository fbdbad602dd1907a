"""Messages of a session about flows that reach its client through a mesh."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from broker.event.stream import MAX_NAME_LENGTH
from broker.wire.codec import Count, Message, WirePosition

#: Carrying patterns of the streams of one subscription.
MAX_HELD_PATTERNS: Final = 64
_Pattern: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME_LENGTH)]


class Hold(Message, frozen=True):
    """Client: events of flows with these carrying patterns reach it through a mesh."""

    kind = 0x2F

    number: Count
    patterns: Annotated[tuple[_Pattern, ...], Meta(max_length=MAX_HELD_PATTERNS)]


class HeldBack(Message, frozen=True):
    """Node: matching events of held flows up to these places were not delivered."""

    kind = 0x32

    number: Count
    newest: WirePosition
