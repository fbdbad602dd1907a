from __future__ import annotations

import asyncio
import unittest
from collections.abc import Callable
from random import Random

import pytest
from twisted.internet.task import Clock

from broker.errors import BrokerError, Closed, ConfigurationError, PeerSilent
from broker.testing.datagram_contract import DatagramChannelContract
from broker.testing.datagram_network import DatagramNetwork
from broker.testing.socket_contract import RecordingReceiver
from broker.transport.arq import FragmentationLayer, MacLayer
from broker.transport.socket import IDatagramChannel
from broker.transport.socket.datagram_demultiplexer import (
    TAG_BYTES,
    DatagramDemultiplexer,
    derive_tag,
)
from broker.transport.socket.datagram_port import DatagramPort, DatagramPortSettings
from broker.transport.socket.datagram_transport import Address
from tests.transport.datagram_ends import End

HERE, THERE, GROUP = ("here", 1), ("there", 2), ("group", 0)


class MemoryDatagramChannelTests(unittest.IsolatedAsyncioTestCase, DatagramChannelContract):
    async def make_pair(self) -> tuple[IDatagramChannel, IDatagramChannel]:
        self.clock = Clock()
        network = DatagramNetwork(self.clock, seed=1)
        here, there = (network.share(each).open_port("radar") for each in (HERE, THERE))
        return here.connect(THERE), there.connect(HERE)

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(10_000):
            if condition():
                return
            self.clock.advance(0.001)
            await asyncio.sleep(0)
        raise AssertionError("it does not come about")


class Listener:
    """One end that accepts strangers."""

    def __init__(
        self,
        users: DatagramDemultiplexer,
        name: str = "radar",
        strangers: int = 64,
        is_genuine: Callable[[bytes], bool] = bool,
    ) -> None:
        self.accepted: dict[Address, RecordingReceiver] = {}
        settings = DatagramPortSettings(
            strangers=strangers, stranger_silence=10.0, is_genuine=is_genuine
        )
        self.port = users.open_port(name, self._accept, settings)

    def _accept(self, channel: IDatagramChannel, address: Address) -> None:
        self.accepted[address] = RecordingReceiver(channel)

    def packets(self, address: Address) -> list[bytes]:
        return self.accepted[address].packets if address in self.accepted else []


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.network = DatagramNetwork(self.clock, seed=1)

    def run(self, seconds: float = 0.1) -> None:
        for _ in range(round(seconds * 100)):
            self.clock.advance(0.01)

    def dialled(self, number: int, name: str = "radar") -> tuple[DatagramPort, IDatagramChannel]:
        port = self.network.share(("peer", number)).open_port(name)
        return port, port.connect(THERE)


def test_one_port_serves_many_peers_by_address() -> None:
    world = World()
    listener = Listener(world.network.share(THERE))
    answers = []
    for number in range(5):
        _, channel = world.dialled(number)
        answers.append(RecordingReceiver(channel))
        channel.send([b"from %d" % number, b"more"])
    world.run()
    for number in range(5):
        assert listener.packets(("peer", number)) == [b"from %d" % number, b"more"]
        listener.accepted["peer", number].channel.send([b"to %d" % number])
    world.run()
    assert [each.packets for each in answers] == [[b"to %d" % number] for number in range(5)]


def test_strangers_beyond_the_bound_are_refused_until_one_is_silent() -> None:
    world = World()
    listener = Listener(world.network.share(THERE), strangers=2)
    channels = [world.dialled(number)[1] for number in range(3)]
    for channel in channels:
        channel.send([b"a"])
        world.run()
    assert set(listener.accepted) == {("peer", 0), ("peer", 1)}
    assert listener.port.counts.refused == 1
    world.run(8.0)
    channels[0].send([b"b"])
    world.run(2.5)
    channels[2].send([b"c"])
    world.run()
    assert set(listener.accepted) == {("peer", 0), ("peer", 1), ("peer", 2)}
    silent, heard = listener.accepted["peer", 1], listener.accepted["peer", 0]
    assert [type(error) for error in silent.losses] == [PeerSilent]
    assert heard.losses == []
    assert listener.packets(("peer", 2)) == [b"c"]


