"""Cores of a group without a network: packets wait until a test moves them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from broker.errors import BrokerError
from broker.transport.effects import Failed
from broker.transport.order import (
    VARIANTS,
    Deliver,
    Instant,
    IOrderCore,
    Move,
    OrderEffect,
    OrderSettings,
    Reserved,
    Send,
    Suspect,
)
from broker.transport.order.instant import MICROSECONDS
from broker.transport.view import LinkState

SETTINGS = OrderSettings()


class Group:
    """Sites with one clock. Payloads name the messages."""

    def __init__(
        self,
        variant: str,
        sites: str = "abc",
        *,
        connected: bool = True,
        settings: OrderSettings = SETTINGS,
    ) -> None:
        self.cores: dict[str, IOrderCore] = {
            site: VARIANTS[variant].create_core(site, 1, settings) for site in sites
        }
        self.now = 0.0
        self.delivered: dict[str, list[Deliver]] = {site: [] for site in sites}
        self.moved: list[tuple[str, Move]] = []
        self.suspected: list[tuple[str, Suspect]] = []
        self.failures: list[BrokerError] = []
        #: Packets in transit by sender and receiver.
        self.transit: dict[tuple[str, str], deque[object]] = {
            (one, other): deque() for one in sites for other in sites if one != other
        }
        if connected:
            for one, other in self.transit:
                self.connect(one, other)
            self.settle()
            self.advance(1.0)

    @property
    def at(self) -> Instant:
        return Instant(self.now, round((1000.0 + self.now) * MICROSECONDS))

    def apply(self, site: str, effects: Iterable[OrderEffect]) -> None:
        for effect in effects:
            match effect:
                case Send(packets, sites):
                    others = [each for each in self.cores if each != site]
                    for other in others if sites is None else sites:
                        self.transit[site, other] += packets
                case Deliver():
                    self.delivered[site].append(effect)
                case Move():
                    self.moved.append((site, effect))
                case Suspect():
                    self.suspected.append((site, effect))
                case Failed(error):
                    self.failures.append(error)

    def connect(self, one: str, other: str) -> bool:
        """Report `other` as connected at `one`, unless its answer is too low."""
        offer = self.cores[one].offer_clock(other, self.at)
        answer = self.cores[other].answer_clock(one, offer, self.at)
        if answer is None:
            return False
        effects = self.cores[one].connect(other, answer, self.at)
        self.apply(one, effects or ())
        return effects is not None

    def disconnect(self, one: str, other: str) -> None:
        effects = self.cores[one].disconnect(other, LinkState.SUSPECTED, self.at)
        self.apply(one, effects)

    def isolate(self, site: str) -> None:
        for other in self.cores:
            if other != site:
                self.disconnect(site, other)
                self.disconnect(other, site)

    def send(self, site: str, *payloads: str) -> None:
        self.stamp(site, len(payloads))
        self.release(site, *payloads)

    def stamp(self, site: str, count: int = 1) -> list[Reserved]:
        """Reserve stamps, and return each alone."""
        rest = self.cores[site].stamp(count, self.at)
        return [rest.without(index)._replace(length=1) for index in range(count)]

    def release(self, site: str, *payloads: str, count: int = 1) -> None:
        """Release messages, or runs of `count` messages."""
        encoded, counts = [payload.encode() for payload in payloads], [count] * len(payloads)
        self.apply(site, self.cores[site].release(encoded, self.at, counts))

    def revoke(self, site: str) -> None:
        self.apply(site, self.cores[site].revoke(self.at))

    def receive(self, site: str, sender: str, *packets: object) -> None:
        self.apply(site, self.cores[site].receive(sender, packets, self.at))

    def move(self, sender: str, receiver: str) -> None:
        """Let packets of one direction arrive."""
        packets = self.transit[sender, receiver]
        while packets:
            self.receive(receiver, sender, packets.popleft())

    def settle(self, *without: tuple[str, str]) -> None:
        """Let all packets arrive, those of some directions excepted."""
        while any(packets for path, packets in self.transit.items() if path not in without):
            for path in self.transit:
                if path not in without:
                    self.move(*path)

    def advance_without_packets(self, seconds: float) -> None:
        """Let time pass, and timers run, while packets stay where they are."""
        self.advance(seconds, moves=False)

    def advance(self, seconds: float, *, moves: bool = True) -> None:
        """Let time pass, and packets arrive at once."""
        end = self.now + seconds
        while True:
            times = {site: core.next_timeout() for site, core in self.cores.items()}
            due = min((time for time in times.values() if time is not None), default=end + 1)
            if due > end:
                break
            self.now = max(self.now, due)
            for site, time in times.items():
                if time is not None and time <= self.now:
                    self.apply(site, self.cores[site].handle_timeout(self.at))
            if moves:
                self.settle()
        self.now = end

    def texts(self, site: str) -> list[str]:
        """Return delivered payloads; those of late messages begin with an exclamation mark."""
        return [
            ("!" if each.late else "") + each.message.payload.decode()
            for each in self.delivered[site]
        ]
