"""One end of a link: sends packets at full speed, or counts those received.

Loss is created in the sending process, before the socket.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, cast

from twisted.internet import reactor as the_reactor
from twisted.internet.endpoints import clientFromString, serverFromString
from zope.interface import implementer

from broker.errors import BrokerError
from broker.transport.arq.group_member import IGroupReceiver
from broker.transport.arq.multicast_port import MulticastPort
from broker.transport.arq.udp_port import UdpPort
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.transport.socket.datagram_socket import DatagramSocket
from broker.transport.socket.tcp import TcpChannelFactory

reactor = cast(Any, the_reactor)

_HERE: Final = "127.0.0.1"
_GROUP: Final = "239.255.77.9"
_BATCH: Final = 100


def report(what: str, **figures: Any) -> None:
    print(json.dumps({"says": what, **figures}), flush=True)


def drop_datagrams(share: float) -> None:
    random, send = Random(1), DatagramSocket.send

    def lossy(self: DatagramSocket, datagrams: Sequence[bytes], address: Any) -> None:
        send(self, [each for each in datagrams if random.random() >= share], address)

    if share:
        DatagramSocket.send = lossy  # type: ignore[method-assign]


@implementer(ISocketReceiver, IGroupReceiver)
class LinkEnd:
    """An end of any kind of link; calls of a group name the sender first."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.count: int = task["count"]
        self.packet = bytes(range(256)) * (task["size"] // 256 + 1)
        self.packet = self.packet[: task["size"]]
        self.sends: bool = task["part"] == "send"
        self.received = 0
        self.missing = 0
        self.sent = 0
        self.began = 0.0
        self.cpu = 0.0
        self.writable = True
        self.send_batch: Callable[[list[bytes]], object] = lambda _: None

    def attach(self, channel: ISocketChannel) -> None:
        channel.receiver = self
        self.start_sending(channel.send)

    def start_sending(self, give: Callable[[list[bytes]], object]) -> None:
        self.send_batch = give
        self.began, self.cpu = time.monotonic(), time.process_time()
        if self.sends:
            self.send_more()

    def send_more(self) -> None:
        """Send a batch; the network is served between batches."""
        if not self.writable:
            return
        if self.sent >= self.count:
            report("sent", began=self.began, cpu=time.process_time() - self.cpu)
            return
        batch = [self.packet] * min(_BATCH, self.count - self.sent)
        self.sent += len(batch)
        self.send_batch(batch)
        reactor.callLater(0, self.send_more)

    def count_packets(self, count: int) -> None:
        if not self.received:
            self.cpu = time.process_time()
        self.received += count
        if self.received + self.missing >= self.count:
            cpu = time.process_time() - self.cpu
            report("done", ended=time.monotonic(), cpu=cpu, missing=self.missing)

    def packets_received(self, *arguments: Any) -> None:
        self.count_packets(len(arguments[-1]))

    def channel_lost(self, error: BrokerError | None) -> None:
        os._exit(1)

    def writable_changed(self, writable: bool) -> None:
        self.writable = writable
        if writable and self.sends:
            reactor.callLater(0, self.send_more)

    def sender_appeared(self, sender: str) -> None:
        if self.sends:
            reactor.callLater(0, self.start_sending, self.send_batch)

    def packets_lost(self, sender: str, count: int) -> None:
        self.missing += count
        self.count_packets(0)

    def reachability_changed(self, sender: str, is_reachable: bool) -> None:
        """The receiving member is always there."""

    def sender_disappeared(self, sender: str) -> None:
        """The benchmark has ended the other end."""


def start(task: dict[str, Any]) -> None:
    end, kind, port = LinkEnd(task), task["kind"], task.get("port", 0)
    if kind == "multicast":
        where = (_GROUP, port, _HERE, task["part"])
        member = MulticastPort(reactor, *where, end, loop=True)
        end.send_batch = lambda packets: member.send(packets)
        member.start()
        report("ready", port=port)
    elif kind == "udp":
        udp = UdpPort(reactor, _HERE, 0, end.attach)
        udp.start()
        if end.sends:
            udp.connect(_HERE, port).addCallback(end.attach)
        else:
            report("ready", port=udp.bound_address[1])
    elif end.sends:
        factory = TcpChannelFactory(end.attach)
        clientFromString(reactor, f"tcp:{_HERE}:{port}").connect(factory)
    else:
        listening = serverFromString(reactor, f"tcp:0:interface={_HERE}").listen(
            TcpChannelFactory(end.attach)
        )
        listening.addCallback(lambda bound: report("ready", port=bound.getHost().port))


def main() -> None:
    task = json.loads(sys.stdin.readline())
    drop_datagrams(task["loss"])
    reactor.callWhenRunning(start, task)
    reactor.run()


if __name__ == "__main__":
    main()