def test_strangers_without_a_genuine_packet_take_no_place() -> None:
    world = World()
    listener = Listener(
        world.network.share(THERE), strangers=2, is_genuine=lambda packet: packet[:1] == b"g"
    )
    for number in range(100):
        world.dialled(number)[1].send([b"forged", b"a guess"])
    world.run()
    assert not listener.accepted
    assert (listener.port.counts.forged, listener.port.counts.refused) == (200, 0)
    _, member = world.dialled(200)
    member.send([b"forged", b"genuine"])
    world.run()
    assert listener.packets(("peer", 200)) == [b"genuine"]
    # A known address is no stranger's: the layers check its packets.
    member.send([b"later"])
    world.run()
    assert listener.packets(("peer", 200)) == [b"genuine", b"later"]


def test_dialled_peers_are_never_replaced_and_a_port_may_refuse_all_strangers() -> None:
    world = World()
    here = world.network.share(HERE).open_port("radar")
    receiver = RecordingReceiver(here.connect(THERE))
    there = world.network.share(THERE).open_port("radar").connect(HERE)
    _, stranger = world.dialled(9)
    world.run(60.0)
    there.send([b"a"])
    world.network.share(("spoofed", 1)).open_port("radar").connect(HERE).send([b"b"])
    stranger.send([b"c"])
    world.run()
    assert receiver.packets == [b"a"]
    assert here.counts.refused == 1


def test_a_second_channel_to_an_address_ends_the_first() -> None:
    world = World()
    listener = Listener(world.network.share(THERE))
    port, first = world.dialled(1)
    earlier = RecordingReceiver(first)
    later = RecordingReceiver(port.connect(THERE))
    later.channel.send([b"a"])
    world.run()
    assert [type(error) for error in earlier.losses] == [Closed]
    listener.accepted["peer", 1].channel.send([b"b"])
    world.run()
    assert (earlier.packets, later.packets) == ([], [b"b"])


def test_stacks_share_a_socket_and_connections_take_the_rest() -> None:
    world = World()
    users = world.network.share(THERE)
    untagged: list[bytes] = []
    users.set_untagged_user(lambda batch: untagged.extend(datagram for datagram, _ in batch))
    radar, sonar = Listener(users, "radar"), Listener(users, "sonar")
    other_end = world.network.share(HERE)
    for name in ("radar", "sonar", "other"):
        other_end.open_port(name).connect(THERE).send([name.encode()])
    wire = world.network.bind(("plain", 1), lambda batch: None)
    wire.send([b"\x01connection", b"\x7f", b"", b"\xff", derive_tag("radar")], THERE)
    world.run()
    assert radar.packets(HERE) == [b"radar"]
    assert sonar.packets(HERE) == [b"sonar"]
    assert untagged == [b"\x01connection", b"\x7f", b""]
    # The tag of no stack, and less than a tag.
    assert users.unknown == 2
    assert radar.port.counts.malformed == 1


def test_a_lone_untagged_user_gets_each_read_as_it_came() -> None:
    world = World()
    users = world.network.share(THERE)
    batches: list[object] = []
    users.set_untagged_user(batches.append)
    batch = [(b"\x01", HERE), (b"\xff", HERE)]
    users.datagrams_received(batch)
    assert batches[0] is batch
    port = users.open_port("radar")
    users.datagrams_received(batch)
    assert batches[1:] == [[(b"\x01", HERE)]]
    port.stop()
    users.datagrams_received(batch)
    assert batches[2] is batch


def test_a_name_is_used_once_and_again_after_its_port_has_stopped() -> None:
    users = World().network.share(HERE)
    port = users.open_port("radar")
    with pytest.raises(ConfigurationError, match="radar"):
        users.open_port("radar")
    port.stop()
    users.open_port("radar")


def test_tags_never_collide_with_connections_groups_and_discovery() -> None:
    tags = {derive_tag(f"stack {number}") for number in range(1000)}
    assert len(tags) == 1000
    assert all(len(tag) == TAG_BYTES and tag[0] >= 0x80 for tag in tags)


