"""What a node publishes of itself: who it is, where it listens, and what it can (Mspaces M8).

Neighbours learn it when they greet, the cluster by a table. msgpack carries it as it is, as an
array of the fields in their order.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, NamedTuple

from broker.cluster.address import Address, check_name, check_unit
from broker.errors import BadName, ProtocolError
from broker.event.origin import ORIGIN
from broker.wire.fields import count, flag, text, text_list

#: Ranks of the three security levels of events: low, med, high.
CLEARANCES = range(3)
#: More of one kind nobody has; it bounds what is read.
_MOST_NAMED = 16
_HOST = re.compile(r"[!-~]{1,255}")
_INTERFACE = re.compile(r"[!-~]{0,64}")
_SHORT_NAME = re.compile(r"[a-z0-9-]{1,32}")


class Endpoint(NamedTuple):
    """Where a node takes requests for links, and exchanges messages, by one transport."""

    host: str
    port: int


class MulticastGroup(NamedTuple):
    """A multicast group that a node listens to."""

    group: str
    port: int
    interface: str
    """The address or the name of the interface that it listens on; empty: the system's choice."""


class NodeDescriptor(NamedTuple):
    """A node as others see it. Made by `of_plain` it is checked."""

    address: Address
    origin: str
    """Of its event log: see `broker.event.origin`."""
    incarnation: int
    """Which of the node's processes it is: a later one has a higher number."""
    versions: tuple[int, ...]
    """Of the protocol between nodes that it speaks."""
    tcp: Endpoint | None = None
    udp: Endpoint | None = None
    multicast: MulticastGroup | None = None
    clearance: int = CLEARANCES[-1]
    """The rank of the highest security level that may reach it."""
    draining: bool = False
    """It is about to leave: no new links, and no transit where there is another way."""
    compressions: tuple[str, ...] = ()
    """Of bodies of frames: the names that it can undo."""
    admitted: int = 0
    """When its cluster took it in, in ms since 1970 by the member that did; 0: by configuration.

    Decides who leaves where two members at once have admitted one node each and there was room
    for one; clocks that differ change who that is, not that all members agree about it.
    """

    @property
    def name(self) -> str:
        return self.address.node

    def to_plain(self) -> tuple[Any, ...]:
        """The fields in plain tuples, as tables hold them."""
        return tuple(tuple(field) if isinstance(field, tuple) else field for field in self)

    @classmethod
    def from_plain(cls, value: Any) -> NodeDescriptor:
        """What `to_plain` gave, every field checked. `ProtocolError` if it is anything else."""
        try:
            (address, origin, incarnation, versions, tcp, udp, group, clearance) = value[:8]
            draining, compressions, admitted = value[8:]
            return cls(
                checked_address(address),
                _matching(ORIGIN, origin),
                count(incarnation),
                tuple(count(version) for version in _few(versions)),
                None if tcp is None else checked_endpoint(tcp),
                None if udp is None else checked_endpoint(udp),
                None if group is None else _group(group),
                check_rank(clearance),
                flag(draining),
                tuple(_matching(_SHORT_NAME, name) for name in _few(compressions)),
                count(admitted),
            )
        except (ValueError, TypeError, LookupError, BadName) as error:
            raise ProtocolError(f"no description of a node: {error}") from None


def checked_address(value: Any) -> Address:
    """The address whose plain form is (names of the units, name)."""
    unit, node = _few(value)
    return Address(check_unit(text_list(_few(unit))), check_name(text(node)))


def checked_endpoint(value: Any) -> Endpoint:
    """The endpoint whose plain form is (host, port)."""
    host, port = _few(value)
    return Endpoint(_matching(_HOST, host), _port(port))


def check_rank(value: Any) -> int:
    """The rank of a security level; `TypeError` for anything else."""
    if type(value) is not int or value not in CLEARANCES:
        raise TypeError("not the rank of a security level")
    return value


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not pattern.fullmatch(text(value)):
        raise ValueError(f"{value[:80]!r} does not fit its field")
    return text(value)


def _few(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list) or len(value) > _MOST_NAMED:
        raise TypeError(f"not a list of {_MOST_NAMED} at most")
    return tuple(value)


def _port(value: Any) -> int:
    if not 0 < count(value) < 1 << 16:
        raise ValueError(f"{value} is no port")
    return count(value)


def _group(value: Any) -> MulticastGroup:
    group, port, interface = value
    if not ipaddress.ip_address(_matching(_HOST, group)).is_multicast:
        raise ValueError(f"{group} is no multicast group")
    return MulticastGroup(group, _port(port), _matching(_INTERFACE, interface))
