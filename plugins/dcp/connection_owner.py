"""The interface between a connection and the node behind it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from plugins.dcp.control import ControlMessage, SequenceStart
from plugins.dcp.event_range import Description, EventRange, SequenceKey

ConnectionT = TypeVar("ConnectionT", contravariant=True)


class IConnectionOwner(Protocol[ConnectionT]):
    """Receives from connections. It may close them."""

    def sequence_opened(self, connection: ConnectionT, start: SequenceStart, now: float) -> None:
        """Note a new sequence of a parent, and where its first range begins."""

    def range_received(
        self,
        connection: ConnectionT,
        description: Description,
        range_: EventRange,
        now: float,
        *,
        is_repeated: bool,
    ) -> None: ...

    def end_received(
        self, connection: ConnectionT, key: SequenceKey, an: int, now: float
    ) -> None: ...

    def part_received(
        self, connection: ConnectionT, key: SequenceKey, previous: int, upto: int, now: float
    ) -> None:
        """Note that a part of a range has come, and others are missing."""

    def unavailable_received(
        self, connection: ConnectionT, key: SequenceKey, after: int, upto: int, now: float
    ) -> None: ...

    def control_received(
        self, connection: ConnectionT, message: ControlMessage, now: float
    ) -> None: ...

    def current_of(self, key: SequenceKey) -> int | None:
        """Return the AN up to which a sequence was delivered here."""

    def acknowledged(self, connection: ConnectionT, key: SequenceKey) -> None:
        """Note that the parent is told the present place of a sequence."""
