"""What the profiles' core tells the node, beside the effects of tables."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeAlias

import attrs

from broker.cluster.address import UnitPath
from broker.cluster.tables.effects import TablesEffect
from broker.matching.covering.stream_interest import StreamInterest

#: Where events go: a node of the own cluster by its name, or a far unit.
Destination: TypeAlias = str | UnitPath


@attrs.frozen
class InterestAdded:
    """A destination wants this now: match events against it from here on."""

    destination: Destination
    id: str
    interest: StreamInterest


@attrs.frozen
class InterestRemoved:
    """A destination does not want this any more."""

    destination: Destination
    id: str


@attrs.frozen
class InterestActive:
    """After the cuts no event that the key wants is missed.

    An origin that is not in `cuts` was not reachable, or, if `cuts` is empty, everything flowed
    already: then this node's own positions are the cut.
    """

    key: Hashable
    cuts: Mapping[str, tuple[int, int]]


@attrs.frozen
class BadInterest:
    """An author's table has an entry that is no want; it was replaced by a wider one.

    Said once for each such entry, for the log.
    """

    author: str
    entry: str
    reason: str


InterestEffect: TypeAlias = (
    TablesEffect | InterestAdded | InterestRemoved | InterestActive | BadInterest
)
