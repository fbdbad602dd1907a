"""An event with its place.

Its record is the header as a msgpack array, made once at publication: the log and frames contain
these bytes. `broker.event.record` has the optional elements behind the header.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import msgpack

from broker.event.envelope import Header, Liveness, SecurityLevel, Validation
from broker.event.event_id import EventId
from broker.event.place import Mark, Place
from broker.event.record import ALL_FIELDS, RECORD_FIELDS, limit_fields

#: Approximate bytes of an event beside record and document.
EVENT_OVERHEAD = 64

_LEVELS = {level.value: level for level in SecurityLevel}


def _state_text(liveness: Liveness, validation: Validation) -> str:
    described = validation is Validation.DESCRIBED
    return liveness.value if described else f"{liveness.value} {validation.value}"


#: By the last element of a header: the liveness, and the validation if it is not the usual one.
_STATES = {
    _state_text(liveness, validation): (liveness, validation)
    for liveness in Liveness
    for validation in Validation
}
_STATE_TEXTS = {pair: text for text, pair in _STATES.items()}
#: All of them, as the elements of records have them.
HEADER_STATES = tuple(_STATES)
_pack = msgpack.Packer().pack


@attrs.define(slots=True, eq=False)
class LoggedEvent:
    """An event with its place and its serial in this node's log, immutable once committed.

    A frozen class takes twice as long on the hot path.
    """

    epoch: int
    offset: int
    """With epoch and origin: its place."""
    arrival: int
    """Time when the node logged it, ms since 1970; never falls from event to event."""
    level: int
    """Rank of its security level, 0 to 2."""
    record: bytes
    """The header as a msgpack array: see `encode_header`."""
    document: bytes
    origin: str
    """The log that gave it its place: this node's own, or another's."""
    serial: int
    """Its number in this node's log, for any origin: gapless, in the order of arrival."""
    is_withheld: bool = False
    """True for an own event that subscriptions get as a later copy (`broker.log.known_flows`)."""

    @property
    def mark(self) -> Mark:
        return (self.epoch, self.offset)

    @property
    def place(self) -> Place:
        return Place(self.origin, self.epoch, self.offset)

    @property
    def size(self) -> int:
        """Approximate bytes in a queue or a frame."""
        return len(self.record) + len(self.document) + EVENT_OVERHEAD


def relabelled(event: LoggedEvent, origin: str) -> LoggedEvent:
    """Return the event under another origin. `attrs.evolve` takes three times as long."""
    return LoggedEvent(
        event.epoch,
        event.offset,
        event.arrival,
        event.level,
        event.record,
        event.document,
        origin,
        event.serial,
        event.is_withheld,
    )


def encode_header(header: Header) -> bytes:
    """Return the record of a header."""
    event_id, stream, type_name, version, level, liveness, validation = header
    described = validation is Validation.DESCRIBED
    client_id, timestamp, number, incarnation = event_id
    # `value` takes as long as all the rest.
    record: bytes = _pack(
        (
            client_id,
            timestamp,
            number,
            incarnation,
            stream,
            type_name,
            version,
            level._value_,
            liveness._value_ if described else _STATE_TEXTS[liveness, validation],
        )
    )
    return record


def encode_fields(fields: tuple[Any, ...]) -> bytes:
    """Return the record of header values in its order."""
    record: bytes = _pack(fields)
    return record


def header_from_fields(fields: Any) -> Header:
    """Return the header of a record's elements, without those behind it.

    Raises ValueError, TypeError or KeyError.
    """
    if RECORD_FIELDS < len(fields) <= ALL_FIELDS:
        fields = fields[:RECORD_FIELDS]
    client_id, timestamp, number, incarnation, stream, name, version, level, state = fields
    return Header(
        EventId(client_id, timestamp, number, incarnation),
        stream,
        name,
        version,
        _LEVELS[level],
        *_STATES[state],
    )


def may_state_validation(records: bytes) -> bool:
    """Return False if no record says that its event was not validated by a DTD.

    Bytes of other elements may be equal, but rarely are.
    """
    return b"undescribed" in records or b"marked" in records


def without_validation(record: bytes) -> bytes:
    """Return a record of nine elements as earlier versions know it."""
    if validation_of(record) is Validation.DESCRIBED:
        return record
    header = header_from_fields(msgpack.unpackb(record, use_list=False))
    return encode_header(header._replace(validation=Validation.DESCRIBED))


def validation_of_state(state: str) -> Validation:
    """Return the validation that the last element of a header has. Raises KeyError."""
    return _STATES[state][1]


def validation_of(record: bytes) -> Validation:
    """Return how the origin validated the event of a record. A malformed one counts as usual."""
    if not may_state_validation(record):
        return Validation.DESCRIBED
    try:
        state = msgpack.unpackb(record, use_list=False)[RECORD_FIELDS - 1]
        return validation_of_state(state)
    except (ValueError, TypeError, LookupError, msgpack.UnpackException):
        return Validation.DESCRIBED


def events_with_fields(events: Sequence[LoggedEvent], most: int) -> list[LoggedEvent]:
    """Return events whose records have at most `most` elements, for nodes of earlier versions."""
    if most == ALL_FIELDS:
        return list(events)
    return [attrs.evolve(event, record=limit_fields(event.record, most)) for event in events]
