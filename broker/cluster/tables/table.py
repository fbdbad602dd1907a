"""Keys of tables, their limits and their timers."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import attrs

from broker.cluster.address import UnitPath
from broker.transport.backoff import Backoff


class TableKey(NamedTuple):
    kind: str
    subject: str
    """A node's name, or a unit's path."""
    author: str


class GroupKey(NamedTuple):
    """All tables of one author and scope share a version."""

    author: str
    scope: UnitPath


#: Kind and subject.
TableName: TypeAlias = tuple[str, str]
Cuts: TypeAlias = dict[str, tuple[int, int]]


@attrs.frozen
class TableLimits:
    """Exceeding them is a protocol error."""

    tables: int = 64
    """Of one author and scope."""
    entries: int = 4096
    """Of a table. An interest union has at most 1000."""
    bytes: int = 4 << 20
    """Packed keys and values of one author and scope."""
    groups: int = 4096


@attrs.frozen
class TableTimes:
    """In seconds."""

    refresh: float = 10.0
    silence: float = 35.0
    """Then an author's tables are dropped: three refreshes and travel time."""
    wave: float = 30.0
    """Then a wave is given up; the author starts another."""
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
