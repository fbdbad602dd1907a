"""What the fields of messages are checked by, on arrival and where they are made.

Each takes what msgpack unpacked and returns it as the message holds it. What does not fit is a
`TypeError` or `ValueError`, of which `decode` makes a `ProtocolError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from broker.errors import WireError
from broker.event.place import Mark
from broker.wire.codec import MAX_ADDRESS, WirePosition


def wire_error(value: Any) -> WireError:
    code, message, line, column = value
    return (text(code), text(message), count(line), count(column))


def count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise TypeError("not a count")
    return value


def text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("not text")
    return value


def address(value: Any) -> str:
    """Where a node is, in words that only nodes read."""
    if len(text(value)) > MAX_ADDRESS:
        raise ValueError("no address is that long")
    return str(value)


def factor(value: Any) -> float:
    """A number that something is multiplied by: finite, not negative."""
    if type(value) is not float:
        return float(count(value))
    if not 0.0 <= value < math.inf:
        raise ValueError("not a factor")
    return value


def octets(value: Any) -> bytes:
    if type(value) is not bytes:
        raise TypeError("not bytes")
    return value


def flag(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError("not a truth value")
    return value


def position(value: Any) -> WirePosition:
    return tuple((text(origin), *mark((epoch, offset))) for origin, epoch, offset in value)


def optional_position(value: Any) -> WirePosition | None:
    return None if value is None else position(value)


def texts(value: Any) -> Mapping[str, str]:
    return {text(key): text(item) for key, item in value.items()}


def text_list(value: Any) -> tuple[str, ...]:
    return tuple(text(item) for item in value)


def counts(value: Any) -> tuple[int, ...]:
    return tuple(count(item) for item in value)


def mark(value: Any) -> tuple[int, int]:
    """A place as the log can hold it: an epoch of 32 bits, an offset of 63."""
    epoch, offset = value
    if count(epoch) >> 32 or count(offset) >> 63:
        raise ValueError("a mark that no log has")
    return (epoch, offset)


def refusals(value: Any) -> tuple[tuple[int, WireError], ...]:
    return tuple((count(index), wire_error(error)) for index, error in value)


def breaks(value: Any) -> tuple[tuple[int, Mark], ...]:
    return tuple((count(index), (count(epoch), count(offset))) for index, (epoch, offset) in value)


def positions(value: Any) -> tuple[tuple[int, WirePosition], ...]:
    return tuple((count(number), position(each)) for number, each in value)


def plain(value: Any) -> Any:
    """Anything that msgpack carries: only for reports that people and tools read."""
    return value
