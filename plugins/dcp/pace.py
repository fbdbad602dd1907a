"""The pace of packets, of one connection or of a group."""

from __future__ import annotations

from typing import Protocol


class IPace(Protocol):
    """As `broker.transport.arq.pacer.Pacer`."""

    def may_send(self, now: float) -> bool: ...
    def record_sent(self, size: int) -> None: ...
    def next_send_at(self) -> float: ...
