"""The interface of a node to its archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import attrs
from twisted.internet.defer import Deferred, succeed

from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.replay.request import ReplayRequest

#: By origin rising intervals (after, upto].
Intervals: TypeAlias = Mapping[str, Sequence[tuple[Mark, Mark]]]


@attrs.frozen
class Coverage:
    """Coverage of the named origins; unknown for others."""

    intervals: Intervals = attrs.field(factory=dict)
    repairable: frozenset[str] = frozenset()
    """Origins with a newly damaged file."""
    other_origins: frozenset[str] = frozenset()
    """Further origins in the archive."""
    lost_ends: Mapping[str, Mark] = attrs.field(factory=dict)
    """By origin the end of a missing range behind all archived events."""
    is_known: bool = False
    """True if the archive was readable: it has no other origins."""


@attrs.frozen
class ArchivedDurable:
    origin: str
    """Origin of the last node that had it."""
    stored: bytes
    """An encoded `broker.subscriptions.durable_subscriptions.DurableSubscription`."""


class Replay(Protocol):
    @property
    def scanned_rows(self) -> tuple[int, int]:
        """Return (scanned, total); (0, 0) while it waits."""

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        """None at the end. Fails with a `BrokerError`."""

    def end_marks(self) -> Mapping[str, Mark]:
        """By origin, the end of its archived events; known at the end."""

    def missing_ranges(self) -> Sequence[tuple[str, Mark, Mark]]:
        """Ranges lost to damaged files."""

    def cancel(self) -> None:
        """Stop the replay."""


class Replays(Protocol):
    def start_replay(self, request: ReplayRequest) -> Replay:
        """Start a replay."""


def _no_dtd(_: DtdReference) -> Deferred[bytes | None]:
    return succeed(None)


@attrs.frozen
class ArchiveAccess:
    replays: Replays
    get_coverage: Callable[[Mapping[str, Mark]], Deferred[Coverage]]
    find_durable: Callable[[str, str], Deferred[ArchivedDurable | None]]
    """By ClientId and name."""
    flush_soon: Callable[[], object]
    """Request an immediate flush of the node's log."""
    max_lag: float
    """Seconds until other nodes' events must be archived."""
    is_warm: Callable[[], bool] = lambda: True
    """False if the first replay must wait for the replayer."""
    find_dtd: Callable[[DtdReference], Deferred[bytes | None]] = _no_dtd
    """None if there is no DTD, or the answer took too long."""
    snapshot: Callable[[], Mapping[str, Any]] = dict
    """With the keys `archiver` and `replays`."""
