"""The names of tables, and how large they may be."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import attrs

from broker.cluster.address import UnitPath


class TableKey(NamedTuple):
    """Which table."""

    kind: str
    """`node`, `unit-links`, `profile`, `summary`, `flowing`, ..."""
    subject: str
    """What it is about: a node's name, a unit's path as text."""
    author: str
    """The node that writes it."""


class GroupKey(NamedTuple):
    """All tables of one author for one scope: they are versioned together."""

    author: str
    scope: UnitPath


#: Kind and subject: a table among those of its author.
TableName: TypeAlias = tuple[str, str]
#: Newest place of each origin: origin -> (epoch, offset).
Cuts: TypeAlias = dict[str, tuple[int, int]]


@attrs.frozen
class TableLimits:
    """What one author, and all, may take. A peer that sends more breaks the protocol."""

    tables: int = 64
    """Tables of one author and scope."""
    entries: int = 4096
    """Entries of a table. A union of wants has at most 1000."""
    bytes: int = 4 << 20
    """Keys and values of the tables of one author and scope, packed."""
    groups: int = 4096
    """Authors times scopes that a node holds altogether."""


@attrs.frozen
class TableTimes:
    """In seconds."""

    refresh: float = 10.0
    """How often an author says that it lives."""
    silence: float = 35.0
    """An author's tables are dropped when it was not heard for so long: three refreshes, and some
    time to travel."""
    wave: float = 30.0
    """A wave that took so long is given up, and the author starts another."""
    retry: float = 0.25
    """Pause before a broken wave is repeated; it doubles up to `again_most`."""
    max_retry: float = 8.0


@attrs.frozen
class TableSnapshot:
    """How large the tables are that a node holds."""

    authors: int
    tables: int
    entries: int
    bytes: int
    """Of keys and values, packed."""
