"""Effects that the core of the tables returns, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from broker.cluster.address import UnitPath
from broker.cluster.messages import Message, TableChange, Value
from broker.cluster.tables.table import TableKey


@attrs.frozen
class Send:
    neighbour: str
    message: Message


@attrs.frozen
class TableChanged:
    """Another node's table changed; None removes an entry.

    `is_restart`: the author's process is new, and may publish more entries soon.
    """

    key: TableKey
    scope: UnitPath
    changes: Mapping[str, Value | None]
    is_removed: bool = False
    is_restart: bool = attrs.field(default=False, eq=False)


@attrs.frozen
class TableEchoed:
    """All reachable nodes in the scope have this node's table at this version, or newer.

    `cuts` has the newest place of each node when it had the version. There is one effect for each
    version published with `echo`. With very many, a later one stands for it.
    """

    key: TableKey
    version: int
    cuts: Mapping[str, tuple[int, int]]


@attrs.frozen
class NeighbourSynchronised:
    """All tables that a neighbour had when its link came up are here. Returned once for a link."""

    neighbour: str


@attrs.frozen
class NameConflict:
    """Another process publishes newer tables under this node's name, or an earlier one did."""

    tables: tuple[TableChange, ...]


TablesEffect: TypeAlias = Send | TableChanged | TableEchoed | NeighbourSynchronised | NameConflict
