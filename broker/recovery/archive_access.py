"""What a node's recovery knows of its archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import attrs
from twisted.internet.defer import Deferred, succeed

from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.log.records import LoggedEvent
from broker.replay.request import ReplayRequest

#: By origin intervals in order: behind the first mark, up to the second.
Intervals: TypeAlias = Mapping[str, Sequence[tuple[Mark, Mark]]]


@attrs.frozen
class Coverage:
    """What the archive has of some origins; of those that are not named it could not tell."""

    intervals: Intervals = attrs.field(factory=dict)
    """What it has all of."""
    repairable: frozenset[str] = frozenset()
    """Origins of which a file was found damaged a moment ago, that may be written again."""
    other_origins: frozenset[str] = frozenset()
    """Further origins of which it has something."""
    lost_ends: Mapping[str, Mark] = attrs.field(factory=dict)
    """By origin up to where something is known to be missing behind all that it has."""
    is_known: bool = False
    """Whether the archive could be read: then it has nothing of what is not named."""


@attrs.frozen
class ArchivedDurable:
    """A durable subscription as the archive has it."""

    origin: str
    """Of the log of the node that had it last."""
    stored: bytes
    """See `broker.subscriptions.durables.Durable`."""


class Replay(Protocol):
    """One request to the archive, under way."""

    scanned_rows: tuple[int, int]
    """Rows of the archive that were looked at so far, and of how many; (0, 0): it waits."""

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        """The next events; none at the end. Fails with a `BrokerError` where it can not go on."""

    def end_marks(self) -> Mapping[str, Mark]:
        """At the end: by origin up to where the archive goes."""

    def missing_ranges(self) -> Sequence[tuple[str, Mark, Mark]]:
        """Of origins, behind and up to where events are lost to damaged files: when the first
        events have come, or the end has."""

    def cancel(self) -> None:
        """Nobody wants the rest."""


class Replays(Protocol):
    """The archive, as recoveries use it."""

    def start_replay(self, request: ReplayRequest) -> Replay:
        """Begin one."""


def _no_dtd(_: DtdReference) -> Deferred[bytes | None]:
    return succeed(None)


@attrs.frozen
class ArchiveAccess:
    """The archive, as a node uses it."""

    replays: Replays
    get_coverage: Callable[[Mapping[str, Mark]], Deferred[Coverage]]
    """What the archive has of these origins behind these marks."""
    find_durable: Callable[[str, str], Deferred[ArchivedDurable | None]]
    """What is stored there of a durable subscription, by client and name; None: nothing."""
    flush_soon: Callable[[], object]
    """What is durable in the node's log now is to be archived at once."""
    max_lag: float
    """Seconds that the newest events of other nodes may take to be in it."""
    is_warm: Callable[[], bool] = lambda: True
    """Whether what searches it runs already: else the first replay waits for it to start."""
    find_dtd: Callable[[DtdReference], Deferred[bytes | None]] = _no_dtd
    """The text of a DTD that is in it; None: it has none, or could not tell in time."""
    snapshot: Callable[[], Mapping[str, Any]] = dict
    """How the processes are that serve it, for people: `archiver` and `replays`."""
