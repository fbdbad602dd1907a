"""A group of a cluster over IP multicast (M8, M9, T30, T31)."""

from __future__ import annotations

import secrets
import socket
import struct
from collections.abc import Sequence
from ipaddress import ip_address
from random import Random
from typing import Any, Final

from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from broker.channel.correction.group_core import MOST_NAME_BYTES, GroupCore
from broker.channel.correction.group_settings import GroupSettings
from broker.channel.correction.seal import Seal, group_key
from broker.channel.socket.contract import DEFAULT_MAX_FRAME
from broker.channel.socket.datagram_group import DatagramGroup, IGroupReceiver
from broker.channel.socket.datagram_socket import DatagramSocket
from broker.errors import Closed, ConfigurationError

#: A cluster is one segment: routers do not pass its datagrams on.
_HOPS: Final = 1
_MREQN: Final = struct.Struct("@4s4si")
_MREQ6: Final = struct.Struct("@16sI")


class MulticastPort:
    """One member of one group. `receiver` is told what the others send (`IGroupReceiver`).

    `group` is a multicast address, IPv4 or IPv6. `interface` is an interface's name (`eth0`), or
    for IPv4 also an address of it. `secret` is known to all members; without one any host on the
    segment can write in anybody's name. `loop` lets members on this host hear each other.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        group: str,
        port: int,
        interface: str,
        own_name: str,
        receiver: IGroupReceiver,
        *,
        settings: GroupSettings = GroupSettings(),  # noqa: B008  # frozen
        secret: bytes = b"",
        loop: bool = False,
        max_frame: int = DEFAULT_MAX_FRAME,
    ) -> None:
        if not 0 < len(own_name.encode()) <= MOST_NAME_BYTES:
            raise ConfigurationError(f"a group member's name has 1 to {MOST_NAME_BYTES} bytes")
        self._reactor = reactor
        self._where = (group, port, interface)
        self._name = own_name
        self._receiver = receiver
        self._settings = settings
        self._seal = Seal(group_key(secret))
        self._loop = loop
        self._max_frame = max_frame
        self._sockets: tuple[DatagramSocket, ...] = ()
        self._warned = False
        self._member: DatagramGroup | None = None

    @property
    def member(self) -> DatagramGroup:
        """What sends, and counts. Raises `Closed` if the port is not started."""
        if self._member is None:
            raise Closed("the multicast port is not started")
        return self._member

    @property
    def core(self) -> GroupCore:
        """Of `member`."""
        return self.member.core

    def start(self) -> None:
        """Join the group and announce this member. Raises Twisted's `CannotListenError`."""
        group, port, interface = self._where
        opened: list[socket.socket] = []
        try:
            place = _Place(group, port, interface)
            opened.append(place.group_socket())
            opened.append(place.own_socket(self._loop))
        except OSError as error:
            for sock in opened:
                sock.close()
            raise CannotListenError(group, port, error) from None
        hears, own = (DatagramSocket(self._reactor, sock, self._received) for sock in opened)
        self._sockets = (hears, own)
        core = GroupCore(
            *(self._settings, self._seal, self._name, secrets.randbits(64) or 1),
            *(Random().random, self._max_frame, self._reactor.seconds()),
        )
        self._member = DatagramGroup(
            *(self._reactor, core, self._receiver),
            lambda datagrams: self._send_to_group(own, datagrams, place.target),
            own.send,
        )

    def send(self, packets: list[bytes]) -> None:
        """Send packets once to all: see `DatagramGroup.send`."""
        self.member.send(packets)

    def _send_to_group(self, own: DatagramSocket, datagrams: Sequence[bytes], target: Any) -> None:
        dropped = own.dropped
        own.send(datagrams, target)
        if own.dropped == dropped:
            self._warned = False
        elif not self._warned and own.last_error is not None:
            self._warned = True
            self.log.warn(
                "nothing can be sent to the group {group} on {interface}: {error}",
                group=self._where[0],
                interface=self._where[2],
                error=own.last_error,
            )

    def _received(self, batch: Any) -> None:
        if self._member is not None:
            self._member.datagrams_received(batch)

    def stop(self) -> None:
        """Leave the group."""
        if self._member is not None:
            self._member.stop()
            self._member = None
            for sock in self._sockets:
                sock.close()


class _Place:
    """A group on an interface, in the words of the socket options of its family.

    Twisted's multicast transport takes no IPv6 addresses (twisted#6597).
    """

    def __init__(self, group: str, port: int, interface: str) -> None:
        flags = socket.AI_NUMERICHOST
        found = socket.getaddrinfo(group, port, type=socket.SOCK_DGRAM, flags=flags)
        self._family: int = found[0][0]
        address = found[0][4]
        if not ip_address(group).is_multicast:
            raise OSError(f"{group} is no multicast address")
        names = {name: index for index, name in socket.if_nameindex()}
        self._index = names.get(interface, 0)
        self._address = "" if interface in names else interface
        self._group = group
        self._port = port
        self.target: Any = address
        if not self._index and not self._is_address():
            raise OSError(f"no interface is called {interface}")
        if self._family == socket.AF_INET6:
            self.target = (group, port, 0, self._index)

    def _is_address(self) -> bool:
        try:
            return ip_address(self._address).version == 4 and self._family == socket.AF_INET
        except ValueError:
            return False

    def group_socket(self) -> socket.socket:
        """A socket that hears the group; several of one host may."""
        sock = socket.socket(self._family, socket.SOCK_DGRAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(self.target)
            if self._family == socket.AF_INET6:
                wanted = _MREQ6.pack(socket.inet_pton(self._family, self._group), self._index)
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, wanted)
            else:
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, self._mreqn())
        except OSError:
            sock.close()
            raise
        return sock

    def own_socket(self, loop: bool) -> socket.socket:
        """A socket that sends to the group, and is asked by others."""
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

    def _mreqn(self) -> bytes:
        address = socket.inet_aton(self._address) if self._address else bytes(4)
        return _MREQN.pack(socket.inet_aton(self._group), address, self._index)
