"""Descriptor of a node: identity, endpoints and capabilities (Mspaces M8).

Neighbours get it in the handshake, other members in a table. On the wire it is a msgpack array of
the fields in their order.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, NamedTuple

from broker.cluster.address import Address, check_name, check_unit
from broker.errors import BadName, ProtocolError
from broker.event.origin import ORIGIN
from broker.wire.fields import count, flag, text, text_list

#: Ranks of the security levels low, med and high.
CLEARANCES = range(3)
#: Bounds each list that is decoded.
_MOST_NAMED = 16
_HOST = re.compile(r"[!-~]{1,255}")
_INTERFACE = re.compile(r"[!-~]{0,64}")
_SHORT_NAME = re.compile(r"[a-z0-9-]{1,32}")


class Endpoint(NamedTuple):
    host: str
    port: int


class MulticastGroup(NamedTuple):
    group: str
    port: int
    interface: str
    """Address or name of the interface; empty: the system's choice."""


class NodeDescriptor(NamedTuple):
    """A node as others see it."""

    address: Address
    origin: str
    """Of its event log: see `broker.event.origin`."""
    incarnation: int
    """Rises with each process."""
    versions: tuple[int, ...]
    """Of the protocol between nodes."""
    tcp: Endpoint | None = None
    udp: Endpoint | None = None
    multicast: MulticastGroup | None = None
    clearance: int = CLEARANCES[-1]
    """Rank of the highest security level that may reach the node."""
    draining: bool = False
    """About to leave: no new links, and transit only without another route."""
    compressions: tuple[str, ...] = ()
    """Compressions of frame bodies that it can decode."""
    admitted: int = 0
    """Time of admission in ms since 1970, by the clock of the admitting member; 0: configured.

    It decides which nodes leave an overfull cluster. With different clocks another node may leave,
    but all members still agree.
    """

    @property
    def name(self) -> str:
        return self.address.node

    def to_plain(self) -> tuple[Any, ...]:
        return tuple(tuple(field) if isinstance(field, tuple) else field for field in self)

    @classmethod
    def from_plain(cls, value: Any) -> NodeDescriptor:
        """Decode the result of `to_plain`; raises `ProtocolError`."""
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
    """Decode an address from (names of the units, name)."""
    unit, node = _few(value)
    return Address(check_unit(text_list(_few(unit))), check_name(text(node)))


def checked_endpoint(value: Any) -> Endpoint:
    """Decode an endpoint from (host, port)."""
    host, port = _few(value)
    return Endpoint(_matching(_HOST, host), _port(port))


def check_rank(value: Any) -> int:
    """Return a valid rank of a security level; raises `TypeError`."""
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
