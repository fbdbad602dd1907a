"""Streams of a subscription, with the clearance of its client."""

from __future__ import annotations

from typing import NamedTuple

from broker.event.stream import StreamPattern


class ReadableStreams(NamedTuple):
    """Streams that a subscription reads, up to the rank of a clearance."""

    pattern: StreamPattern
    clearance: int

    def include(self, stream: str, rank: int) -> bool:
        return rank <= self.clearance and self.pattern.matches(stream)
