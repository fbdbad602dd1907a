"""Datagram network in memory and virtual time with loss, duplication, damage and reordering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import attrs
from twisted.internet.task import Clock

from broker.transport.socket.datagram_demultiplexer import DatagramDemultiplexer
from broker.transport.socket.datagram_transport import Address, OnDatagrams

__all__ = ["Address", "DatagramFaults", "DatagramNetwork", "MemoryDatagramSocket"]

#: Datagrams that arrive within so many seconds are one read.
_READ = 0.0005


@attrs.frozen(kw_only=True)
class DatagramFaults:
    """Drawn independently for each datagram; delays in seconds."""

    loss: float = 0.0
    duplication: float = 0.0
    corruption: float = 0.0
    delay: float = 0.001
    #: Random addition, so that datagrams overtake each other.
    jitter: float = 0.0


class MemoryDatagramSocket:
    def __init__(
        self, network: DatagramNetwork, address: Address, on_datagrams: OnDatagrams
    ) -> None:
        self.address = address
        #: Datagrams.
        self.sent = 0
        self.sent_bytes = 0
        self._network = network
        self._on_datagrams = on_datagrams
        self._inbox: list[tuple[bytes, Address]] = []

    def send(self, datagrams: Sequence[bytes], address: Address) -> None:
        self.sent += len(datagrams)
        self.sent_bytes += sum(map(len, datagrams))
        for datagram in datagrams:
            self._network.send_datagram(datagram, self.address, address)

    def receive_datagram(self, datagram: bytes, source: Address, clock: Clock) -> None:
        self._inbox.append((datagram, source))
        if len(self._inbox) == 1:
            clock.callLater(_READ, self._read)

    def close(self) -> None:
        self._network.unbind(self.address)

    def _read(self) -> None:
        inbox, self._inbox = self._inbox, []
        self._on_datagrams(inbox)


class DatagramNetwork:
    """Carries datagrams between addresses and to groups, from one seed."""

    def __init__(self, clock: Clock, seed: int, faults: DatagramFaults | None = None) -> None:
        self.faults = faults or DatagramFaults()
        #: Called with datagram, source and destination; false drops it.
        self.filter: Callable[[bytes, Address, Address], bool] = lambda *_: True
        self.dns: dict[str, Sequence[str]] = {}
        """Hosts by name; for another name DNS does not answer."""
        self.lost = 0
        self._clock = clock
        self._random = Random(seed)
        self._sockets: dict[Address, MemoryDatagramSocket] = {}
        self._groups: dict[Address, dict[Address, None]] = {}
        self._last_port = 20_000
        self._cut: set[frozenset[Address]] = set()

    def bind(self, address: Address, on_datagrams: OnDatagrams) -> MemoryDatagramSocket:
        wire = self._sockets[address] = MemoryDatagramSocket(self, address, on_datagrams)
        return wire

    def share(self, address: Address, group: Address | None = None) -> DatagramDemultiplexer:
        """Bind `address` for several stacks, as a member of `group` if there is one."""
        wire = self.bind(address, lambda batch: users.datagrams_received(batch))
        if group is not None:
            self.join(group, address)
        users = DatagramDemultiplexer(
            *(self._clock, wire),
            to_group=None if group is None else lambda datagrams: wire.send(datagrams, group),
        )
        return users

    def open_port(self, on_datagrams: OnDatagrams) -> MemoryDatagramSocket:
        """Bind the next free address of clients."""
        self._last_port += 1
        return self.bind(("127.0.0.99", self._last_port), on_datagrams)

    def unbind(self, address: Address) -> None:
        self._sockets.pop(address, None)

    def join(self, group: Address, address: Address) -> None:
        """Deliver datagrams for `group` to `address`, except its own."""
        self._groups.setdefault(group, {})[address] = None

    def cut(self, one: Address, other: Address) -> None:
        """Drop datagrams between two addresses until `heal`."""
        self._cut.add(frozenset((one, other)))

    def heal(self) -> None:
        self._cut.clear()

    def send_datagram(self, datagram: bytes, source: Address, target: Address) -> None:
        for each in list(self._groups.get(target, {target: None})):
            if each != source or target not in self._groups:
                self._send_one(datagram, source, each)

    def _send_one(self, datagram: bytes, source: Address, target: Address) -> None:
        random, faults = self._random, self.faults
        blocked = frozenset((source, target)) in self._cut
        if blocked or random.random() < faults.loss or not self.filter(datagram, source, target):
            self.lost += 1
            return
        times = 2 if random.random() < faults.duplication else 1
        for _ in range(times):
            carried = datagram
            if random.random() < faults.corruption:
                carried = _damage(datagram, random)
            delay = faults.delay + random.uniform(0.0, faults.jitter)
            self._clock.callLater(delay, self._arrive, carried, source, target)

    def _arrive(self, datagram: bytes, source: Address, target: Address) -> None:
        wire = self._sockets.get(target)
        if wire is not None:
            wire.receive_datagram(datagram, source, self._clock)


def _damage(datagram: bytes, random: Random) -> bytes:
    if random.random() < 0.2:
        return datagram[: random.randrange(len(datagram))]
    damaged = bytearray(datagram)
    damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


class SharedMemorySocket:
    """A bound address for several stacks of a node (`broker.streams.links.IDatagramSocket`)."""

    def __init__(self, network: DatagramNetwork, address: tuple[str, int]) -> None:
        self.users = network.share(address)
        self.address = address
        self._network = network

    def resolve(self, host: str, port: int) -> Address:
        return host, port

    def stop(self) -> None:
        self.users.stop()
        self._network.unbind(self.address)
