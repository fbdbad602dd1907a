"""A message that takes longer than the liveness to arrive does not count as silence."""

from __future__ import annotations

from twisted.internet.task import Clock

from broker.transport.arq import ArqSettings
from broker.transport.driver import StackDriver
from broker.transport.p2p import P2PLayer, wire
from broker.transport.socket.framing import encode_frames
from broker.transport.socket.stream import StreamChannel
from broker.transport.view import LinkState, View
from tests.transport.arq.datagram_pair import Pair

MESSAGE = bytes(1_000_000)  # of the length limits.max_event_bytes


def layer(incarnation: int) -> P2PLayer:
    # The settings of plugins/mspaces.
    return P2PLayer(incarnation=incarnation, keepalive=1.0, liveness=4.0)


class End:
    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.breaks = 0
        self.connected = False

    def messages_received(self, peer: object, messages: list[bytes]) -> None:
        assert messages
        self.messages += messages

    def view_changed(self, peer: object, view: View) -> None:
        self.connected = view.state is LinkState.CONNECTED
        self.breaks += view.state is LinkState.DISCONNECTED

    def writable_changed(self, peer: object, writable: bool) -> None: ...


def test_over_datagrams_at_100_kb_a_second() -> None:
    rate = ArqSettings(least_rate=1e5, start_rate=1e5, most_rate=1e5)
    pair = Pair(0, settings=rate)
    here, there = End(), End()
    drivers = [
        StackDriver([layer(number)], pair.clock, end).join("peer")  # type: ignore[arg-type]
        for number, end in ((1, here), (2, there))
    ]
    drivers[0].send([MESSAGE])
    dialled, accepted = pair.connected()
    drivers[0].attach(dialled)
    drivers[1].attach(accepted)
    pair.run(lambda: bool(there.messages or here.breaks), 30.0)
    assert there.messages == [MESSAGE]
    assert there.breaks == here.breaks == 0


class Stream(StreamChannel):
    """A TCP connection without a transport."""

    def _close_transport(self) -> None: ...
    def _abort_transport(self) -> None:
        self._disconnected(None)

    def _set_reading(self, reading: bool) -> None: ...


def test_over_a_stream_at_100_kb_a_second() -> None:
    clock, end = Clock(), End()
    channel = Stream(lambda _: None, 16 * 1024 * 1024)
    channel._connected(lambda _: None)
    driver = StackDriver([layer(1)], clock, end).join("peer")  # type: ignore[arg-type]
    driver.attach(channel)
    greeting = wire.encode_resume(
        wire.Resume(incarnation=2, known=0, received=0, limit=2**23, window=2**23)
    )
    packets = [greeting, *wire.encode_data(1, 0, 2**23, [MESSAGE])]
    stream = b"".join(encode_frames(packets))
    for start in range(0, len(stream), 10_000):
        channel._received(stream[start : start + 10_000])
        clock.advance(0.1)
    assert end.breaks == 0
    assert end.messages == [MESSAGE]
    clock.advance(4.1)
    assert end.breaks == 1
