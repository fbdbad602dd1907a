"""A datagram network in memory and virtual time that loses, repeats, damages and reorders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

import attrs
from twisted.internet.task import Clock

Address: TypeAlias = tuple[str, int]
OnDatagrams: TypeAlias = Callable[[Sequence[tuple[bytes, Address]]], None]

#: Datagrams that arrive within so many seconds of each other are one read.
_READ = 0.0005


@attrs.frozen(kw_only=True)
class DatagramFaults:
    """What happens to each datagram, each drawn on its own; delays in seconds."""

    loss: float = 0.0
    duplication: float = 0.0
    corruption: float = 0.0
    delay: float = 0.001
    #: Up to so much more, so that datagrams overtake each other.
    jitter: float = 0.0


class MemoryWire:
    """One bound address. What it sends has its address as the source."""

    def __init__(self, network: DatagramNetwork, address: Address, hears: OnDatagrams) -> None:
        self.address = address
        #: What was sent from here, in datagrams and bytes.
        self.sent = 0
        self.sent_bytes = 0
        self._network = network
        self._hears = hears
        self._inbox: list[tuple[bytes, Address]] = []

    def send(self, datagrams: Sequence[bytes], address: Address) -> None:
        """Send to an address, or to a group."""
        self.sent += len(datagrams)
        self.sent_bytes += sum(map(len, datagrams))
        for datagram in datagrams:
            self._network.carry(datagram, self.address, address)

    def arrived(self, datagram: bytes, source: Address, clock: Clock) -> None:
        """The network brings something."""
        self._inbox.append((datagram, source))
        if len(self._inbox) == 1:
            clock.callLater(_READ, self._read)

    def _read(self) -> None:
        inbox, self._inbox = self._inbox, []
        self._hears(inbox)


class DatagramNetwork:
    """Carries datagrams between addresses and to groups, all from one seed."""

    def __init__(self, clock: Clock, seed: int, faults: DatagramFaults | None = None) -> None:
        self.faults = faults or DatagramFaults()
        #: Called with each datagram and its source and destination; says whether it may pass.
        self.filter: Callable[[bytes, Address, Address], bool] = lambda *_: True
        self.lost = 0
        self._clock = clock
        self._random = Random(seed)
        self._wires: dict[Address, MemoryWire] = {}
        self._groups: dict[Address, dict[Address, None]] = {}
        self._cut: set[frozenset[Address]] = set()

    def bind(self, address: Address, hears: OnDatagrams) -> MemoryWire:
        """Take an address; `hears` gets what arrives there."""
        wire = self._wires[address] = MemoryWire(self, address, hears)
        return wire

    def unbind(self, address: Address) -> None:
        """Nothing arrives at that address any more."""
        self._wires.pop(address, None)

    def join(self, group: Address, address: Address) -> None:
        """What is sent to `group` arrives at `address`, but for what that address sends itself."""
        self._groups.setdefault(group, {})[address] = None

    def cut(self, one: Address, other: Address) -> None:
        """Let nothing pass between two addresses, until `heal`."""
        self._cut.add(frozenset((one, other)))

    def heal(self) -> None:
        """Take back all cuts."""
        self._cut.clear()

    def carry(self, datagram: bytes, source: Address, target: Address) -> None:
        """One datagram, to whoever it is for."""
        for each in list(self._groups.get(target, {target: None})):
            if each != source or target not in self._groups:
                self._carry_to(datagram, source, each)

    def _carry_to(self, datagram: bytes, source: Address, target: Address) -> None:
        random, faults = self._random, self.faults
        blocked = frozenset((source, target)) in self._cut
        if blocked or random.random() < faults.loss or not self.filter(datagram, source, target):
            self.lost += 1
            return
        times = 2 if random.random() < faults.duplication else 1
        for _ in range(times):
            carried = datagram
            if random.random() < faults.corruption:
                carried = _damaged(datagram, random)
            delay = faults.delay + random.uniform(0.0, faults.jitter)
            self._clock.callLater(delay, self._arrive, carried, source, target)

    def _arrive(self, datagram: bytes, source: Address, target: Address) -> None:
        wire = self._wires.get(target)
        if wire is not None:
            wire.arrived(datagram, source, self._clock)


def _damaged(datagram: bytes, random: Random) -> bytes:
    """A datagram with a flipped bit, or cut short."""
    if random.random() < 0.2:
        return datagram[: random.randrange(len(datagram))]
    damaged = bytearray(datagram)
    damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)
