"""Keys of tables, their limits and their timers."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import attrs

from broker.cluster.address import UnitPath
from broker.transport.backoff import Backoff


class TableKey(NamedTuple):
    kind: str
    """`node`, `unit-links`, `profile`, `summary`, `flowing`, ..."""
    subject: str
    """A node's name, or a unit's path as text."""
    author: str


class GroupKey(NamedTuple):
    """Key of all tables of one author and scope; they share a version."""

    author: str
    scope: UnitPath


#: Kind and subject: a table among those of its author.
TableName: TypeAlias = tuple[str, str]
#: Newest place by origin: origin -> (epoch, offset).
Cuts: TypeAlias = dict[str, tuple[int, int]]


@attrs.frozen
class TableLimits:
    """Limits of one author and of all. Exceeding them is a protocol error."""

    tables: int = 64
    """Tables of one author and scope."""
    entries: int = 4096
    """Entries of a table. An interest union has at most 1000."""
    bytes: int = 4 << 20
    """Packed keys and values of one author and scope."""
    groups: int = 4096
    """Pairs of author and scope at a node."""


@attrs.frozen
class TableTimes:
    """In seconds."""

    refresh: float = 10.0
    """Of an author."""
    silence: float = 35.0
    """An author's tables are dropped after so long without a refresh: three intervals and travel
    time."""
    wave: float = 30.0
    """A wave is given up after so long; the author starts another."""
    retry: float = 0.25
    """Pause before a broken wave is repeated; it doubles up to `max_retry`."""
    max_retry: float = 8.0

    def make_backoff(self) -> Backoff:
        return Backoff(self.retry, self.max_retry, jitter=False, success_after=self.silence)


@attrs.frozen
class TableSnapshot:
    authors: int
    tables: int
    entries: int
    bytes: int
    """Packed keys and values."""
