"""Control messages between nodes.

`broker.wire.codec` has their layout. Kinds: 0x40 to 0x4F joining and map, 0x50 to 0x5F tables
(`docs/protocols/tables.md`), 0x60 to 0x6F flows, 0x70 to 0x7F DTDs, 0x80 to 0x8F recovery, 0x90 to
0x9F questions to all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

import msgspec

from broker.cluster.address import Name, UnitPath
from broker.errors import ProtocolError
from broker.wire import codec
from broker.wire.codec import Codec, Count, WirePosition

#: Bytes; larger contents are sent in parts.
MAX_CONTROL = 1024 * 1024
#: Characters.
MAX_NAME = 1024
MAX_NESTING = 8

#: Set the named entries; the same in an emptied table; remove the table.
CHANGED, REPLACED, REMOVED = STEPS = (0, 1, 2)

_Step: TypeAlias = Annotated[int, msgspec.Meta(ge=CHANGED, le=REMOVED)]
_Key: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
#: Tuples may also hold None.
if TYPE_CHECKING:
    Value: TypeAlias = str | int | float | bytes | bool | tuple[Any, ...]
else:
    # msgspec has no unions of text and bytes: `check_value` does the rest.
    Value = Any
#: None removes an entry.
TableChange: TypeAlias = tuple[_Key, _Key, _Step, tuple[tuple[_Key, Value | None], ...]]
GroupVersion: TypeAlias = tuple[Name, UnitPath, Count, Count]


_PLAIN: Final = frozenset((str, float, bytes, bool, type(None)))


class Message(codec.Message, frozen=True):
    max_bytes: ClassVar[int] = MAX_CONTROL
    omitted: ClassVar[int] = 0
    """Last fields that are left out while they are empty: earlier versions do not have them."""


#: The decoding process must import all modules that register messages.
CODEC: Final = Codec[Message]()


def check_value(value: Any, depth: int = MAX_NESTING) -> Any:
    """Return the value with tuples for arrays.

    Raises `TypeError` or `ValueError` if a table can not hold it.
    """
    kind = type(value)
    if kind in _PLAIN or (kind is int and -(1 << 63) <= value < 1 << 64):
        return value
    if kind is not tuple and kind is not list:
        raise TypeError("a value that a table can not hold")
    if not depth:
        raise ValueError("a value is nested too deep")
    return tuple([check_value(item, depth - 1) for item in value])


def _check_change(
    kind: str, subject: str, step: int, entries: tuple[tuple[str, Value | None], ...]
) -> TableChange:
    if step == REMOVED and entries:
        raise ValueError("a removed table with entries")
    return (kind, subject, step, tuple([(key, check_value(value)) for key, value in entries]))


@CODEC.register
class Digest(Message, frozen=True):
    """The answer has all versions newer than these, and with `all` unnamed groups."""

    kind = 0x50

    versions: tuple[GroupVersion, ...]
    all: bool
    more: bool
    """Another part follows at once."""


@CODEC.register
class Update(Message, frozen=True):
    """Changes of an author's tables of one scope since `base`; all tables if that is 0."""

    kind = 0x51

    author: Name
    unit: UnitPath
    scope: UnitPath
    incarnation: Count
    base: Count
    number: Count
    age: Count
    """Ms since the author's last known sign of life."""
    tables: tuple[TableChange, ...]
    more: bool

    def __post_init__(self) -> None:
        tables = tuple([_check_change(*change) for change in self.tables])
        msgspec.structs.force_setattr(self, "tables", tables)


@CODEC.register
class Refresh(Message, frozen=True):
    """Sign of life of an author, with the number of its tables."""

    kind = 0x52

    author: Name
    unit: UnitPath
    scope: UnitPath
    incarnation: Count
    number: Count
    serial: Count
    """Rises for each author, scope and incarnation."""
    age: Count
    """Ms since the sender received it."""


@CODEC.register
class Probe(Message, frozen=True):
    """Ask all nodes of the scope to confirm an author's tables at `number` or newer."""

    kind = 0x53

    author: Name
    scope: UnitPath
    incarnation: Count
    number: Count
    wave: Count
    """Rises for each author, scope and incarnation."""


@CODEC.register
class Proof(Message, frozen=True):
    """Confirmation of the sender, and of all nodes to which it forwarded the probe first.

    `is_complete` is false if one of them lacks the tables.
    """

    kind = 0x54

    author: Name
    scope: UnitPath
    incarnation: Count
    wave: Count
    is_complete: bool
    cuts: WirePosition


def encode(message: Message) -> bytes:
    if not message.omitted:
        return CODEC.encode(message)
    names = message.__struct_fields__
    count, least = len(names), len(names) - message.omitted
    while count > least and not getattr(message, names[count - 1]):
        count -= 1
    return CODEC.encode_first(message, count)


_OF_SESSIONS: Final = {
    b"\x01": "a client has connected to a port for nodes: clients use one of listen.endpoints",
    b"\x03": "that port is for clients: other nodes use the port of the node's network.listen",
}


def decode(data: bytes) -> Message:
    """Raises `ProtocolError`."""
    if (hint := _OF_SESSIONS.get(data[:1])) is not None:
        raise ProtocolError(hint)
    return CODEC.decode(data)
