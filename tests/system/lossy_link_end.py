"""One end of a link in a namespace: `python -m tests.system.lossy_link_end KIND ...`.

It sends `COUNT` packets, expects as many from each other end, and runs until its input ends.
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
from broker.transport.arq.connection_channel import ConnectionChannel
from broker.transport.arq.multicast_port import MulticastPort
from broker.transport.arq.udp_port import UdpPort
from broker.transport.socket import ISocketChannel, ISocketReceiver
from tests.system.recording_member import RecordingMember

reactor = cast(Any, the_reactor)

PATIENCE = 60.0
UDP_PORT = 7001
GROUP_PORT = 7002


def packet(number: int) -> bytes:
    """Some packets need several datagrams."""
    return b"%d:" % number + bytes(20_000 if number % 100 == 0 else number % 1000)


def report(*words: object) -> None:
    print(*words, flush=True)


@implementer(ISocketReceiver)
class UdpEnd:
    def __init__(self, count: int, dials: bool) -> None:
        self.count = count
        self.dials = dials
        self.sent = 0
        self.received = 0
        self.channel: ISocketChannel | None = None
        self.writable = True

    def start_sending(self, channel: ISocketChannel) -> None:
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
            report("complete")

    def channel_lost(self, error: BrokerError | None) -> None:
        core = cast(ConnectionChannel, self.channel).core
        report("lost", error, "after repeats" if core.sender.retransmitted else "without a repeat")
        if self.dials:
            reactor.callLater(0, reactor.stop)

    def writable_changed(self, writable: bool) -> None:
        self.writable = writable
        self.send_more()


class StopAtEndOfInput(Protocol):
    def __init__(self, stop: Callable[[], object], lingers: bool) -> None:
        self.stop = stop
        self.lingers = lingers

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.stop()
        if not self.lingers:
            reactor.callLater(0, reactor.stop)


def listen(address: str, count: str) -> Callable[[], object]:
    port = UdpPort(reactor, address, UDP_PORT, UdpEnd(int(count), dials=False).start_sending)
    port.start()
    report("listening")
    return port.stop


def dial(address: str, peer: str, count: str) -> Callable[[], object]:
    port = UdpPort(reactor, address, 0, lambda _: None)
    port.start()
    end = UdpEnd(int(count), dials=True)

    def close() -> None:
        assert end.channel is not None
        end.channel.close()

    port.connect(peer, UDP_PORT).addCallbacks(
        end.start_sending, lambda failure: report(failure.value)
    )
    return close


def group(name: str, address: str, interface: str, count: str) -> Callable[[], object]:
    packets = [packet(number) for number in range(int(count))]
    state = {"sent": 0, "told": False}

    def changed() -> None:
        if not member.present:
            return
        while member.writable and state["sent"] < len(packets):
            start = state["sent"]
            state["sent"] += 50
            port.send(packets[start : start + 50])
        (received,) = member.received.values() or ([],)
        if len(received) >= len(packets) and not state["told"]:
            state["told"] = True
            report("complete" if received == packets and not member.gaps else "wrong")

    member = RecordingMember(changed)
    port = MulticastPort(reactor, address, GROUP_PORT, interface, name, member, secret=b"secret")
    port.start()
    return port.stop


def main(kind: str, *arguments: str) -> None:
    parts: dict[str, Callable[..., Callable[[], object]]] = {
        "listen": listen,
        "dial": dial,
        "group": group,
    }
    reactor.callLater(PATIENCE, os._exit, 1)
    stop = parts[kind](*arguments)
    stdio.StandardIO(StopAtEndOfInput(stop, lingers=kind == "dial"), reactor=reactor)
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
