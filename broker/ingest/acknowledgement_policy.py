"""When a publisher is told that its events are safe (DESIGN 4): here, or at another node too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol


class AcknowledgementPolicy(Protocol):
    """What makes an event safe beyond this node's own commit."""

    def requires_replica(self, streams: Iterable[str]) -> bool:
        """Whether events of one of these streams have to be durable at another node, too."""

    def call_when_replicated(self, call: Callable[[], object]) -> None:
        """Call when all that is durable here now is durable there; in the order of these calls."""


class LocalAcknowledgement:
    """What is durable here is safe."""

    def requires_replica(self, streams: Iterable[str]) -> bool:
        """None of them."""
        return False

    def call_when_replicated(self, call: Callable[[], object]) -> None:
        """Now."""
        call()


LOCAL_ACKNOWLEDGEMENT = LocalAcknowledgement()
