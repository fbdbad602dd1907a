"""What a node's recovery knows of its archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred

from broker.event.place import Mark
from broker.recovery.request import ReplayRequest
from broker.store.records import LoggedEvent


class Replay(Protocol):
    """One request to the archive, under way."""

    def more(self) -> Deferred[Sequence[LoggedEvent]]:
        """The next events; none at the end. Fails with a `BrokerError` where it can not go on."""

    def reached(self) -> Mapping[str, Mark]:
        """At the end: by origin up to where the archive had all of it."""

    def cancel(self) -> None:
        """Nobody wants the rest."""


class Replays(Protocol):
    """The archive, as recoveries use it."""

    def covered(self, after: Mapping[str, Mark]) -> Deferred[Mapping[str, Mark]]:
        """By origin: how far the archive has all of it, from these marks on."""

    def replay(self, request: ReplayRequest) -> Replay:
        """Begin one."""


@attrs.frozen
class ArchiveAccess:
    """The archive, as a node uses it."""

    replays: Replays
    flush_soon: Callable[[], object]
    """What is durable in the node's log now is to be archived at once."""
    patience: float
    """Seconds that the newest events of other nodes may take to be in it."""
