"""One end of a link of one kind: sends packets as fast as it may, or counts what comes.

Twisted's reactor runs it, so it reads its task and writes what it has to say by itself. Loss is
made in the sending process: datagrams are dropped by chance before the socket gets them.
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
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.transport.socket.datagram_group import IGroupReceiver
from broker.transport.socket.datagram_socket import DatagramSocket
from broker.transport.socket.multicast import MulticastPort
from broker.transport.socket.tcp import TcpChannelFactory
from broker.transport.socket.udp import UdpPort

reactor = cast(Any, the_reactor)

_HERE: Final = "127.0.0.1"
_GROUP: Final = "239.255.77.9"
#: Packets that are given to the link at once.
_BATCH: Final = 100


def say(what: str, **figures: Any) -> None:
    """One line for the benchmark."""
    print(json.dumps({"says": what, **figures}), flush=True)


def lose(share: float) -> None:
    """From now on lose so much of what this process sends."""
    random, send = Random(1), DatagramSocket.send

    def lossy(self: DatagramSocket, datagrams: Sequence[bytes], address: Any) -> None:
        send(self, [each for each in datagrams if random.random() >= share], address)

    if share:
        DatagramSocket.send = lossy  # type: ignore[method-assign]


@implementer(ISocketReceiver, IGroupReceiver)
class End:
    """Both ends of all kinds; the group's calls name the sender first."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.count: int = task["count"]
        self.packet = bytes(range(256)) * (task["size"] // 256 + 1)
        self.packet = self.packet[: task["size"]]
        self.sends: bool = task["part"] == "send"
        self.came = 0
        self.missing = 0
        self.sent = 0
        self.began = 0.0
        self.cpu = 0.0
        self.writable = True
        self.give: Callable[[list[bytes]], object] = lambda _: None

    def attach(self, channel: ISocketChannel) -> None:
        """A connection is there."""
        channel.receiver = self
        self.begin(channel.send)

    def begin(self, give: Callable[[list[bytes]], object]) -> None:
        """There is somebody to send to."""
        self.give = give
        self.began, self.cpu = time.monotonic(), time.process_time()
        if self.sends:
            self.send_more()

    def send_more(self) -> None:
        """A batch, and the next one in the next turn, so that the network has its turn too."""
        if not self.writable:
            return
        if self.sent >= self.count:
            say("sent", began=self.began, cpu=time.process_time() - self.cpu)
            return
        batch = [self.packet] * min(_BATCH, self.count - self.sent)
        self.sent += len(batch)
        self.give(batch)
        reactor.callLater(0, self.send_more)

    def arrived(self, count: int) -> None:
        """So many packets came."""
        if not self.came:
            self.cpu = time.process_time()
        self.came += count
        if self.came + self.missing >= self.count:
            cpu = time.process_time() - self.cpu
            say("done", ended=time.monotonic(), cpu=cpu, missing=self.missing)

    def packets_received(self, *arguments: Any) -> None:
        """Of a channel, or of a group's sender."""
        self.arrived(len(arguments[-1]))

    def channel_lost(self, error: BrokerError | None) -> None:
        """Never before the benchmark ends this process."""
        os._exit(1)

    def writable_changed(self, writable: bool) -> None:
        """Go on, or wait."""
        self.writable = writable
        if writable and self.sends:
            reactor.callLater(0, self.send_more)

    def sender_appeared(self, sender: str) -> None:
        """The other member of the group is there."""
        if self.sends:
            reactor.callLater(0, self.begin, self.give)

    def gap(self, sender: str, count: int) -> None:
        """Lost for good."""
        self.missing += count
        self.arrived(0)

    def hears_changed(self, sender: str, hears: bool) -> None:
        """The receiving one is always there."""

    def sender_vanished(self, sender: str) -> None:
        """The benchmark has ended the other one."""


def start(task: dict[str, Any]) -> None:
    """Set one end up; the receiving one says where it is."""
    end, kind, port = End(task), task["kind"], task.get("port", 0)
    if kind == "multicast":
        where = (_GROUP, port, _HERE, task["part"])
        member = MulticastPort(reactor, *where, end, loop=True)
        end.give = lambda packets: member.send(packets)
        member.start()
        say("ready", port=port)
    elif kind == "udp":
        udp = UdpPort(reactor, _HERE, 0, end.attach)
        udp.start()
        if end.sends:
            udp.connect(_HERE, port).addCallback(end.attach)
        else:
            say("ready", port=udp.host[1])
    elif end.sends:
        factory = TcpChannelFactory(end.attach)
        clientFromString(reactor, f"tcp:{_HERE}:{port}").connect(factory)
    else:
        listening = serverFromString(reactor, f"tcp:0:interface={_HERE}").listen(
            TcpChannelFactory(end.attach)
        )
        listening.addCallback(lambda bound: say("ready", port=bound.getHost().port))


def main() -> None:
    """Read the task, and play it until the benchmark ends this process."""
    task = json.loads(sys.stdin.readline())
    lose(task["loss"])
    reactor.callWhenRunning(start, task)
    reactor.run()


if __name__ == "__main__":
    main()
