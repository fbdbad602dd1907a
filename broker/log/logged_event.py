"""An event with its place.

Its record is the header as a msgpack array, made once at publication: the log and frames contain
these bytes. `broker.event.record` has the optional elements behind the header.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import msgpack

from broker.event.envelope import MAX_EVENT_TIME, Header, Liveness, SecurityLevel, Validation
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
#: In the last element of every header that is more than a liveness.
_LIVE, _RECOVERY = (f"{liveness.value} ".encode() for liveness in Liveness)
_TIME_DIGITS = len(str(MAX_EVENT_TIME))
_USUAL = (Validation.DESCRIBED, None)


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
    event_id, stream, type_name, version, level, liveness, validation, time = header
    described = validation is Validation.DESCRIBED
    state = liveness._value_ if described else _STATE_TEXTS[liveness, validation]
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
            state if time is None else join_time(state, time),
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
        *decode_state(state),
    )


def decode_state(state: str) -> tuple[Liveness, Validation, int | None]:
    """Return liveness, validation and time of the last element of a header.

    Raises KeyError or TypeError.
    """
    if (known := _STATES.get(state)) is not None:
        return (*known, None)
    text, time = split_time(state)
    return (*_STATES[text], time)


def split_time(state: str) -> tuple[str, int | None]:
    """Return the last element of a header without the event's time, and that time.

    Raises KeyError or TypeError if there is no such element.
    """
    if state in _STATES:
        return state, None
    if not isinstance(state, str):
        raise TypeError("the state of an event is a text")
    text, _, digits = state.rpartition(" ")
    # Only one text of each time: a record that is decoded and encoded keeps its bytes.
    if text not in _STATES or len(digits) > _TIME_DIGITS or not digits.isdecimal():
        raise KeyError(state)
    time = int(digits)
    if time > MAX_EVENT_TIME or str(time) != digits:
        raise KeyError(state)
    return text, time


def join_time(state: str, time: int | None) -> str:
    """Return the last element of a header with a time. Raises ValueError for one out of range."""
    if time is None:
        return state
    if not 0 <= time <= MAX_EVENT_TIME:
        raise ValueError(f"the event's time {time} is not from 0 to {MAX_EVENT_TIME}")
    return f"{state} {time}"


def may_state_more(records: bytes) -> bool:
    """Return False if no record has a validation that is not the usual one, or a time.

    Bytes of other elements may be equal, but rarely are.
    """
    return _LIVE in records or _RECOVERY in records


def with_liveness_only(record: bytes) -> bytes:
    """Return a record of nine elements as earlier versions know it."""
    if state_of(record) == _USUAL:
        return record
    header = header_from_fields(msgpack.unpackb(record, use_list=False))
    return encode_header(header._replace(validation=Validation.DESCRIBED, time=None))


def state_of(record: bytes) -> tuple[Validation, int | None]:
    """Return how the origin validated the event of a record, and the event's time.

    A malformed record counts as usual, without a time.
    """
    if not may_state_more(record):
        return _USUAL
    try:
        return decode_state(msgpack.unpackb(record, use_list=False)[RECORD_FIELDS - 1])[1:]
    except (ValueError, TypeError, LookupError, msgpack.UnpackException):
        return _USUAL


def validation_of(record: bytes) -> Validation:
    """Return how the origin validated the event of a record. A malformed one counts as usual."""
    return state_of(record)[0]


def time_of(record: bytes) -> int | None:
    """Return the event's own time, ms since 1970; None if it has none or is malformed."""
    return state_of(record)[1]


def events_with_fields(events: Sequence[LoggedEvent], most: int) -> list[LoggedEvent]:
    """Return events whose records have at most `most` elements, for nodes of earlier versions."""
    if most == ALL_FIELDS:
        return list(events)
    return [attrs.evolve(event, record=limit_fields(event.record, most)) for event in events]
