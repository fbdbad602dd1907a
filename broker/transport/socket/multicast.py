"""One member of a cluster's group over IP multicast (M8, M9, T30, T31)."""

from __future__ import annotations

import secrets
from random import Random
from typing import Any

from broker.errors import Closed, ConfigurationError
from broker.transport.arq.group_core import MAX_NAME_BYTES, GroupCore
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.mac import Mac, derive_group_key
from broker.transport.socket.contract import DEFAULT_MAX_FRAME
from broker.transport.socket.datagram_group import DatagramGroup, IGroupReceiver
from broker.transport.socket.datagram_socket import DatagramSocket
from broker.transport.socket.group_sockets import GroupTransmitter, open_group_sockets


class MulticastPort:
    """One member of a group over IP multicast, IPv4 or IPv6 (M8, M9, T30, T31).

    The parameters are those of `open_group_sockets`. All members share `secret`; without it any
    host on the segment can send in the name of any member.
    """

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
        if not 0 < len(own_name.encode()) <= MAX_NAME_BYTES:
            raise ConfigurationError(f"a group member's name has 1 to {MAX_NAME_BYTES} bytes")
        self._reactor = reactor
        self._group_address = (group, port, interface)
        self._name = own_name
        self._receiver = receiver
        self._settings = settings
        self._mac = Mac(derive_group_key(secret))
        self._loop = loop
        self._max_frame = max_frame
        self._sockets: tuple[DatagramSocket, ...] = ()
        self._member: DatagramGroup | None = None

    @property
    def member(self) -> DatagramGroup:
        """Raises `Closed` if the port is not started."""
        if self._member is None:
            raise Closed("the multicast port is not started")
        return self._member

    @property
    def core(self) -> GroupCore:
        return self.member.core

    def start(self) -> None:
        """Join the group and announce this member. Raises Twisted's `CannotListenError`."""
        group, port, interface = self._group_address
        target, opened = open_group_sockets(group, port, interface, loop=self._loop)
        incoming, own = (DatagramSocket(self._reactor, sock, self._received) for sock in opened)
        self._sockets = (incoming, own)
        core = GroupCore(
            *(self._settings, self._mac, self._name, secrets.randbits(64) or 1),
            *(Random().random, self._max_frame, self._reactor.seconds()),
        )
        self._member = DatagramGroup(
            *(self._reactor, core, self._receiver),
            GroupTransmitter(own, target, interface).send,
            own.send,
        )

    def send(self, packets: list[bytes]) -> None:
        self.member.send(packets)

    def _received(self, batch: Any) -> None:
        if self._member is not None:
            self._member.datagrams_received(batch)

    def stop(self) -> None:
        if self._member is not None:
            self._member.stop()
            self._member = None
            for sock in self._sockets:
                sock.close()
