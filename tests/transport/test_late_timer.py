"""A delayed process reads waiting packets before it reports a silent peer.

Twisted's reactors run due calls before they read sockets. Calls that become due meanwhile run in
the next turn, after the sockets. `task.Clock` does not do so: this clock does.
"""

from __future__ import annotations

from twisted.internet.task import Clock

from broker.errors import BrokerError
from broker.transport.driver import StackDriver
from broker.transport.p2p import P2PLayer, wire


class ReactorClock(Clock):
    def turn(self, seconds: float) -> None:
        """Simulate a busy process for this long; then run the calls due by then."""
        self.rightNow += seconds
        for call in [each for each in self.calls if each.getTime() <= self.rightNow]:
            if call in self.calls:
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class Channel:
    """A socket channel whose other end is the test."""

    peer_description = "test"
    secure = False
    max_frame = 1024
    receiver: object = None

    def __init__(self) -> None:
        self.error: BrokerError | None = None

    def send(self, packets: object) -> None: ...
    def close(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def abort(self, error: BrokerError) -> None:
        self.error = error


class Receiver:
    def messages_received(self, peer: object, messages: object) -> None: ...
    def view_changed(self, peer: object, view: object) -> None: ...
    def writable_changed(self, peer: object, writable: bool) -> None: ...


def test_a_delayed_stack_receives_the_pings_that_came_meanwhile() -> None:
    clock = ReactorClock()
    driver = StackDriver(
        [P2PLayer(incarnation=1, keepalive=1.0, liveness=4.0)],
        clock,
        Receiver(),  # type: ignore[arg-type]
    ).join("peer")
    channel = Channel()
    driver.attach(channel)  # type: ignore[arg-type]
    greeting = wire.encode_resume(
        wire.Resume(incarnation=2, known=0, received=0, limit=9999, window=9999)
    )
    channel.receiver.packets_received([greeting])  # type: ignore[attr-defined]
    clock.turn(0.9)
    # Less than the liveness for the peer, which has just received a PING.
    clock.turn(3.3)
    if channel.error is None:
        channel.receiver.packets_received([wire.encode_ping(0)] * 4)  # type: ignore[attr-defined]
    clock.turn(0.0)
    assert channel.error is None
    assert driver.is_attached
    clock.turn(3.9)
    clock.turn(0.2)
    clock.turn(0.0)
    assert channel.error is not None and channel.error.code == "peer-silent"
