from __future__ import annotations

from collections.abc import Callable

from twisted.internet.error import CannotListenError, ConnectionRefusedError, TimeoutError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from broker.errors import Closed, NotConnected
from broker.testing.memory_channel import HIGH_WATER, MemoryChannel
from broker.testing.memory_network import MemoryNetwork
from broker.testing.socket_contract import RecordingReceiver, SocketChannelContract
from broker.transport.socket import ISocketChannel


class MemoryChannelTests(SocketChannelContract, TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, 1, jitter=0.001)

    async def make_pair(self) -> tuple[ISocketChannel, ISocketChannel]:
        accepted: list[ISocketChannel] = []
        self.network.listen("a", accepted.append)
        connecting = self.network.connect("a")
        self.clock.advance(1.0)
        pair = (await connecting, accepted[0])
        for channel in pair:
            channel.max_frame = self.max_frame
        return pair

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert self.clock.calls, "nothing will ever happen"
            self.clock.advance(max(0.0, self.clock.calls[0].getTime() - self.clock.seconds()))

    def tearDown(self) -> None:
        self.network.cut("a")
        self.clock.advance(1.0)
        self.assertEqual(self.network.connections("a"), 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class MemoryNetworkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, latency=0.1)
        self.accepted: list[RecordingReceiver] = []
        self.port = self.network.listen(
            "a", lambda channel: self.accepted.append(RecordingReceiver(channel))
        )

    def connect(self, address: str = "a") -> RecordingReceiver:
        connecting = self.network.connect(address)
        self.clock.advance(0.1)
        return RecordingReceiver(self.successResultOf(connecting))

    def test_a_connection_takes_one_latency_and_a_packet_another(self) -> None:
        connecting = self.network.connect("a")
        self.clock.advance(0.05)
        self.assertNoResult(connecting)
        self.clock.advance(0.05)
        self.successResultOf(connecting).send([b"x"])
        self.clock.advance(0.05)
        self.assertEqual(self.accepted[0].packets, [])
        self.clock.advance(0.05)
        self.assertEqual(self.accepted[0].packets, [b"x"])

    def test_jitter_varies_the_time_and_keeps_the_order(self) -> None:
        self.network.set_delay("a", 0.1, 0.5)
        connecting = self.network.connect("a")
        self.clock.advance(1.0)
        channel = self.successResultOf(connecting)
        for number in range(100):
            channel.send([b"%d" % number])
            self.clock.advance(0.01)
        self.clock.advance(1.0)
        self.assertEqual(self.accepted[0].packets, [b"%d" % number for number in range(100)])
        self.assertGreater(len(set(self.accepted[0].batches)), 1)

    def test_the_same_seed_gives_the_same_times(self) -> None:
        def times(seed: int) -> list[float]:
            clock = Clock()
            network = MemoryNetwork(clock, seed, jitter=1.0)
            network.listen("a", lambda channel: None)
            seen: list[float] = []
            for _ in range(5):
                network.connect("a").addCallback(lambda _: seen.append(clock.seconds()))
            clock.pump([0.01] * 200)
            return seen

        self.assertEqual(times(1), times(1))
        self.assertNotEqual(times(1), times(2))

    def test_a_connection_without_listener_is_refused(self) -> None:
        connecting = self.network.connect("b")
        self.clock.advance(0.1)
        self.failureResultOf(connecting, ConnectionRefusedError)

    def test_refusing_leaves_present_connections_alone_and_heals(self) -> None:
        client = self.connect()
        self.network.refuse("a")
        connecting = self.network.connect("a")
        self.clock.advance(0.1)
        self.failureResultOf(connecting, ConnectionRefusedError)
        client.channel.send([b"x"])
        self.clock.advance(0.1)
        self.assertEqual(self.accepted[0].packets, [b"x"])
        self.network.heal("a")
        self.connect()
        self.assertEqual(self.network.connections("a"), 2)

    def test_a_cut_breaks_the_connections_of_one_address_and_loses_packets_in_transit(self) -> None:
        self.network.listen("b", lambda channel: self.accepted.append(RecordingReceiver(channel)))
        client, other = self.connect(), self.connect("b")
        client.channel.send([b"x"])
        other.channel.send([b"y"])
        self.network.cut("a")
        self.clock.advance(0.2)
        server, other_server = self.accepted
        for end in (client, server):
            self.assertIsInstance(end.losses[0], NotConnected)
            self.assertEqual(end.packets, [])
        self.assertEqual((other.losses, other_server.packets), ([], [b"y"]))
        self.assertEqual(self.network.connections("a"), 0)

    def test_a_silent_direction_holds_bytes_and_the_end_of_the_connection(self) -> None:
        client = self.connect()
        server = self.accepted[0]
        self.network.hold("a", to_listener=True)
        client.channel.send([b"waits"])
        server.channel.send([b"arrives"])
        self.clock.advance(100.0)
        self.assertEqual((server.packets, client.packets), ([], [b"arrives"]))
        client.channel.send([b"waits too"])
        self.network.release("a", to_listener=True)
        self.clock.advance(0.05)
        self.assertEqual(server.packets, [])
        self.clock.advance(0.05)
        self.assertEqual(server.packets, [b"waits", b"waits too"])
        self.network.hold("a", to_listener=True)
        client.channel.abort(Closed("gone"))
        self.clock.advance(100.0)
        self.assertEqual((server.losses, len(client.losses)), ([], 1))
        self.network.release("a", to_listener=True)
        self.clock.advance(0.1)
        self.assertIsInstance(server.losses[0], NotConnected)

    def test_a_silent_direction_lets_no_connection_succeed(self) -> None:
        self.network.hold("a", to_listener=False)
        connecting = self.network.connect("a")
        self.clock.pump([0.1, 4.7])
        self.assertNoResult(connecting)
        self.network.release("a", to_listener=False)
        self.connect()
        self.assertNoResult(connecting)
        self.clock.advance(0.15)
        self.failureResultOf(connecting, TimeoutError)
        self.network.hold("a", to_listener=True)
        cancelled = self.network.connect("a").addErrback(lambda failure: None)
        self.clock.advance(0.2)
        cancelled.cancel()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_address_is_listened_on_once_at_a_time(self) -> None:
        with self.assertRaises(CannotListenError):
            self.network.listen("a", lambda channel: None)
        self.port.stop_listening()
        connecting = self.network.connect("a")
        self.clock.advance(0.1)
        self.failureResultOf(connecting, ConnectionRefusedError)
        self.network.listen("a", lambda channel: None)
        self.port.stop_listening()
        self.connect()

    def test_connecting_can_be_cancelled(self) -> None:
        connecting = self.network.connect("a")
        connecting.addErrback(lambda failure: None)
        connecting.cancel()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.accepted, [])

    def test_each_end_knows_the_other_by_name(self) -> None:
        client = self.connect()
        self.assertEqual(client.channel.peer_description, "memory:a")
        self.assertEqual(self.accepted[0].channel.peer_description, "memory:client-1")

    def test_the_bytes_pending_for_a_paused_reader_are_counted(self) -> None:
        client = self.connect()
        server = self.accepted[0].channel
        assert isinstance(server, MemoryChannel)
        server.pause()
        client.channel.send([bytes(HIGH_WATER)])
        self.clock.advance(1.0)
        self.assertEqual(server.pending_bytes, HIGH_WATER)
        self.assertEqual(client.writable, [])
        client.channel.send([b"x"])
        self.assertEqual(client.writable, [False])
        server.abort(Closed("enough"))
        self.assertEqual(server.pending_bytes, 0)


