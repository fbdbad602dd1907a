"""The request of a replay, for every kind of recovery (checklist Q3).

On the wire it is a msgpack list of the fields, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from broker.errors import BadPosition, ProtocolError
from broker.event.event_time import ANY_TIME, EventTimes, is_empty_range
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query, parse_query
from broker.wire.codec import Count, Offset, Schema, WireMark

#: (after, upto]; without `upto`, up to the end of the archive.
Range: TypeAlias = tuple[Mark, Mark | None]

#: Each origin's and each publisher's order always hold.
PUBLISHER: Final = "publisher"
"""By arrival."""
PLACE: Final = "place"
"""By the order that the protocol stack gave, if any (AN, global order place)."""
BUNDLE: Final = "bundle"
"""By the bundles and constraints of EventLinkage, see `broker.event.merging`."""
ORDERS: Final = (PUBLISHER, PLACE, BUNDLE)

#: Before all events of an origin.
ORIGIN_START: Final[Mark] = (0, 0)
#: As many as a node tracks.
MAX_ORIGINS: Final = 16_384
_RANKS: Final = range(3)
_ORIGIN = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


class _WireRequest(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Marks of ranges have an error of their own."""

    pattern: str
    query: str
    namespaces: dict[str, str]
    clearance: Count
    ranges: tuple[tuple[str, Any, Any], ...]
    others: bool
    from_ms: Offset
    until_ms: Offset
    last: Offset
    order: str
    known: tuple[tuple[str, WireMark], ...]
    event_times: tuple[Offset, Offset]


_REQUEST: Final = Schema[_WireRequest](_WireRequest, "replay request")
_RANGE: Final = Schema[Range](tuple[WireMark, WireMark | None], "range of an origin")


@attrs.frozen
class ReplayRequest:
    """Equal requests give equal results. Only `validate` and `from_wire` check the fields."""

    pattern: str
    query: str
    """XPath 1.0 condition, in which `$Liveness` is 'recovery'."""
    namespaces: Mapping[str, str] = attrs.field(factory=dict)
    clearance: int = max(_RANKS)
    """Rank, 0 to 2. Events of higher levels are omitted and counted."""
    ranges: Mapping[str, Range] = attrs.field(factory=dict)
    others: bool = True
    """Also request all events of origins that have no range."""
    from_ms: int = 0
    until_ms: int = 0
    """Arrival times at the origin, [from, until), in ms since 1970; 0: no limit."""
    last: int = 0
    """Only the last n events that match; 0: all."""
    order: str = PUBLISHER
    known: Mapping[str, Mark] = attrs.field(factory=dict)
    """A place that an origin with an open range has assigned.

    Places up to it may be missing even if the origin was reset and continued behind it.
    """
    event_times: EventTimes = ANY_TIME
    """Bounds of the events' own times. Events without one are in no range with a bound."""
    holder: str = attrs.field(default="", eq=False)
    """The account, or client without one, that has a share of the spool. It is not sent."""

    def stream_pattern(self) -> StreamPattern:
        """Raises `BadName`."""
        return StreamPattern.parse(self.pattern)

    def parsed_query(self, limits: QueryLimits = QueryLimits()) -> Query:
        """Raises `BadQuery`."""
        return parse_query(self.query, self.namespaces, limits)

    def range_of(self, origin: str) -> Range | None:
        """Return None if no events of the origin are requested."""
        requested = self.ranges.get(origin)
        if requested is None and self.others:
            return (ORIGIN_START, None)
        return requested

    def validate(self, limits: QueryLimits = QueryLimits()) -> ReplayRequest:
        """Return the request if all fields are valid.

        Raises `BadName` for the pattern, `BadQuery` for the query and prefixes, `BadPosition` for
        marks, origins and times, and `ProtocolError` for other fields.
        """
        self.stream_pattern()
        self.parsed_query(limits)
        if self.clearance not in _RANKS:
            raise ProtocolError(f"clearance {self.clearance} is not a rank from 0 to 2")
        if self.order not in ORDERS:
            raise ProtocolError(f"order {self.order[:40]!r} is not one of {', '.join(ORDERS)}")
        if len(self.ranges) > MAX_ORIGINS:
            raise BadPosition(f"the request names {len(self.ranges)} origins, over {MAX_ORIGINS}")
        for origin, (after, upto) in self.ranges.items():
            _check_range(origin, after, upto)
        if not self.known.keys() <= self.ranges.keys():
            raise BadPosition("a known place belongs to an origin that the request does not name")
        if self.until_ms and self.from_ms > self.until_ms:
            raise BadPosition(f"the time {self.until_ms} is before {self.from_ms}")
        if is_empty_range(self.event_times):
            raise BadPosition(f"no time is from {self.event_times[0]} to {self.event_times[1]}")
        return self

    def to_wire(self) -> list[Any]:
        return [
            self.pattern,
            self.query,
            dict(self.namespaces),
            self.clearance,
            [[origin, after, upto] for origin, (after, upto) in sorted(self.ranges.items())],
            self.others,
            self.from_ms,
            self.until_ms,
            self.last,
            self.order,
            [[origin, mark] for origin, mark in sorted(self.known.items())],
            list(self.event_times),
        ]

    @classmethod
    def from_wire(cls, value: Any, limits: QueryLimits = QueryLimits()) -> ReplayRequest:
        """Decode and validate the result of `to_wire`. Raises as `validate`."""
        wire = _REQUEST.convert(value)
        try:
            ranges = {origin: _RANGE.convert(marks) for origin, *marks in wire.ranges}
        except ProtocolError as error:
            raise BadPosition(str(error)) from None
        known = dict(wire.known)
        if len(ranges) != len(wire.ranges) or len(known) != len(wire.known):
            raise ProtocolError("malformed replay request: an origin is named twice")
        fields = msgspec.structs.asdict(wire) | {"ranges": ranges, "known": known}
        return cls(**fields).validate(limits)


def _check_range(origin: str, after: Mark, upto: Mark | None) -> None:
    if not _ORIGIN.fullmatch(origin):
        raise BadPosition(f"{origin[:80]!r} is not a valid name of an origin")
    if upto is not None and upto < after:
        raise BadPosition(f"the range of {origin} ends at {upto}, before it begins at {after}")
