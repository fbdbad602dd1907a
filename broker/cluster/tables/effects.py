"""What the tables' core wants done, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from broker.cluster.address import UnitPath
from broker.cluster.messages import Message, TableChange, Value
from broker.cluster.tables.table import TableKey


@attrs.frozen
class Send:
    """Give the message to the link to this neighbour."""

    neighbour: str
    message: Message


@attrs.frozen
class TableChanged:
    """Another node's table changed. None: the entry is gone; `gone`: the whole table is.

    `anew`: a later process of the author says it, which may not know yet what it will say again.
    """

    key: TableKey
    scope: UnitPath
    changes: Mapping[str, Value | None]
    is_removed: bool = False
    is_restart: bool = attrs.field(default=False, eq=False)


@attrs.frozen
class TableEchoed:
    """All reachable nodes in the scope have this node's table at this version, or newer.

    `cuts` holds for each of them, and for this one, its newest place when it had it. Said once for
    each version that was published with `echo`, but that a later one stands for it when very many
    are under way.
    """

    key: TableKey
    version: int
    cuts: Mapping[str, tuple[int, int]]


@attrs.frozen
class NeighbourSynchronised:
    """All that a neighbour knew when the link to it came up is known here. Said once for a link."""

    neighbour: str


@attrs.frozen
class NameConflict:
    """Another process publishes newer tables under the name of this node: an earlier one of this
    node that is gone, or one that runs now."""

    tables: tuple[TableChange, ...]


TablesEffect: TypeAlias = Send | TableChanged | TableEchoed | NeighbourSynchronised | NameConflict
