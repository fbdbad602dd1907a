"""Ends of stacks over raw datagrams, in memory and virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.task import Clock
from zope.interface import implementer

from broker.testing.datagram_network import DatagramFaults, DatagramNetwork
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.layer import ILayer
from broker.transport.message import Peer
from broker.transport.socket import DATAGRAM_PROPERTIES
from broker.transport.view import View

HERE, THERE = ("here", 1), ("there", 2)


@implementer(IStackReceiver)
class End:
    """A user that records messages and consumes them."""

    def __init__(
        self, clock: object, layers: Sequence[ILayer], changed: Callable[[], None] = lambda: None
    ) -> None:
        self.messages: list[bytes] = []
        self.views: list[View] = []
        self.writable: list[bool] = []
        self.errors: list[Exception] = []
        self.changed = changed
        self.driver = StackDriver(
            *(layers, clock, self, DATAGRAM_PROPERTIES),  # type: ignore[arg-type]
            on_error=self.errors.append,
        ).join("peer")

    def messages_received(self, peer: Peer, messages: Sequence[bytes]) -> None:
        self.messages += messages
        self.driver.consumed(len(messages))
        self.changed()

    def view_changed(self, peer: Peer, view: View) -> None:
        self.views.append(view)
        self.changed()

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        self.writable.append(writable)


class DatagramLink:
    """Two ends over a bad network; HERE knows THERE, which accepts strangers."""

    def __init__(
        self,
        seed: int,
        layers: Callable[[int], Sequence[ILayer]],
        faults: DatagramFaults | None = None,
    ) -> None:
        self.clock = Clock()
        self.network = DatagramNetwork(self.clock, seed, faults)
        self.layers = layers
        self.here, self.there = End(self.clock, layers(1)), End(self.clock, layers(2))
        self.here_port = self.network.share(HERE).open_port("test")
        self.there_users = self.network.share(THERE)
        self.there_port = self.there_users.open_port(
            "test", lambda channel, _: self.there.driver.attach(channel)
        )
        self.here.driver.attach(self.here_port.connect(THERE))

    def run(self, until: Callable[[], bool], most: float) -> bool:
        """Advance until a condition holds, or for `most` seconds."""
        end = self.clock.seconds() + most
        while not until() and self.clock.seconds() < end:
            calls = self.clock.getDelayedCalls()
            soonest = min([end, *(call.getTime() for call in calls)])
            self.clock.advance(max(0.0, soonest - self.clock.seconds()))
        return until()

    @property
    def errors(self) -> list[Exception]:
        return self.here.errors + self.there.errors
