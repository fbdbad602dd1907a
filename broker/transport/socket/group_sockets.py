"""The two sockets of a member of an IP multicast group, IPv4 or IPv6 (M8, T31)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any, Final

from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from broker.transport.socket.datagram_socket import DatagramSocket

#: A cluster is one segment: routers do not forward its datagrams.
_HOPS: Final = 1
_MREQN: Final = struct.Struct("@4s4si")
_MREQ6: Final = struct.Struct("@16sI")


def open_group_sockets(
    group: str, port: int, interface: str, *, loop: bool
) -> tuple[Any, Callable[[], Any], tuple[socket.socket, socket.socket]]:
    """Return a group's address (M8, T31), the source address of its new member, and two sockets.

    The first socket receives from the group, the second is the member's own. The source address is
    None without a route to the group, and may change. `interface` is a name (`eth0`), or for IPv4
    also an address. With `loop`, members on this host receive from each other. Raises Twisted's
    `CannotListenError`.
    """
    opened: list[socket.socket] = []
    try:
        group_address = _GroupAddress(group, port, interface)
        opened.append(group_address.group_socket())
        opened.append(group_address.member_socket(loop))
        find_source = partial(group_address.find_source, opened[1].getsockname()[1])
    except OSError as error:
        for sock in opened:
            sock.close()
        raise CannotListenError(group, port, error) from None
    return group_address.target, find_source, (opened[0], opened[1])


class GroupTransmitter:
    """Sends to a group; logs one warning for each outage."""

    log = Logger()

    def __init__(self, own: DatagramSocket, target: Any, interface: str) -> None:
        self._own = own
        self._target = target
        self._interface = interface
        self._has_warned = False

    def send(self, datagrams: Sequence[bytes]) -> None:
        own = self._own
        dropped = own.dropped
        own.send(datagrams, self._target)
        if own.dropped == dropped:
            self._has_warned = False
        elif not self._has_warned and own.last_error is not None:
            self._has_warned = True
            self.log.warn(
                "nothing can be sent to the group {group} on {interface}: {error}",
                group=self._target[0],
                interface=self._interface,
                error=own.last_error,
            )


class _GroupAddress:
    """A group on an interface, in the form of the socket options of its family.

    Twisted's multicast transport does not support IPv6 (twisted#6597).
    """

    def __init__(self, group: str, port: int, interface: str) -> None:
        flags = socket.AI_NUMERICHOST
        found = socket.getaddrinfo(group, port, type=socket.SOCK_DGRAM, flags=flags)
        self._family: int = found[0][0]
        address = found[0][4]
        if not ip_address(group).is_multicast:
            raise OSError(f"{group} is not a multicast address")
        names = {name: index for index, name in socket.if_nameindex()}
        self._index = names.get(interface, 0)
        self._address = "" if interface in names else interface
        self._group = group
        self._port = port
        self.target: Any = address
        if not self._index and not self._is_address():
            raise OSError(f"there is no interface {interface}")
        if self._family == socket.AF_INET6:
            self.target = (group, port, 0, self._index)

    def _is_address(self) -> bool:
        try:
            return ip_address(self._address).version == 4 and self._family == socket.AF_INET
        except ValueError:
            return False

    def group_socket(self) -> socket.socket:
        """Return a receiving socket; a host may have several."""
        sock = socket.socket(self._family, socket.SOCK_DGRAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(self.target)
            if self._family == socket.AF_INET6:
                request = _MREQ6.pack(socket.inet_pton(self._family, self._group), self._index)
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
            else:
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, self._mreqn())
        except OSError:
            sock.close()
            raise
        return sock

    def member_socket(self, loop: bool) -> socket.socket:
        sock = socket.socket(self._family, socket.SOCK_DGRAM)
        try:
            if self._family == socket.AF_INET6:
                sock.bind(("::", 0))
                level = socket.IPPROTO_IPV6
                sock.setsockopt(level, socket.IPV6_MULTICAST_IF, self._index)
                sock.setsockopt(level, socket.IPV6_MULTICAST_HOPS, _HOPS)
                sock.setsockopt(level, socket.IPV6_MULTICAST_LOOP, loop)
            else:
                sock.bind((self._address or "0.0.0.0", 0))
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, self._mreqn())
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, _HOPS)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, loop)
        except OSError:
            sock.close()
            raise
        return sock

    def find_source(self, port: int) -> Any:
        """Return the source address of datagrams to the group from `port`."""
        # The system chooses the host address with the route.
        with self.member_socket(loop=False) as probe:
            try:
                probe.connect(self.target)
            except OSError:
                return None
            host, _, *rest = probe.getsockname()
        return (host, port, *rest)

    def _mreqn(self) -> bytes:
        address = socket.inet_aton(self._address) if self._address else bytes(4)
        return _MREQN.pack(socket.inet_aton(self._group), address, self._index)
