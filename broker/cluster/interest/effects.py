"""Effects that the exchange of interest returns, besides those of tables."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeAlias

import attrs

from broker.cluster.address import UnitPath
from broker.cluster.tables.effects import TablesEffect
from broker.matching.covering.stream_interest import StreamInterest
from broker.streams.queue_policy import IQueuePolicy

#: A node of the own cluster by its name, or a far unit.
Destination: TypeAlias = str | UnitPath


@attrs.frozen
class InterestAdded:
    """Match events against this destination's interest from now on."""

    destination: Destination
    id: str
    interest: StreamInterest


@attrs.frozen
class InterestRemoved:
    destination: Destination
    id: str


@attrs.frozen
class QueuePoliciesChanged:
    """All named queue policies of a destination's interest, by its id; others are `block`."""

    destination: Destination
    policies: Mapping[str, IQueuePolicy]


@attrs.frozen
class InterestActive:
    """From the cuts on, all events that match the key's interest are sent here.

    An origin without a cut was unreachable. Without any cuts, active interest covered it already:
    then the node's own positions are the cuts.
    """

    key: Hashable
    cuts: Mapping[str, tuple[int, int]]


@attrs.frozen
class BadInterest:
    """A table has an invalid entry, which was widened. Returned once for each."""

    author: str
    entry: str
    reason: str


InterestEffect: TypeAlias = (
    TablesEffect
    | InterestAdded
    | InterestRemoved
    | QueuePoliciesChanged
    | InterestActive
    | BadInterest
)
