"""One end of a link in a namespace: `python -m tests.system.lossy_actor KIND ...`.

It sends `COUNT` packets, expects as many of each other one, says so, and stays until its standard
input ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from twisted.internet import reactor as the_reactor
from twisted.internet import stdio
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import BrokerError
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.transport.socket.datagram_channel import DatagramChannel
from broker.transport.socket.multicast import MulticastPort
from broker.transport.socket.udp import UdpPort
from tests.system.group_member import NotingMember

reactor = cast(Any, the_reactor)

#: Seconds after which the test has failed.
PATIENCE = 60.0
UDP_PORT = 7001
GROUP_PORT = 7002


def packet(number: int) -> bytes:
    """Most are small; some need several datagrams."""
    return b"%d:" % number + bytes(20_000 if number % 100 == 0 else number % 1000)


def say(*words: object) -> None:
    """One line for the test."""
    print(*words, flush=True)


@implementer(ISocketReceiver)
class UdpEnd:
    """Sends everything as far as it may, and expects the same."""

    def __init__(self, count: int, dials: bool) -> None:
        self.count = count
        self.dials = dials
        self.sent = 0
        self.received = 0
        self.channel: ISocketChannel | None = None
        self.writable = True

    def begin(self, channel: ISocketChannel) -> None:
        self.channel = channel
        channel.receiver = self
        self.send_more()

    def send_more(self) -> None:
        while self.writable and self.sent < self.count:
            assert self.channel is not None
            numbers = range(self.sent, min(self.sent + 50, self.count))
            self.sent = numbers.stop
            self.channel.send([packet(number) for number in numbers])

    def packets_received(self, packets: Sequence[bytes]) -> None:
        for each in packets:
            assert each == packet(self.received)
            self.received += 1
        if self.received == self.count:
            say("complete")

    def channel_lost(self, error: BrokerError | None) -> None:
        core = cast(DatagramChannel, self.channel).core
        say("lost", error, "after repeats" if core.sender.repeated else "without a repeat")
        if self.dials:
            reactor.callLater(0, reactor.stop)

    def writable_changed(self, writable: bool) -> None:
        self.writable = writable
        self.send_more()


class UntilInputEnds(Protocol):
    """Ends the process in good order when whoever started it closes the pipe."""

    def __init__(self, stop: Callable[[], object], lingers: bool) -> None:
        self.stop = stop
        self.lingers = lingers

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.stop()
        if not self.lingers:
            reactor.callLater(0, reactor.stop)


def listen(address: str, count: str) -> Callable[[], object]:
    """Accept over UDP."""
    port = UdpPort(reactor, address, UDP_PORT, UdpEnd(int(count), dials=False).begin)
    port.start()
    say("listening")
    return port.stop


def dial(address: str, peer: str, count: str) -> Callable[[], object]:
    """Connect over UDP."""
    port = UdpPort(reactor, address, 0, lambda _: None)
    port.start()
    end = UdpEnd(int(count), dials=True)

    def close() -> None:
        assert end.channel is not None
        end.channel.close()

    port.connect(peer, UDP_PORT).addCallbacks(end.begin, lambda failure: say(failure.value))
    return close


def group(name: str, address: str, interface: str, count: str) -> Callable[[], object]:
    """Be a member of a group of two."""
    wanted = [packet(number) for number in range(int(count))]
    state = {"sent": 0, "told": False}

    def changed() -> None:
        if not noting.present:
            return
        while noting.writable and state["sent"] < len(wanted):
            start = state["sent"]
            state["sent"] += 50
            port.send(wanted[start : start + 50])
        (heard,) = noting.heard.values() or ([],)
        if len(heard) >= len(wanted) and not state["told"]:
            state["told"] = True
            say("complete" if heard == wanted and not noting.gaps else "wrong")

    noting = NotingMember(changed)
    port = MulticastPort(reactor, address, GROUP_PORT, interface, name, noting, secret=b"secret")
    port.start()
    return port.stop


def main(kind: str, *arguments: str) -> None:
    """Play one part."""
    parts: dict[str, Callable[..., Callable[[], object]]] = {
        "listen": listen,
        "dial": dial,
        "group": group,
    }
    reactor.callLater(PATIENCE, os._exit, 1)
    stop = parts[kind](*arguments)
    stdio.StandardIO(UntilInputEnds(stop, lingers=kind == "dial"), reactor=reactor)
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
