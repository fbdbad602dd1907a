from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random

from twisted.internet.task import Clock
from zope.interface import implementer

from broker.testing.datagram_network import Address, DatagramFaults, DatagramNetwork
from broker.transport.arq.group_core import GroupCore
from broker.transport.arq.group_member import GroupMember, IGroupReceiver
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.mac import Mac, derive_group_key

GROUP = ("group", 0)
MAX_FRAME = 64 * 1024


@implementer(IGroupReceiver)
class Member:
    def __init__(self, name: str, members: Members, secret: bytes) -> None:
        self.name = name
        self.heard: dict[str, list[bytes]] = defaultdict(list)
        self.told: list[tuple[str, object]] = []
        self.reachable: set[str] = set()
        self.writable = True
        self.waiting: list[bytes] = []
        address = (name, 1)
        wire = members.network.bind(address, lambda batch: group.datagrams_received(batch))
        members.network.join(GROUP, address)
        self.wire = wire
        random = members.random
        core = GroupCore(
            *(members.settings, Mac(derive_group_key(secret)), name, random.getrandbits(64)),
            *(random.random, MAX_FRAME, members.clock.seconds()),
        )
        self.core = core
        self.group = group = GroupMember(
            members.clock, core, self, lambda datagrams: wire.send(datagrams, GROUP), wire.send
        )

    def send(self, packets: Sequence[bytes]) -> None:
        self.waiting += packets
        while self.waiting and self.writable:
            batch, self.waiting = self.waiting[:10], self.waiting[10:]
            self.group.send(batch)

    @property
    def gaps(self) -> list[object]:
        return [count for _, count in self.told if isinstance(count, int)]

    def sender_appeared(self, sender: str) -> None:
        self.told.append((sender, "appeared"))

    def packets_received(self, sender: str, packets: Sequence[bytes]) -> None:
        assert packets
        self.heard[sender] += packets

    def packets_lost(self, sender: str, count: int) -> None:
        self.told.append((sender, count))

    def reachability_changed(self, sender: str, is_reachable: bool) -> None:
        assert is_reachable != (sender in self.reachable)
        self.reachable ^= {sender}

    def sender_disappeared(self, sender: str) -> None:
        self.reachable.discard(sender)
        self.told.append((sender, "vanished"))

    def writable_changed(self, writable: bool) -> None:
        self.writable = writable
        if writable:
            self.send([])


class Members:
    """A group on a bad network in virtual time."""

    def __init__(
        self,
        seed: int,
        names: str,
        faults: DatagramFaults | None = None,
        settings: GroupSettings | None = None,
        secret: bytes = b"",
        wait: bool = True,
    ) -> None:
        self.clock = Clock()
        self.random = Random(seed)
        self.network = DatagramNetwork(self.clock, seed, None if wait else faults)
        self.settings = settings or GroupSettings()
        self.all = [Member(name, self, secret) for name in names]
        # All know each other before packets are sent or lost.
        if wait:
            self.run(lambda: all(len(each.told) == len(names) - 1 for each in self.all), 2.0)
        if faults is not None:
            self.network.faults = faults

    def run(self, until: Callable[[], bool], most: float) -> float:
        """Advance until a condition holds, or for `most` seconds; return the duration."""
        start = self.clock.seconds()
        while self.clock.seconds() < start + most and not until():
            calls = self.clock.getDelayedCalls()
            if not calls:
                break
            soonest = min(call.getTime() for call in calls)
            self.clock.advance(max(0.0, soonest - self.clock.seconds()))
        return self.clock.seconds() - start

    def stop(self) -> None:
        for member in self.all:
            member.group.stop()

    def address(self, name: str) -> Address:
        return (name, 1)
