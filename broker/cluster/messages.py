"""Control messages between nodes.

One byte of kind, then a msgpack array of the class's fields in their order, as in a session
(`broker.wire.messages`). Every field is checked at construction and on arrival; a malformed message
raises `ProtocolError` and nothing else. Kinds: 0x40 to 0x4F joining and map, 0x50 to 0x5F tables
(`docs/protocols/tables.md`), 0x60 to 0x6F flows, 0x70 to 0x7F DTDs, 0x80 to 0x8F recovery, 0x90 to
0x9F questions to all nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast

import attrs
import msgpack

from broker.cluster.address import UnitPath, check_name, check_unit
from broker.errors import BadName, ProtocolError
from broker.wire import fields
from broker.wire.codec import WirePosition

#: Bytes of the longest control message; larger contents are sent in parts.
MAX_CONTROL = 1024 * 1024
#: Characters of a table's kind, of its subject, or of an entry's key.
MAX_NAME = 1024
#: Nesting depth of the tuples in a table's value.
MAX_NESTING = 8

#: Value of a table's entry. Tuples may also hold None.
Value: TypeAlias = str | int | float | bytes | bool | tuple[Any, ...]
#: Change of one table: kind, subject, step (`STEPS`), entries; None removes an entry.
TableChange: TypeAlias = tuple[str, str, int, tuple[tuple[str, Value | None], ...]]
#: Version of a group of tables: author, scope, incarnation, number.
GroupVersion: TypeAlias = tuple[str, UnitPath, int, int]

#: Steps of a change: set the named entries; the same in an emptied table; remove the table.
CHANGED, REPLACED, REMOVED = STEPS = (0, 1, 2)


class Message:
    kind: ClassVar[int]
    max_bytes: ClassVar[int] = MAX_CONTROL
    omits_empty_last: ClassVar[bool] = False
    """Omit an empty last field, which version 1 does not have."""


_by_kind: dict[int, type[Message]] = {}
_M = TypeVar("_M", bound=type[Message])


def register(kind: int) -> Callable[[_M], _M]:
    """Class decorator: register the class for `decode` under this kind.

    The decoding process must import all modules with registered classes.
    """

    def note(cls: _M) -> _M:
        cls.kind = kind
        assert kind not in _by_kind
        _by_kind[kind] = cls
        return cls

    return note


def _node(value: Any) -> str:
    return check_name(fields.text(value))


def _unit(value: Any) -> UnitPath:
    return check_unit(fields.text_list(value))


def _name(value: Any) -> str:
    if len(fields.text(value)) > MAX_NAME:
        raise ValueError("a name is too long")
    return cast(str, value)


def check_value(value: Any, depth: int = MAX_NESTING) -> Value:
    """Raises `TypeError` or `ValueError` if a table can not hold the value."""
    if type(value) is tuple:
        if not depth:
            raise ValueError("a value is nested too deep")
        for item in value:
            if item is not None:
                check_value(item, depth - 1)
    elif type(value) is int:
        if not -(1 << 63) <= value < 1 << 64:
            raise ValueError("a number out of range")
    elif type(value) not in (str, float, bytes, bool):
        raise TypeError("a type that a table can not hold")
    return cast(Value, value)


def _table_changes(value: Any) -> tuple[TableChange, ...]:
    return tuple(_table_change(*change) for change in value)


def _table_change(kind: Any, subject: Any, how: Any, entries: Any) -> TableChange:
    if how not in STEPS or (how == REMOVED and entries):
        raise ValueError("no such change")
    return (_name(kind), _name(subject), fields.count(how), tuple(_entry(*e) for e in entries))


def _entry(key: Any, value: Any) -> tuple[str, Value | None]:
    return (_name(key), None if value is None else check_value(value))


def _group_versions(value: Any) -> tuple[GroupVersion, ...]:
    return tuple(
        (_node(author), _unit(scope), fields.count(incarnation), fields.count(number))
        for author, scope, incarnation, number in value
    )


# ----------------------------------------------------------------------------- tables


@register(0x50)
@attrs.frozen
class Digest(Message):
    """Versions that the sender holds. The answer has all newer ones, and with `all` unnamed
    groups."""

    versions: tuple[GroupVersion, ...] = attrs.field(converter=_group_versions)
    all: bool = attrs.field(converter=fields.flag)
    more: bool = attrs.field(converter=fields.flag)
    """Another part follows at once."""


@register(0x51)
@attrs.frozen
class Update(Message):
    """Changes of an author's tables of one scope from number `base` to `number`; complete if `base`
    is 0."""

    author: str = attrs.field(converter=_node)
    unit: UnitPath = attrs.field(converter=_unit)
    """The author's cluster."""
    scope: UnitPath = attrs.field(converter=_unit)
    incarnation: int = attrs.field(converter=fields.count)
    base: int = attrs.field(converter=fields.count)
    number: int = attrs.field(converter=fields.count)
    age: int = attrs.field(converter=fields.count)
    """Ms since the author's last sign of life, as known to the sender."""
    tables: tuple[TableChange, ...] = attrs.field(converter=_table_changes)
    more: bool = attrs.field(converter=fields.flag)
    """Another part follows at once."""


