"""A member of a group in a namespace, whose stack stands on raw multicast.

`python -m tests.system.raw_group_end NAME GROUP INTERFACE` sends its name to the group until its
input ends, and prints the first message from each address.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, cast

from twisted.internet import reactor as the_reactor
from twisted.internet import stdio
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.transport.arq import GroupLayer
from broker.transport.arq.group_layer import GROUP
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.message import Message, Peer
from broker.transport.socket import DATAGRAM_PROPERTIES, IDatagramChannel
from broker.transport.socket.datagram_transport import Address
from broker.transport.socket.multicast import MulticastSocket
from broker.transport.view import View

reactor = cast(Any, the_reactor)

PORT = 7003
PATIENCE = 60.0


class StopAtEndOfInput(Protocol):
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        reactor.stop()


@implementer(IStackReceiver)
class Printer:
    def __init__(self) -> None:
        self.seen: set[Peer] = set()

    def messages_received(self, peer: Peer, messages: Sequence[bytes]) -> None:
        if peer not in self.seen:
            self.seen.add(peer)
            print(messages[0].decode(), flush=True)

    def view_changed(self, peer: Peer, view: View) -> None:
        """Only messages count."""

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        """The group is never full."""


def main(name: str, group: str, interface: str) -> None:
    layer = GroupLayer(member=name, secret=b"of both")
    driver = StackDriver([layer], reactor, Printer(), DATAGRAM_PROPERTIES)

    def accept(channel: IDatagramChannel, address: Address) -> None:
        driver.join(address).attach(channel)
        channel.resume()

    member = MulticastSocket(reactor, group, PORT, interface, loop=True)
    member.start()
    driver.join(GROUP).attach(member.users.open_port("raw", accept).connect_group())
    LoopingCall(lambda: driver.send([Message(name.encode(), destinations=(GROUP,))])).start(0.05)
    reactor.callLater(PATIENCE, os._exit, 1)
    stdio.StandardIO(StopAtEndOfInput(), reactor=reactor)
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
