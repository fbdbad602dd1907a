"""Order entry: place of an event in the order of its group, as the annotation of its record.

The bytes are a msgpack array: the text `order`, the version, and the fields of `OrderEntry` in
their sequence. Annotations of other transports, and of later versions, are no order entries.
"""

from __future__ import annotations

from itertools import repeat
from typing import Annotated, Final, Literal, TypeAlias

import attrs
import msgspec

from broker.event.record import MAX_ANNOTATION_BYTES

VERSION: Final = 1
#: First bytes of each entry: the array of 14 elements, the text, the version.
_START: Final = b"\x9e\xa5order\x01"
_MAX_SIGNED: Final = 2**63 - 1

_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=_MAX_SIGNED)]
_Incarnation: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MAX_SIGNED)]
_Stamp: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=_MAX_SIGNED)]
_Bound: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MAX_SIGNED)]
_MessageId: TypeAlias = tuple[_Name, _Incarnation, _Number]
_Fields: TypeAlias = tuple[
    Literal["order"],
    Literal[1],
    _Name,
    _Name,
    _Incarnation,
    _Number,
    _Stamp | None,
    _Name,
    _Bound,
    bool,
    _MessageId | None,
    _MessageId | None,
    bool,
    Annotated[str, msgspec.Meta(max_length=64)],
]
_decoder = msgspec.msgpack.Decoder(_Fields)
_encode = msgspec.msgpack.Encoder().encode

#: (site, incarnation, number) of a message in its group.
MessageId: TypeAlias = tuple[str, int, int]
#: The fields of `OrderEntry`.
EntryFields: TypeAlias = tuple[
    str,
    str,
    int,
    int,
    int | None,
    str,
    int,
    bool,
    MessageId | None,
    MessageId | None,
    bool,
    str,
]


@attrs.frozen
class OrderEntry:
    """Place of one event in the order of its group.

    Names have 1 to 64 characters. Numbers are below 2^63.
    """

    stack: str
    """Name of the stack instance, which is the name of the group."""
    site: str
    """Site of the publisher."""
    incarnation: int
    number: int
    """With site and incarnation: the id of the message. It counts from 1."""
    stamp: int | None
    """64 bits, signed. None: a sequencer has not given a number yet."""
    variant: str
    """Variant of the order, such as `hybrid`."""
    bound: int = 0
    """Error of a stamp that is a time: at most so many microseconds. 0: it is no time."""
    is_late: bool = False
    """True if events with higher stamps were delivered before it."""
    before: MessageId | None = None
    """For a late event: the delivered message before its place; None if it is not known."""
    after: MessageId | None = None
    """For a late event: the delivered message after its place; None if it is not known."""
    is_recovered: bool = False
    """True if the event came from a log or the archive."""
    tie: str = ""
    """Name that orders equal stamps; empty: the site."""

    @property
    def id(self) -> MessageId:
        return self.site, self.incarnation, self.number


def encode_order_entry(entry: OrderEntry) -> bytes:
    """Return the annotation. Raises ValueError for fields beyond their bounds."""
    fields = (
        *("order", VERSION, entry.stack, entry.site, entry.incarnation, entry.number),
        *(entry.stamp, entry.variant, entry.bound, entry.is_late, entry.before, entry.after),
        *(entry.is_recovered, entry.tie),
    )
    try:
        annotation = _encode(fields)
        _decoder.decode(annotation)
    except (OverflowError, ValueError, msgspec.MsgspecError):
        annotation = b""
    has_place = entry.before is not None or entry.after is not None
    is_wrong = has_place and not entry.is_late
    if not annotation or len(annotation) > MAX_ANNOTATION_BYTES or is_wrong:
        raise ValueError(f"not a valid order entry: {entry}")
    return annotation


def encode_run(
    stack: str, id: MessageId, stamp: int | None, variant: str, bound: int, tie: str, count: int
) -> list[bytes]:
    """Return the annotations of events in time whose numbers and stamps follow each other.

    The caller checks the bounds of the fields.
    """
    site, incarnation, number = id
    first = _START + _encode((stack, site, incarnation))[1:]
    last = _encode((variant, bound, False, None, None, False, tie))[1:]
    numbers = range(number, number + count)
    stamps = repeat(None, count) if stamp is None else range(stamp, stamp + count)
    pairs = zip(map(_encode, numbers), map(_encode, stamps), strict=True)
    return [b"".join((first, *pair, last)) for pair in pairs]


def decode_order_entry(annotation: bytes) -> OrderEntry | None:
    """Return the entry; None for other, malformed or too many bytes."""
    fields = decode_entry_fields(annotation)
    return None if fields is None else OrderEntry(*fields)


def decode_entry_fields(annotation: bytes) -> EntryFields | None:
    """Return the fields of `OrderEntry`, in a third of the time that an entry takes."""
    if not annotation.startswith(_START) or len(annotation) > MAX_ANNOTATION_BYTES:
        return None
    try:
        fields: EntryFields = _decoder.decode(annotation)[2:]
    except (msgspec.MsgspecError, ValueError):
        return None
    is_late, before, after = fields[7:10]
    return None if (before or after) and not is_late else fields
