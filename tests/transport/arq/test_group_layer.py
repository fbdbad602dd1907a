"""Error correction in a group as a layer, over raw datagrams in virtual time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random

import pytest
from twisted.internet.task import Clock
from zope.interface import implementer
from zope.interface.verify import verifyObject

from broker.errors import ConfigurationError, StackError
from broker.testing.datagram_network import DatagramFaults, DatagramNetwork
from broker.transport.arq import GroupLayer
from broker.transport.arq.group_layer import GROUP
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.layer import ILayer, ILayerCore, Property
from broker.transport.message import Message, Outcome, Peer
from broker.transport.p2p import P2PLayer
from broker.transport.socket import DATAGRAM_PROPERTIES, IDatagramChannel
from broker.transport.socket.datagram_transport import Address
from broker.transport.stack import check_layers
from broker.transport.view import LinkState, View
from tests.seeds import seeds

ADDRESS = ("239.0.0.1", 7003)
FAULTS = DatagramFaults(loss=0.2, duplication=0.1, corruption=0.05, delay=0.005, jitter=0.02)
LASTING = GroupSettings(patience=60.0, liveness=60.0, datagram_bytes=400, rate=1e6)


@implementer(IStackReceiver)
class Member:
    """A member of the group, which accepts strangers."""

    def __init__(
        self, clock: Clock, network: DatagramNetwork, name: str, layer: GroupLayer
    ) -> None:
        self.messages: dict[Peer, list[bytes]] = defaultdict(list)
        self.views: dict[Peer, list[View]] = defaultdict(list)
        self.writable: list[tuple[Peer, bool]] = []
        self.address = (name, 1)
        self.driver = StackDriver(
            *([layer], clock, self, DATAGRAM_PROPERTIES),
        )
        port = network.share(self.address, ADDRESS).open_port("test", self._accept)
        self.driver.join(GROUP).attach(port.connect_group())

    def _accept(self, channel: IDatagramChannel, address: Address) -> None:
        self.driver.join(address).attach(channel)
        channel.resume()

    def send(self, payloads: Sequence[bytes]) -> set[Outcome]:
        messages = [Message(each, destinations=(GROUP,)) for each in payloads]
        self.driver.send(messages)
        return {each.outcomes[GROUP] for each in messages}

    def messages_received(self, peer: Peer, messages: Sequence[bytes]) -> None:
        self.messages[peer] += messages
        self.driver.consumed(peer, len(messages))

    def view_changed(self, peer: Peer, view: View) -> None:
        self.views[peer].append(view)

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        self.writable.append((peer, writable))


class Group:
    def __init__(self, seed: int, names: str, settings: GroupSettings, secrets: str = "") -> None:
        self.clock = Clock()
        self.clock.advance(1000.0)
        self.network = DatagramNetwork(self.clock, seed)
        self.all = [
            Member(
                *(self.clock, self.network, name),
                GroupLayer(
                    member=name,
                    settings=settings,
                    secret=secret.strip().encode(),
                    random=Random(f"{seed} {name}"),
                ),
            )
            for name, secret in zip(names, secrets or " " * len(names), strict=True)
        ]

    def run(self, seconds: float) -> None:
        end = self.clock.seconds() + seconds
        while (now := self.clock.seconds()) < end:
            due = [each.getTime() for each in self.clock.getDelayedCalls()]
            self.clock.advance(max(0.0, min([end, *due]) - now))


@pytest.mark.parametrize("seed", seeds(4, 100))
def test_each_member_receives_each_other_once_and_in_order(seed: int) -> None:
    random = Random(seed)
    group = Group(seed, "abc", LASTING)
    group.run(2.0)
    group.network.faults = FAULTS
    sent = {
        each.address: [random.randbytes(random.choice([1, 40, 3000])) for _ in range(60)]
        for each in group.all
    }
    for start in range(0, 60, 10):
        for each in group.all:
            assert each.send(sent[each.address][start : start + 10]) == {Outcome.SENT}
        group.run(0.05)
    group.run(20.0)
    for each in group.all:
        others = {address: all for address, all in sent.items() if address != each.address}
        assert each.messages == others
        assert each.views == dict.fromkeys(others, [View(LinkState.CONNECTED)])


def test_a_message_leaves_once_for_all_members() -> None:
    group = Group(1, "abcdef", GroupSettings(datagram_bytes=1300))
    group.run(2.0)
    to_group: list[tuple[bytes, Address]] = []

    def record(datagram: bytes, source: Address, target: Address) -> bool:
        if b"once" in datagram:
            to_group.append((datagram, target))
        return True

    group.network.filter = record
    group.all[0].send([b"once"])
    group.run(1.0)
    # One datagram, which the network copies.
    assert len({datagram for datagram, _ in to_group}) == 1
    assert len(to_group) == 5


def test_lost_messages_and_the_end_of_a_member_are_reported() -> None:
    settings = GroupSettings(history_bytes=2000, patience=0.3, datagram_bytes=400, rate=1e6)
    group = Group(1, "ab", settings)
    here, there = group.all
    group.run(2.0)
    group.network.cut(here.address, there.address)
    here.send([b"%d" % number + bytes(300) for number in range(30)])
    group.run(0.5)
    group.network.heal()
    here.send([b"last"])
    group.run(3.0)
    received = there.messages[here.address]
    assert received[-1] == b"last" and len(received) < 31
    lost = View(LinkState.CONNECTED, resumed=False)
    assert there.views[here.address] == [lost, lost]
    group.network.cut(here.address, there.address)
    group.run(6.0)
    assert there.views[here.address][-1] == View(LinkState.DISCONNECTED)


def test_a_member_returns_with_another_address() -> None:
    settings = GroupSettings(datagram_bytes=400)
    group = Group(1, "ab", settings)
    _, there = group.all
    group.run(2.0)
    layer = GroupLayer(member="a", settings=settings, random=Random(7))
    other = Member(group.clock, group.network, "other host", layer)
    group.run(2.0)
    other.send([b"from there"])
    group.run(1.0)
    assert there.messages[other.address] == [b"from there"]


def test_members_with_another_secret_and_other_destinations_get_nothing() -> None:
    group = Group(1, "abc", GroupSettings(datagram_bytes=400), "xxy")
    group.run(2.0)
    one, other, stranger = group.all
    assert one.send([b"secret"]) == {Outcome.SENT}
    group.run(1.0)
    assert other.messages == {one.address: [b"secret"]}
    assert stranger.messages == {} and stranger.views == {}
    message = Message(b"alone", destinations=(other.address,))
    one.driver.send([message])
    group.run(1.0)
    assert message.outcomes == {other.address: Outcome.ABSENT}
    assert other.messages == {one.address: [b"secret"]}


def test_a_full_group_stops_the_user_and_refuses_more() -> None:
    settings = GroupSettings(datagram_bytes=400, rate=10_000.0, send_buffer_bytes=10_000)
    group = Group(1, "ab", settings)
    group.run(2.0)
    here = group.all[0]
    outcomes = [here.send([bytes(1000)]) for _ in range(40)]
    assert outcomes[0] == {Outcome.SENT} and outcomes[-1] == {Outcome.FULL}
    assert here.writable == [(GROUP, False)]
    group.run(10.0)
    assert here.writable == [(GROUP, False), (GROUP, True)]
    assert len(group.all[1].messages[here.address]) == outcomes.count({Outcome.SENT})


def test_a_removed_peer_is_forgotten() -> None:
    group = Group(1, "ab", GroupSettings(datagram_bytes=400))
    here, there = group.all
    group.run(2.0)
    there.driver.remove(here.address, StackError("removed"))
    here.send([b"unheard"])
    group.run(1.0)
    assert there.messages == {}


def test_it_is_a_layer_and_names_its_properties() -> None:
    layer = GroupLayer(member="a", secret=b"secret")
    assert verifyObject(ILayer, layer)
    assert verifyObject(ILayerCore, layer.create_core())
    provided = check_layers([layer], DATAGRAM_PROPERTIES)
    assert provided >= {Property.ONE_TO_MANY, Property.SENDER_ORDER, Property.AUTHENTICATED}
    assert Property.AUTHENTICATED not in GroupLayer(member="a").provides
    assert "secret" not in repr(layer)
    with pytest.raises(ConfigurationError):
        GroupLayer(member="")
    with pytest.raises(StackError):
        check_layers([layer, P2PLayer(incarnation=1)], DATAGRAM_PROPERTIES)