class SourceTests(SynchronousTestCase):
    """Connections from a source have an address of their own."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, 1)
        self.network.listen("a", lambda channel: None)

    def connect(self, source: str) -> ISocketChannel | None:
        connecting = self.network.connect("a", source)
        self.clock.advance(1.0)
        failed = connecting.addErrback(
            lambda failure: failure.trap(ConnectionRefusedError) and None
        )
        return self.successResultOf(failed)

    def test_a_path_is_cut_and_refused_alone(self) -> None:
        path = self.network.path("a", "b")
        channel = self.connect("b")
        assert channel is not None and channel.peer_description == "a"
        assert self.connect("c") is not None
        self.network.refuse(path)
        self.network.cut(path)
        self.clock.advance(1.0)
        self.assertEqual(self.network.connections(path), 0)
        self.assertEqual(self.network.connections(self.network.path("a", "c")), 1)
        self.assertIsNone(self.connect("b"))
        self.network.heal(path)
        self.assertIsNotNone(self.connect("b"))

    def test_all_connections_of_one_end_are_cut(self) -> None:
        for place, left in (("c", 1), ("a", 0)):
            for source in ("b", "c"):
                self.connect(source)
            self.network.cut_end(place)
            self.clock.advance(1.0)
            self.assertEqual(self.network.connections(self.network.path("a", "c")), 0)
            self.assertEqual(self.network.connections(self.network.path("a", "b")), left)

    def test_all_sources_are_refused(self) -> None:
        self.connect("b")
        self.network.refuse_sources(True)
        self.clock.advance(1.0)
        self.assertEqual(self.network.connections(self.network.path("a", "b")), 0)
        self.assertIsNone(self.connect("b"))
        self.assertIsNotNone(self.connect(""))
        self.network.refuse_sources(False)
        self.assertIsNotNone(self.connect("b"))


class BandwidthTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock, latency=0.1, bytes_per_second=1000.0)
        accepted: list[ISocketChannel] = []
        self.network.listen("a", accepted.append)
        connecting = self.network.connect("a", "b")
        self.clock.advance(0.1)
        self.client = RecordingReceiver(self.successResultOf(connecting))
        self.server = RecordingReceiver(accepted[0])

    def test_bytes_of_one_direction_follow_each_other(self) -> None:
        self.client.channel.send([bytes([1]) * 500])
        self.client.channel.send([b"x"])
        self.server.channel.send([b"y"])
        self.clock.advance(0.101)
        self.assertEqual(self.client.packets, [b"y"])
        self.clock.advance(0.498)
        self.assertEqual(self.server.packets, [])
        self.clock.advance(0.001)
        self.assertEqual(len(self.server.packets), 1)
        self.clock.advance(0.002)
        self.assertEqual(self.server.packets[1:], [b"x"])

    def test_held_bytes_need_their_time_after_the_release(self) -> None:
        path = self.network.path("a", "b")
        self.network.hold(path, to_listener=True)
        self.client.channel.send([bytes([1]) * 500])
        self.clock.advance(10.0)
        self.network.release(path, to_listener=True)
        self.client.channel.send([b"x"])
        self.clock.advance(0.599)
        self.assertEqual(self.server.packets, [])
        self.clock.advance(0.003)
        self.assertEqual(len(self.server.packets), 2)
