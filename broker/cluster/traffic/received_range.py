"""Data classes of `arrivals`: a range that arrived, the actions on it, and counters."""

from __future__ import annotations

import attrs

from broker.cluster.address import Address
from broker.cluster.traffic.frame import Frame, Range
from broker.event.place import Mark, NamedHistory


@attrs.frozen(eq=False)
class ReceivedRange:
    """A range and the frame that it came in."""

    range: Range
    frame: Frame
    index: int
    """Of the range in the frame."""
    is_lost: bool = False
    """Whether what is gone of the range is at no node, and not only behind a log's retention."""


@attrs.frozen
class AppendRange:
    """Log what is for this node in it, as far as it lies behind `cursor`."""

    received: ReceivedRange
    cursor: Mark


@attrs.frozen
class RequestPage:
    """Ask the home of an origin to go on behind `after`."""

    target: Address
    origin: str
    after: Mark
    is_unfiltered: bool = False
    """All of it: others may have forgotten what this node wants."""
    path: tuple[NamedHistory, ...] = ()
    """The histories that led there; the last one is that of `after`, if that is known."""


@attrs.frozen
class StoreHistories:
    """Store the newest histories of an origin, with the events that follow."""

    origin: str
    histories: tuple[NamedHistory, ...]


ReceiverEffect = AppendRange | RequestPage | StoreHistories


@attrs.define
class ReceiverCounts:
    """Since the start."""

    taken: int = 0
    duplicate: int = 0
    """Ranges of which everything was here."""
    holes: int = 0
    """Times that something was found to be missing."""
    asked: int = 0
    dropped: int = 0
    """Ranges behind a hole for which there was no room."""
    gone: int = 0
    """Ranges that said that something is in no log any more."""
    failed: int = 0
    """Times that what was taken could not be logged."""
    given_up: int = 0
    """Holes that nobody has answered for."""
