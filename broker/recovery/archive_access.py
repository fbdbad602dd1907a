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
    """The archive's coverage of some origins. It is unknown for origins that are not named."""

    intervals: Intervals = attrs.field(factory=dict)
    """Complete ranges."""
    repairable: frozenset[str] = frozenset()
    """Origins with a file that was just found damaged, and may be written again."""
    other_origins: frozenset[str] = frozenset()
    """Further origins with events in the archive."""
    lost_ends: Mapping[str, Mark] = attrs.field(factory=dict)
    """By origin the end of a known missing range behind all archived events."""
    is_known: bool = False
    """True if the archive was readable: it has nothing of origins that are not named."""


@attrs.frozen
class ArchivedDurable:
    origin: str
    """Origin of the last node that had it."""
    stored: bytes
    """An encoded `broker.subscriptions.durable_subscriptions.DurableSubscription`."""


class Replay(Protocol):
    """One running request to the archive."""

    scanned_rows: tuple[int, int]
    """Rows scanned so far, and rows in total; (0, 0) while the request waits."""

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        """Return the next events; none at the end. Fails with a `BrokerError`."""

    def end_marks(self) -> Mapping[str, Mark]:
        """At the end: by origin, the end of its archived events."""

    def missing_ranges(self) -> Sequence[tuple[str, Mark, Mark]]:
        """Ranges lost to damaged files; known from the first events on, or at the end."""

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
    """Returns the coverage of these origins after these marks."""
    find_durable: Callable[[str, str], Deferred[ArchivedDurable | None]]
    """By ClientId and name."""
    flush_soon: Callable[[], object]
    """Requests an immediate flush of the node's log into the archive."""
    max_lag: float
    """Seconds until the newest events of other nodes must be archived."""
    is_warm: Callable[[], bool] = lambda: True
    """False if the first replay must wait for the replayer to start."""
    find_dtd: Callable[[DtdReference], Deferred[bytes | None]] = _no_dtd
    """Returns None if there is no such DTD, or the answer took too long."""
    snapshot: Callable[[], Mapping[str, Any]] = dict
    """State with the keys `archiver` and `replays`."""
