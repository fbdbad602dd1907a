"""Raw datagrams of one stack: a channel for each peer, told apart by address (M8, M10, T41)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from twisted.logger import Logger

from broker.errors import Closed, PeerSilent
from broker.transport.clock import IClock
from broker.transport.socket.contract import IDatagramChannel
from broker.transport.socket.datagram_channel import DatagramChannel, check_sizes
from broker.transport.socket.datagram_transport import (
    DEFAULT_DATAGRAM,
    Address,
    DatagramTransport,
)


@attrs.frozen(kw_only=True)
class DatagramPortSettings:
    """Sizes in bytes, times in seconds."""

    #: With the tag.
    datagram_bytes: int = DEFAULT_DATAGRAM
    #: Channels that strangers may have at a time.
    strangers: int = 64
    #: After so much silence a stranger's channel may be replaced by another stranger's.
    stranger_silence: float = 10.0
    #: False for packets that no peer can have sent: they give a stranger no channel.
    is_genuine: Callable[[bytes], bool] = attrs.field(default=lambda packet: True, repr=False)


@attrs.define
class DatagramPortCounts:
    """Dropped datagrams."""

    #: Empty.
    malformed: int = 0
    #: Of strangers without a channel.
    refused: int = 0
    #: Of strangers, without a valid tag.
    forged: int = 0


class DatagramPort:
    """Raw datagrams of one stack: a channel for each peer, told apart by address (M8, M10, T41).

    A stranger's first datagram makes a channel for `on_stranger`; without it, strangers are
    refused. `strangers` bounds these channels: then a new stranger takes the place of the one that
    is silent for longest, at least for `stranger_silence`, or is refused. A source address may be
    forged: `is_genuine` checks a stranger's packets before it gets a channel. Dialled peers always
    keep their channels.
    """

    log = Logger()

    def __init__(
        self,
        clock: IClock,
        transport: DatagramTransport,
        tag: bytes,
        on_stranger: Callable[[IDatagramChannel, Address], None] | None = None,
        settings: DatagramPortSettings = DatagramPortSettings(),  # frozen
        *,
        describe: Callable[[Address], str] = str,
        to_group: Callable[[Sequence[bytes]], None] | None = None,
        is_own: Callable[[Address], bool] = lambda _: False,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.max_packet = settings.datagram_bytes - len(tag)
        self.counts = DatagramPortCounts()
        self._clock = clock
        self._transport = transport
        self._tag = tag
        self._on_stranger = on_stranger
        self._settings = settings
        self._describe = describe
        self._to_group = to_group
        self._is_own = is_own
        self._on_stop = on_stop
        self._is_stopped = False
        self._channels: dict[Address, DatagramChannel] = {}
        self._group_channels: dict[DatagramChannel, None] = {}
        # The one that is silent for longest comes first.
        self._strangers: dict[Address, DatagramChannel] = {}

    def connect(self, address: Address) -> IDatagramChannel:
        """Return a new channel to a peer, which learns nothing of it.

        An earlier channel to this address ends. Raises `Closed` if the port is stopped.
        """
        if self._is_stopped:
            raise Closed("the datagram port is stopped")
        earlier = self._channels.get(address)
        if earlier is not None:
            earlier.abort(Closed("a newer channel to the same address took its place"))
        return self._add_channel(address)

    def send_to_group(self, packets: Sequence[bytes]) -> None:
        """Send packets once to all members of the group.

        Raises `Closed` if the port has no group, ValueError for an empty or too large packet.
        """
        if self._to_group is None or self._is_stopped:
            raise Closed("the datagram port is in no group")
        check_sizes(packets, self.max_packet)
        self._to_group([self._tag + each for each in packets])

    def connect_group(self) -> IDatagramChannel:
        """Return a new channel to all members. It receives nothing: each member has a channel.

        Raises `Closed` if the port has no group.
        """
        if self._to_group is None or self._is_stopped:
            raise Closed("the datagram port is in no group")
        channel = DatagramChannel(
            *(self._clock, None, "the group", self.max_packet),
            *(lambda packets, _: self.send_to_group(packets), self._group_channels.pop),
        )
        self._group_channels[channel] = None
        return channel

    def datagrams_received(self, batch: Sequence[tuple[bytes, Address]]) -> None:
        tag_size = len(self._tag)
        packets_by_address: dict[Address, list[bytes]] = {}
        for datagram, address in batch:
            if len(datagram) > tag_size:
                packets_by_address.setdefault(address, []).append(datagram[tag_size:])
            else:
                self.counts.malformed += 1
        now = self._clock.seconds()
        for address, packets in packets_by_address.items():
            channel = self._channels.get(address)
            if channel is None:
                if self._is_own(address):
                    continue  # a group's datagram came back to its sender
                genuine = [each for each in packets if self._settings.is_genuine(each)]
                self.counts.forged += len(packets) - len(genuine)
                if not genuine:
                    continue
                packets = genuine
                channel = self._accept(address, now)
            if channel is None:
                self.counts.refused += len(packets)
                continue
            if address in self._strangers:
                self._strangers[address] = self._strangers.pop(address)
            channel.receive_packets(packets, now)

    def stop(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self._on_stop()
            for channel in (*self._channels.values(), *self._group_channels):
                channel.abort(Closed("the datagram port was stopped"))

    def _accept(self, address: Address, now: float) -> DatagramChannel | None:
        if self._on_stranger is None or self._is_stopped or not self._make_room(now):
            return None
        channel = self._strangers[address] = self._add_channel(address)
        try:
            self._on_stranger(channel, address)
        except Exception:
            # An error with one peer does not affect the others.
            self.log.failure("{peer} could not be accepted", peer=channel.peer_description)
            channel.abort(Closed("the peer could not be accepted"))
        return channel

    def _make_room(self, now: float) -> bool:
        if len(self._strangers) < self._settings.strangers:
            return True
        silent = next(iter(self._strangers.values()), None)
        if silent is None or now < silent.received_at + self._settings.stranger_silence:
            return False
        silent.abort(PeerSilent("a silent peer made room for another one"))
        return True

    def _add_channel(self, address: Address) -> DatagramChannel:
        channel = self._channels[address] = DatagramChannel(
            *(self._clock, address, self._describe(address), self.max_packet),
            *(self._transmit, self._remove_channel),
        )
        return channel

    def _transmit(self, packets: Sequence[bytes], address: Address) -> None:
        self._transport.send([self._tag + each for each in packets], address)

    def _remove_channel(self, channel: DatagramChannel) -> None:
        self._channels.pop(channel.address, None)
        self._strangers.pop(channel.address, None)
