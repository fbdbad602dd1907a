"""Acknowledgement after the local commit, or after replication (DESIGN 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol


class AcknowledgementPolicy(Protocol):
    """Selects events that need a replica before their acknowledgement."""

    def requires_replica(self, streams: Iterable[str]) -> bool:
        """Return whether events of one of these streams must be durable at another node too."""

    def call_when_replicated(self, call: Callable[[], object]) -> None:
        """Call when all events durable here are durable at the other node; in call order."""


class LocalAcknowledgement:
    def requires_replica(self, streams: Iterable[str]) -> bool:
        return False

    def call_when_replicated(self, call: Callable[[], object]) -> None:
        call()


LOCAL_ACKNOWLEDGEMENT = LocalAcknowledgement()
