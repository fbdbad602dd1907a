"""Parts of an event, named as in the envelope's DTD (Mspaces M19-M42)."""

from __future__ import annotations

import enum
import functools
from typing import Final, NamedTuple

import attrs

from broker.event.event_id import EventId

NAMESPACE = "urn:xmlbroker:mspaces"
#: Prefix of the envelope's elements in DTDs, documents and queries.
ENVELOPE_PREFIX: Final = "Mspaces"
XML_NAMESPACE: Final = "http://www.w3.org/XML/1998/namespace"

#: Type of an event without a payload.
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


#: Latest time of its own that an event may have, ms since 1970; JSON readers have it exactly.
MAX_EVENT_TIME: Final = 2**53

#: Clearance for events of all levels.
HIGHEST_RANK: Final = SecurityLevel.HIGH.rank
#: Highest level that crosses a network without encryption, whatever the rights (X12, T37).
CLEARTEXT_LEVEL: Final = SecurityLevel.MED


class Liveness(enum.Enum):
    """@Liveness (M28). Recovery events were missed in a roam or a long disconnection (M41)."""

    LIVE = "live"
    RECOVERY = "recovery"


class Validation(enum.Enum):
    """Validation of an event by its origin. Relays and recoveries treat the event alike."""

    DESCRIBED = "described"
    """It is valid by the DTD of its type."""

    UNDESCRIBED = "undescribed"
    """No DTD described its type. It is well-formed, and its envelope is valid."""

    MARKED = "marked"
    """It is not valid by the DTD of its type, and was accepted with this mark."""


@attrs.frozen
class EventType:
    """Type of an event (M26), from the payload's DTD."""

    name: str
    version: str
    latest_version: str | None = None
    security_level: SecurityLevel = SecurityLevel.MED
    liveness: Liveness = Liveness.LIVE


@attrs.frozen
class Bundle:
    """BundleId and BundleNumber (M31, M32): a subset of a stream, with rising numbers."""

    bundle_id: str
    bundle_number: int


@attrs.frozen
class Order:
    """An entry of BundleOrder (M35): a stream or a bundle."""

    name: str
    is_bundle: bool = False


@attrs.frozen
class EventLinkage:
    """Dependencies between events of several streams (M30).

    Without bundle, constraint and scheme the event is not merged (K4). An empty `order` is written
    as the event's own stream (K23). Envelope 1.0 allows one bundle, 1.1 many (M39).
    """

    bundles: tuple[Bundle, ...] = ()
    time_constraint: str | None = None
    merge_scheme: str | None = None
    order: tuple[Order, ...] = ()


@attrs.frozen
class Event:
    """One immutable XML document.

    `payload` has the element's unchanged bytes, `document` the whole event.
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
    """Fields that each hop reads; frames repeat them (DESIGN 4).

    A tuple, because each hop makes one per event.
    """

    event_id: EventId
    stream: str
    type_name: str
    version: str
    security_level: SecurityLevel
    liveness: Liveness
    validation: Validation = Validation.DESCRIBED
    time: int | None = None
    """The event's own time as its publisher stated it, ms since 1970; None if it has none."""


def event_time_problem(time: object) -> str:
    """Return the reason why an event can not have this time of its own; empty if it can."""
    if isinstance(time, int) and not isinstance(time, bool) and 0 <= time <= MAX_EVENT_TIME:
        return ""
    return f"the event's time {str(time)[:40]} is not from 0 to {MAX_EVENT_TIME} ms since 1970"


def public_identifier(type_name: str, version: str) -> str:
    return f"-//xmlbroker//DTD {type_name} {version}//EN"


def system_identifier(type_name: str, version: str) -> str:
    """Return the default URL, which is never fetched."""
    return f"https://xmlbroker.example/dtd/{type_name}-{version}.dtd"
