"""The parts of an event as the envelope's DTD names them (Mspaces M19-M42)."""

from __future__ import annotations

import enum
import functools
from typing import NamedTuple

import attrs

from broker.event.identity import EventId

NAMESPACE = "urn:xmlbroker:mspaces"

#: The event type of an event that carries no payload.
ENVELOPE_TYPE = "event"


@functools.total_ordering
class SecurityLevel(enum.Enum):
    """@Securitylevel (M27). An event leaves only over links cleared for its level (X12)."""

    LOW = "low"
    MED = "med"
    HIGH = "high"

    rank: int
    """0, 1, 2 from low to high."""

    def __init__(self, _: str) -> None:
        self.rank = len(type(self).__members__)

    def __lt__(self, other: SecurityLevel) -> bool:
        return self.rank < other.rank


class Liveness(enum.Enum):
    """@Liveness (M28): recovery means missed during a roam or a prolonged disconnect (M41)."""

    LIVE = "live"
    RECOVERY = "recovery"


@attrs.frozen
class EventType:
    """EventType (M26): the payload's DTD by name and version, and how the event is handled.

    The name stands in the DOCTYPE's public identifier, the version there and in VersionNum.
    """

    name: str
    version: str
    latest_version: str | None = None
    security_level: SecurityLevel = SecurityLevel.MED
    liveness: Liveness = Liveness.LIVE


@attrs.frozen
class Bundle:
    """BundleId and BundleNumber (M31, M32): a subset of a stream, numbered in rising order."""

    bundle_id: str
    bundle_number: int


@attrs.frozen
class Order:
    """One entry of BundleOrder (M35): a stream, or a bundle, in the order for concurrent events."""

    name: str
    is_bundle: bool = False


@attrs.frozen
class EventLinkage:
    """EventLinkage (M30): dependencies between events of several streams.

    No bundle and neither constraint nor scheme means that nothing is to be merged (K4). An empty
    `order` is written as the event's own stream, which is the least the DTD accepts (K23).
    Version 1.0 of the envelope allows one bundle, 1.1 many (M39).
    """

    bundles: tuple[Bundle, ...] = ()
    time_constraint: str | None = None
    merge_scheme: str | None = None
    order: tuple[Order, ...] = ()


@attrs.frozen
class Event:
    """One immutable XML document: the envelope with at most one payload element.

    `payload` holds the payload element's bytes as they stand in the document, or None;
    `document` the whole event, untouched.
    """

    stream: str
    event_id: EventId
    event_type: EventType
    linkage: EventLinkage = EventLinkage()
    application_types: tuple[str, ...] = ()
    summary: str | None = None
    payload: bytes | None = None
    document: bytes = attrs.field(default=b"", repr=False)


class Header(NamedTuple):
    """What a hop needs of an event without opening it: repeated in frames (DESIGN 4).

    A tuple, because one is made per event at every hop.
    """

    event_id: EventId
    stream: str
    type_name: str
    version: str
    security_level: SecurityLevel
    liveness: Liveness


def public_identifier(type_name: str, version: str) -> str:
    """The public identifier that names an event type in a DOCTYPE (DESIGN 5)."""
    return f"-//xmlbroker//DTD {type_name} {version}//EN"


def system_identifier(type_name: str, version: str) -> str:
    """The default system identifier: a pointer in the reserved domain, which nobody fetches."""
    return f"https://xmlbroker.example/dtd/{type_name}-{version}.dtd"
