"""A member of a raw group in a namespace.

`python -m tests.system.raw_group_end NAME GROUP INTERFACE` sends its name to the group until its
input ends, and prints the first packet from each address.
"""

from __future__ import annotations

import os
import sys
from typing import Any, cast

from twisted.internet import reactor as the_reactor
from twisted.internet import stdio
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure

from broker.testing.socket_contract import RecordingReceiver
from broker.transport.socket import IDatagramChannel
from broker.transport.socket.datagram_transport import Address
from broker.transport.socket.multicast import MulticastSocket

reactor = cast(Any, the_reactor)

PORT = 7003
PATIENCE = 60.0


class StopAtEndOfInput(Protocol):
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        reactor.stop()


def accept(channel: IDatagramChannel, address: Address) -> None:
    RecordingReceiver(channel)
    reactor.callLater(0, report, cast(RecordingReceiver, channel.receiver))


def report(receiver: RecordingReceiver) -> None:
    print(receiver.packets[0].decode(), flush=True)


def main(name: str, group: str, interface: str) -> None:
    member = MulticastSocket(reactor, group, PORT, interface, loop=True)
    member.start()
    port = member.users.open_port("raw", accept)
    LoopingCall(port.send_to_group, [name.encode()]).start(0.05)
    reactor.callLater(PATIENCE, os._exit, 1)
    stdio.StandardIO(StopAtEndOfInput(), reactor=reactor)
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
