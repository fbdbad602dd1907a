"""The sockets of a node's IP multicast groups, which all its parents and children share."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import cast

from twisted.logger import Logger

from broker.config.value_kind import split_host_port
from broker.errors import BrokerError
from broker.streams.contract import ITransportContext
from broker.streams.group_contract import IGroup, IGroupContext, OnGroupDatagrams
from broker.transport.stacks import GroupAddress


class GroupSockets:
    """See `plugins.dcp.group_host.IGroupHost`."""

    log = Logger()

    def __init__(
        self,
        context: ITransportContext,
        first: str,
        interface: str,
        on_datagrams: OnGroupDatagrams,
    ) -> None:
        """`first` is the address of the group 0, with a port; `interface` an IPv4 address."""
        self._context = context
        self._first = first
        self._interface = interface
        self._on_datagrams = on_datagrams
        self._open: dict[int, tuple[IGroup, int]] = {}
        """With the number of uses."""
        self._has_warned = False

    def open_group(self, number: int) -> bool:
        known = self._open.get(number)
        if known is not None:
            self._open[number] = known[0], known[1] + 1
            return True
        host, port = split_host_port(self._first)
        address = GroupAddress(str(IPv4Address(host) + number), port, self._interface)
        try:
            group = cast(IGroupContext, self._context).open_group(address, self._receive)
        except BrokerError as error:
            if not self._has_warned:
                self._has_warned = True
                self.log.warn(
                    "{instance}: without IP multicast: {error}",
                    instance=self._context.instance,
                    error=error.text,
                )
            return False
        self._open[number] = group, 1
        return True

    def close_group(self, number: int) -> None:
        group, uses = self._open.pop(number)
        if uses > 1:
            self._open[number] = group, uses - 1
        else:
            group.close()

    def send_to_group(self, number: int, packets: list[bytes]) -> None:
        self._open[number][0].send(packets)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1][0].close()

    def _receive(self, datagrams: Sequence[bytes]) -> None:
        if self._open:
            try:
                self._on_datagrams(datagrams)
            except Exception as error:
                self._context.fail(error)
