"""The control messages between nodes, as both ends use them.

As in a session (`broker.wire.messages`): one byte of kind and a msgpack array of the class's
fields in their order. Every field is checked where a message is made and on arrival: what does not
fit is a `ProtocolError`, never an exception of another kind. Kinds: 0x40 to 0x4F joining and map,
0x50 to 0x5F tables (`docs/protocols/tables.md`), 0x60 to 0x6F flows, 0x70 to 0x7F DTDs,
0x80 to 0x8F recovery, 0x90 to 0x9F questions to all nodes.
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

#: No control message is longer, in bytes; what is larger is sent in parts.
MAX_CONTROL = 1024 * 1024
#: A name of a kind of table, of what a table is about, or of an entry, in characters.
MAX_NAME = 1024
#: How deep the tuples of a table's value may lie in each other.
MAX_NESTING = 8

#: What a table's entry may hold: text, numbers, bytes, truth values and tuples of these (and None).
Value: TypeAlias = str | int | float | bytes | bool | tuple[Any, ...]
#: Of one table what changed: kind, subject, how (`STEPS`), entries; None for one that is gone.
TableChange: TypeAlias = tuple[str, str, int, tuple[tuple[str, Value | None], ...]]
#: A group of tables and how new: author, scope, incarnation, number.
Stand: TypeAlias = tuple[str, UnitPath, int, int]

#: How a table changes: in the entries named; emptied first; no longer there.
CHANGED, ANEW, GONE = STEPS = (0, 1, 2)


class Message:
    """Base of all messages; each has its `kind` byte."""

    kind: ClassVar[int]
    most: ClassVar[int] = MAX_CONTROL
    """No message of the class is longer, in bytes."""
    last_may_lack: ClassVar[bool] = False
    """Whether the last field is left out where it is empty: version 1 does not know it."""


_by_kind: dict[int, type[Message]] = {}
_M = TypeVar("_M", bound=type[Message])


def register(kind: int) -> Callable[[_M], _M]:
    """Class decorator: `decode` gives this class for messages of this kind.

    A module of messages beside this one must be imported by who decodes.
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
    """The value as it is. `TypeError` or `ValueError` if a table can not hold it."""
    if type(value) is tuple:
        if not depth:
            raise ValueError("a value is nested too deep")
        for item in value:
            if item is not None:
                check_value(item, depth - 1)
    elif type(value) is int:
        if not -(1 << 63) <= value < 1 << 64:
            raise ValueError("a number that does not travel")
    elif type(value) not in (str, float, bytes, bool):
        raise TypeError("not what a table holds")
    return cast(Value, value)


def _table_changes(value: Any) -> tuple[TableChange, ...]:
    return tuple(_table_change(*change) for change in value)


def _table_change(kind: Any, subject: Any, how: Any, entries: Any) -> TableChange:
    if how not in STEPS or (how == GONE and entries):
        raise ValueError("no such change")
    return (_name(kind), _name(subject), fields.count(how), tuple(_entry(*e) for e in entries))


def _entry(key: Any, value: Any) -> tuple[str, Value | None]:
    return (_name(key), None if value is None else check_value(value))


def _stands(value: Any) -> tuple[Stand, ...]:
    return tuple(
        (_node(author), _unit(scope), fields.count(incarnation), fields.count(number))
        for author, scope, incarnation, number in value
    )


# ----------------------------------------------------------------------------- tables


@register(0x50)
@attrs.frozen
class Digest(Message):
    """What the sender holds. It wants what is newer, and if `all` is set what is not named too."""

    stands: tuple[Stand, ...] = attrs.field(converter=_stands)
    all: bool = attrs.field(converter=fields.flag)
    more: bool = attrs.field(converter=fields.flag)
    """Whether another part of the same digest follows at once."""


@register(0x51)
@attrs.frozen
class Update(Message):
    """All tables of one author and scope, from number `base` to `number`; from nothing if 0."""

    author: str = attrs.field(converter=_node)
    unit: UnitPath = attrs.field(converter=_unit)
    """The author's cluster."""
    scope: UnitPath = attrs.field(converter=_unit)
    incarnation: int = attrs.field(converter=fields.count)
    base: int = attrs.field(converter=fields.count)
    number: int = attrs.field(converter=fields.count)
    age: int = attrs.field(converter=fields.count)
    """How long ago the sender last heard that the author lives, in ms."""
    tables: tuple[TableChange, ...] = attrs.field(converter=_table_changes)
    more: bool = attrs.field(converter=fields.flag)
    """Whether another part of the same update follows at once."""


@register(0x52)
@attrs.frozen
class Refresh(Message):
    """The author lives, and its tables of this scope are at `number`."""

    author: str = attrs.field(converter=_node)
    unit: UnitPath = attrs.field(converter=_unit)
    scope: UnitPath = attrs.field(converter=_unit)
    incarnation: int = attrs.field(converter=fields.count)
    number: int = attrs.field(converter=fields.count)
    serial: int = attrs.field(converter=fields.count)
    """Rises with each refresh of this author, scope and incarnation."""
    age: int = attrs.field(converter=fields.count)
    """How long ago the sender heard this, in ms."""


@register(0x53)
@attrs.frozen
class Probe(Message):
    """The author asks who has its tables of this scope at `number`, or newer."""

    author: str = attrs.field(converter=_node)
    scope: UnitPath = attrs.field(converter=_unit)
    incarnation: int = attrs.field(converter=fields.count)
    number: int = attrs.field(converter=fields.count)
    wave: int = attrs.field(converter=fields.count)
    """Rises with each wave of this author, scope and incarnation."""


@register(0x54)
@attrs.frozen
class Proof(Message):
    """The sender, and all whom it passed the probe on to first, have it; or not, if not `whole`."""

    author: str = attrs.field(converter=_node)
    scope: UnitPath = attrs.field(converter=_unit)
    incarnation: int = attrs.field(converter=fields.count)
    wave: int = attrs.field(converter=fields.count)
    whole: bool = attrs.field(converter=fields.flag)
    cuts: WirePosition = attrs.field(converter=fields.position)
    """The newest places of those nodes when they had it."""


# ----------------------------------------------------------------------------- bytes


def encode(message: Message) -> bytes:
    """The bytes of a control message."""
    values = attrs.astuple(cast(attrs.AttrsInstance, message), recurse=False)
    if message.last_may_lack and not values[-1]:
        values = values[:-1]
    packed: bytes = msgpack.packb(values)
    return bytes([message.kind]) + packed


#: The first message of either side of a client's session, which is of another protocol.
_OF_SESSIONS: Final = {
    b"\x01": "a client greets where only other nodes connect: clients take one of listen.endpoints",
    b"\x03": "clients connect there: other nodes take the port of the node's network.listen",
}


def decode(data: bytes) -> Message:
    """The control message that `data` holds; `ProtocolError` if it is none."""
    cls = _by_kind.get(data[0]) if data else None
    if cls is None:
        kind = f"unknown message kind {data[:1].hex() or 'of an empty message'}"
        raise ProtocolError(_OF_SESSIONS.get(data[:1], kind))
    if len(data) > cls.most:
        raise ProtocolError(f"{cls.__name__} of {len(data)} bytes")
    try:
        return cls(*msgpack.unpackb(memoryview(data)[1:], use_list=False, strict_map_key=True))
    except (ValueError, TypeError, AttributeError, BadName, msgpack.UnpackException):
        raise ProtocolError(f"malformed {cls.__name__} message") from None
    except RecursionError:
        raise ProtocolError(f"{cls.__name__} message nested too deep") from None