def test_stopping_a_port_ends_its_channels_and_leaves_no_timer() -> None:
    world = World()
    users = world.network.share(THERE)
    listener = Listener(users)
    _, channel = world.dialled(1)
    channel.send([b"a"])
    world.run()
    users.stop()
    channel.send([b"late"])
    world.run()
    accepted = listener.accepted["peer", 1]
    assert [type(error) for error in accepted.losses] == [Closed]
    assert accepted.packets == [b"a"]
    assert world.clock.getDelayedCalls() == []
    with pytest.raises(Closed):
        listener.port.connect(HERE)
    with pytest.raises(Closed):
        listener.port.send_to_group([b"a"])


def test_a_faulty_receiver_ends_its_own_channel_only() -> None:
    world = World()
    users = world.network.share(THERE)
    losses: list[BrokerError | None] = []

    class Faulty(RecordingReceiver):
        def packets_received(self, packets: object) -> None:
            raise RuntimeError("a bug")

        def channel_lost(self, error: BrokerError | None) -> None:
            losses.append(error)

    def accept(channel: IDatagramChannel, address: Address) -> None:
        if address == ("peer", 1):
            good[address] = RecordingReceiver(channel)
            raise RuntimeError("a bug")
        good[address] = (Faulty if address == ("peer", 2) else RecordingReceiver)(channel)

    good: dict[Address, RecordingReceiver] = {}
    users.open_port("radar", accept)
    for number in (1, 2, 3):
        world.dialled(number)[1].send([b"a"])
    world.run()
    assert good["peer", 3].packets == [b"a"]
    assert good["peer", 1].packets == []
    assert [type(error) for error in losses + good["peer", 1].losses] == [Closed, Closed]


def test_noise_is_counted_and_makes_at_most_the_bounded_channels() -> None:
    world = World()
    users = world.network.share(THERE)
    listener = Listener(users, strangers=8)
    random = Random(1)
    for number in range(2000):
        prefix = random.choice([b"", derive_tag("radar")])
        noise = prefix + random.randbytes(random.randrange(50))
        users.datagrams_received([(noise, ("noise", number % 500))])
    assert len(listener.accepted) == len(listener.port._channels) == 8
    delivered = sum(len(each.packets) for each in listener.accepted.values())
    counts = listener.port.counts
    assert delivered + counts.refused + counts.malformed + users.unknown == 2000


def test_a_group_sends_once_to_all_and_members_answer_one() -> None:
    world = World()
    members = [Listener(world.network.share(("m", number), GROUP)) for number in range(3)]
    members[0].port.send_to_group([b"one", b"two"])
    world.run()
    assert members[0].accepted == {}
    for member in members[1:]:
        assert sorted(member.packets(("m", 0))) == [b"one", b"two"]
    members[2].accepted["m", 0].channel.send([b"answer"])
    world.run()
    assert members[0].packets(("m", 2)) == [b"answer"]
    assert ("m", 2) not in members[1].accepted
    with pytest.raises(ValueError, match="at most"):
        members[0].port.send_to_group([bytes(2000)])


def test_a_channel_to_the_group_carries_a_stack_and_ends_with_the_port() -> None:
    world = World()
    members = [Listener(world.network.share(("m", number), GROUP)) for number in range(3)]
    channel = RecordingReceiver(members[0].port.connect_group())
    sending = End(world.clock, [MacLayer(secret=b"s"), FragmentationLayer(incarnation=1)])
    sending.driver.attach(members[0].port.connect_group())
    receiving = []
    for member in members[1:]:
        end = End(world.clock, [MacLayer(secret=b"s"), FragmentationLayer(incarnation=2)])
        end.driver.attach(member.port.connect(("m", 0)))
        receiving.append(end)
    messages = [b"small", bytes(20_000), b"last"]
    sending.driver.send(messages)
    channel.channel.send([b"raw"])
    world.run()
    assert [end.messages for end in receiving] == [messages, messages]
    assert (channel.packets, channel.losses) == ([], [])
    members[0].port.stop()
    world.run()
    assert [type(error) for error in channel.losses] == [Closed]
    assert not sending.driver.is_attached
    with pytest.raises(Closed):
        members[0].port.connect_group()


def test_a_port_without_a_group_has_no_channel_to_one() -> None:
    with pytest.raises(Closed):
        World().network.share(HERE).open_port("radar").connect_group()
