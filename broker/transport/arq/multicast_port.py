"""One member of a cluster's group over IP multicast (M8, M9, T30, T31)."""

from __future__ import annotations

import secrets
from random import Random
from typing import Any

from broker.errors import Closed
from broker.transport.arq.group_core import GroupCore, check_member_name
from broker.transport.arq.group_member import GroupMember, IGroupReceiver
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.mac import Mac, derive_group_key
from broker.transport.socket.contract import DEFAULT_MAX_FRAME
from broker.transport.socket.multicast import MulticastSocket


class MulticastPort:
    """One member of a group over IP multicast, IPv4 or IPv6 (M8, M9, T30, T31).

    The parameters are those of `open_group_sockets`. All members share `secret`; without it any
    host on the segment can send in the name of any member. Other stacks may open ports of their own
    on `multicast`.
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
        check_member_name(own_name)
        self.multicast = MulticastSocket(reactor, group, port, interface, loop=loop)
        self._reactor = reactor
        self._name = own_name
        self._receiver = receiver
        self._settings = settings
        self._mac = Mac(derive_group_key(secret))
        self._max_frame = max_frame
        self._member: GroupMember | None = None

    @property
    def member(self) -> GroupMember:
        """Raises `Closed` if the port is not started."""
        if self._member is None:
            raise Closed("the multicast port is not started")
        return self._member

    @property
    def core(self) -> GroupCore:
        return self.member.core

    def start(self) -> None:
        """Join the group and announce this member. Raises Twisted's `CannotListenError`."""
        self.multicast.start()
        core = GroupCore(
            *(self._settings, self._mac, self._name, secrets.randbits(64) or 1),
            *(Random().random, self._max_frame, self._reactor.seconds()),
        )
        member = self._member = GroupMember(
            *(self._reactor, core, self._receiver),
            *(self.multicast.send_to_group, self.multicast.send),
        )
        self.multicast.users.set_untagged_user(member.datagrams_received)

    def send(self, packets: list[bytes]) -> None:
        self.member.send(packets)

    def stop(self) -> None:
        if self._member is not None:
            self._member.stop()
            self._member = None
            self.multicast.stop()
