"""An IP multicast group of a transport, whose datagrams have a tag by the key of the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zope.interface import implementer

from broker.errors import BrokerError
from broker.streams.group_contract import OnGroupDatagrams
from broker.transport.arq.mac import Mac, derive_layer_key
from broker.transport.socket.contract import ISocketChannel, ISocketReceiver
from broker.transport.stacks import GroupAddress


@implementer(ISocketReceiver)
class GroupLink:
    """See `broker.streams.group_contract.IGroup`."""

    def __init__(
        self,
        address: GroupAddress,
        key: bytes | None,
        open_group: Callable[[GroupAddress], ISocketChannel],
        on_datagrams: OnGroupDatagrams,
    ) -> None:
        """Without `key` the tag shows damage only. Raises `ConfigurationError`."""
        self.dropped = 0
        """Datagrams with a wrong tag."""
        self._mac = Mac(derive_layer_key(key or b""))
        self._on_datagrams = on_datagrams
        self._channel = open_group(address)
        self._channel.receiver = self

    def send(self, datagrams: Sequence[bytes]) -> None:
        self._channel.send([self._mac.add_tag(each) for each in datagrams])

    def close(self) -> None:
        self._channel.receiver = None
        self._channel.close()

    def packets_received(self, packets: Sequence[bytes]) -> None:
        opened = map(self._mac.remove_tag, packets)
        verified = [each for each in opened if each is not None]
        self.dropped += len(packets) - len(verified)
        if verified:
            self._on_datagrams(verified)

    def writable_changed(self, writable: bool) -> None:
        """A group always takes datagrams."""

    def channel_lost(self, error: BrokerError | None) -> None:
        """Only `close` ends it."""