@register(0x52)
@attrs.frozen
class Refresh(Message):
    """Sign of life of an author, with the number of its tables."""

    author: str = attrs.field(converter=_node)
    unit: UnitPath = attrs.field(converter=_unit)
    scope: UnitPath = attrs.field(converter=_unit)
    incarnation: int = attrs.field(converter=fields.count)
    number: int = attrs.field(converter=fields.count)
    serial: int = attrs.field(converter=fields.count)
    """Rises with each refresh of one author, scope and incarnation."""
    age: int = attrs.field(converter=fields.count)
    """Ms since the sender received it."""


@register(0x53)
@attrs.frozen
class Probe(Message):
    """Ask all nodes of the scope to confirm an author's tables at `number` or newer."""

    author: str = attrs.field(converter=_node)
    scope: UnitPath = attrs.field(converter=_unit)
    incarnation: int = attrs.field(converter=fields.count)
    number: int = attrs.field(converter=fields.count)
    wave: int = attrs.field(converter=fields.count)
    """Rises with each wave of one author, scope and incarnation."""


@register(0x54)
@attrs.frozen
class Proof(Message):
    """Confirmation of the sender, and of all nodes to which it forwarded the probe first.

    `is_complete` is false if one of them lacks the tables.
    """

    author: str = attrs.field(converter=_node)
    scope: UnitPath = attrs.field(converter=_unit)
    incarnation: int = attrs.field(converter=fields.count)
    wave: int = attrs.field(converter=fields.count)
    is_complete: bool = attrs.field(converter=fields.flag)
    cuts: WirePosition = attrs.field(converter=fields.position)
    """The newest places of those nodes at that time."""


# ----------------------------------------------------------------------------- bytes


def encode(message: Message) -> bytes:
    values = attrs.astuple(cast(attrs.AttrsInstance, message), recurse=False)
    if message.omits_empty_last and not values[-1]:
        values = values[:-1]
    packed: bytes = msgpack.packb(values)
    return bytes([message.kind]) + packed


#: Errors for the first message of a client's session, by its kind.
_OF_SESSIONS: Final = {
    b"\x01": "a client has connected to a port for nodes: clients use one of listen.endpoints",
    b"\x03": "that port is for clients: other nodes use the port of the node's network.listen",
}


def decode(data: bytes) -> Message:
    """Raises `ProtocolError`."""
    cls = _by_kind.get(data[0]) if data else None
    if cls is None:
        kind = f"unknown message kind {data[:1].hex() or 'of an empty message'}"
        raise ProtocolError(_OF_SESSIONS.get(data[:1], kind))
    if len(data) > cls.max_bytes:
        raise ProtocolError(f"{cls.__name__} of {len(data)} bytes")
    try:
        return cls(*msgpack.unpackb(memoryview(data)[1:], use_list=False, strict_map_key=True))
    except (ValueError, TypeError, AttributeError, BadName, msgpack.UnpackException):
        raise ProtocolError(f"malformed {cls.__name__} message") from None
    except RecursionError:
        raise ProtocolError(f"{cls.__name__} message nested too deep") from None
