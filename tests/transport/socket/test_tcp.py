from __future__ import annotations

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from broker.errors import BrokerError, NotConnected
from broker.testing.socket_contract import RecordingReceiver
from broker.transport.socket.framing import encode_frames
from broker.transport.socket.tcp import TcpChannelFactory, TcpSocketChannel


def stream_of(packets: list[bytes]) -> bytes:
    return b"".join(encode_frames(packets))


def connected() -> tuple[TcpSocketChannel, StringTransport, RecordingReceiver]:
    made: list[object] = []
    channel = TcpChannelFactory(made.append, max_frame=100).buildProtocol(None)
    transport = StringTransport()
    channel.makeConnection(transport)
    assert made == [channel]
    return channel, transport, RecordingReceiver(channel)


def lost(
    channel: TcpSocketChannel, noting: RecordingReceiver, reason: Exception
) -> BrokerError | None:
    channel.connectionLost(Failure(reason))
    (error,) = noting.losses
    return error


def test_nothing_is_read_before_there_is_a_receiver() -> None:
    channel = TcpChannelFactory(lambda channel: None).buildProtocol(None)
    transport = StringTransport()
    channel.makeConnection(transport)
    assert transport.producerState == "paused"
    noting = RecordingReceiver(channel)
    assert transport.producerState == "producing"
    channel.pause()
    assert transport.producerState == "paused"
    channel.receiver = None
    channel.resume()
    assert transport.producerState == "paused"
    channel.receiver = noting
    assert transport.producerState == "producing"


def test_a_batch_is_one_write() -> None:
    channel, transport, _ = connected()
    channel.send([b"a", b"bc"])
    assert transport.value() == stream_of([b"a", b"bc"])


def test_closing_ends_the_producer_so_that_the_transport_can_flush() -> None:
    channel, transport, noting = connected()
    assert transport.producer is channel
    channel.close()
    assert transport.producer is None
    assert transport.disconnecting
    channel.dataReceived(stream_of([b"late"]))
    channel.pauseProducing()
    channel.send([b"late"])
    assert (noting.packets, noting.writable, transport.value()) == ([], [], b"")
    assert lost(channel, noting, ConnectionDone()) is None


def test_a_half_frame_counts_only_if_the_peer_broke_off() -> None:
    channel, _, noting = connected()
    channel.dataReceived(stream_of([b"half"])[:-1])
    channel.close()
    assert lost(channel, noting, ConnectionDone()) is None


def test_a_broken_connection_is_reported_with_its_reason() -> None:
    channel, _, noting = connected()
    error = lost(channel, noting, ConnectionLost("the cable"))
    assert isinstance(error, NotConnected)
    assert "the cable" in error.text


def test_the_greatest_frame_can_be_set_on_the_way() -> None:
    channel, transport, noting = connected()
    assert channel.max_frame == 100
    channel.max_frame = 200
    channel.dataReceived(stream_of([bytes(200)]))
    assert noting.packets == [bytes(200)]
    channel.dataReceived(stream_of([bytes(201)]))
    assert transport.disconnecting
