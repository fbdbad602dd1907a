"""A malicious site of a group: the guarantees hold for the events of all other sites."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import attrs
import msgspec
import pytest

from broker.config.stacks import Plugins, StackInstance
from broker.log.logged_event import LoggedEvent
from broker.streams.contract import CarriedEvent, IStreamTransport, ITransportContext
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import name_of
from broker.testing.transport_network import CARRIED, INSTANCE, TransportNetwork
from broker.testing.wrapped_transport import Wrapped
from broker.transport.order.wire import PackedClock, PackedMessages
from plugins.rcm.options import RcmOptions
from plugins.rcm.payload import Payload, decode_payload, encode_payload
from plugins.rcm.plugin import rcm_transport
from plugins.rcm.stack import rcm_links
from tests.seeds import seeds
from tests.simulation.network.adversary import Attack, change_document
from tests.simulation.network.attacked_network import AttackedNetwork
from tests.simulation.network.rcm_group import address_of
from tests.simulation.network.transport_adversary import attacked

SITES = ("n0", "n1", "n2", "n3")
#: In the order `sequencer` n0 numbers the messages.
SEQUENCER, MALICIOUS = SITES[:2]

_decoder = msgspec.msgpack.Decoder(PackedMessages | PackedClock)
#: First bytes of packets; kind of the sequencer's packet `Numbers`.
_ARRAYS, _NUMBERS = frozenset(bytes([0x90 | each]) for each in range(16)), 22
_encode = msgspec.msgpack.Encoder().encode


@attrs.define
class GroupAttack(Attack):
    """Changes of the packets of one site's order."""

    is_active: bool = False

    def alter_message(self, data: bytes, peer: Hashable) -> Sequence[bytes]:
        if not self.is_active:
            return [data]
        try:
            packet = _decoder.decode(data)
        except msgspec.MsgspecError:
            return [data]
        altered = self.alter_packet(packet, peer)
        self.count += [_encode(each) for each in altered] != [data]
        return [_encode(each) for each in altered]

    def alter_packet(self, packet: Any, peer: Hashable) -> Sequence[Any]:
        """Return the packets that are sent to a site in place of one."""
        return [packet]

    def replace_payloads(self, packet: Any, change: Callable[[Payload], Payload]) -> list[Any]:
        if not isinstance(packet, PackedMessages):
            return [packet]
        found = [decode_payload(each) for each in packet.payloads]
        changed = [change(each) if isinstance(each, Payload) else each for each in found]
        payloads = tuple(map(encode_payload, changed))
        return [msgspec.structs.replace(packet, payloads=payloads)]


class WrongSignatures(GroupAttack):
    """Sends other documents than it has signed."""

    def alter_packet(self, packet: Any, peer: Hashable) -> Sequence[Any]:
        return self.replace_payloads(packet, _forge)


def _forge(payload: Payload) -> Payload:
    events = [e._replace(document=change_document(e.document)) for e in payload.events]
    return attrs.evolve(payload, events=events)


@attrs.define
class Replays(GroupAttack):
    """Sends earlier packets again."""

    recorded: list[Any] = attrs.field(factory=list)

    def alter_packet(self, packet: Any, peer: Hashable) -> Sequence[Any]:
        self.recorded.append(packet)
        return [packet, *self.random.choices(self.recorded[-50:], k=2)]


class Drops(GroupAttack):
    """Drops half of its packets."""

    def alter_packet(self, packet: Any, peer: Hashable) -> Sequence[Any]:
        return [packet] if self.random.random() < 0.5 else []


class Silence(GroupAttack):
    """Drops all packets of its order; its links stay."""

    def alter_packet(self, packet: Any, peer: Hashable) -> Sequence[Any]:
        return []


class Stamps(GroupAttack):
    """Names another place in the order to each site."""

    def alter_packet(self, packet: Any, peer: Hashable) -> Sequence[Any]:
        if isinstance(packet, PackedMessages) and packet.stamps:
            first, *others = packet.stamps
            stamps = (first + self.random.randrange(1000), *others)
            return [msgspec.structs.replace(packet, stamps=stamps)]
        return [packet]


@attrs.define
class Numbers(GroupAttack):
    """As a sequencer, gives numbers to some sites only, each site others, and some far ahead."""

    far: int = 1_000_000

    def alter_message(self, data: bytes, peer: Hashable) -> Sequence[bytes]:
        if not self.is_active or data[:1] not in _ARRAYS:
            return [data]
        packet = msgspec.msgpack.decode(data)
        if packet[0] != _NUMBERS:
            return [data]
        self.count += 1
        packet[2] += self.random.choice((0, 1, 2, self.far))
        return [_encode(packet)] if self.random.random() < 0.7 else []


class SomeNumbers(Numbers):
    """As a sequencer, drops some numbers, and changes others a little."""

    far = 3


@attrs.define
class ClaimedLog(GroupAttack):
    """Names another site's log as its own, and a range of it of which it withholds events."""

    seen: list[LoggedEvent] = attrs.field(factory=list)
    """Events of that log."""

    def alter_packet(self, packet: Any, peer: Hashable) -> Sequence[Any]:
        return self.replace_payloads(packet, self._claim) if self.seen else [packet]

    def _claim(self, payload: Payload) -> Payload:
        event = self.seen[-1]
        epoch, offset = event.mark
        carried = CarriedEvent(event.mark, event.record, event.document, event.level)
        after, upto = (epoch, offset - 1), (epoch, offset + 3)
        return attrs.evolve(payload, after=after, upto=upto, events=[carried])


def with_origin(plugins: Plugins, node: str, find_origin: Callable[[], str]) -> Plugins:
    """Return plug-ins whose instance in one node names another log as its own."""
    plugin, links = plugins

    def create(context: ITransportContext) -> IStreamTransport:
        if context.node == node:
            context = Wrapped(context, origin=find_origin())  # type: ignore[arg-type,assignment]
        return plugin.create(context)

    return Wrapped(plugin, create=create), links  # type: ignore[return-value]


@contextmanager
def attacked_group(
    seed: int, kind: type[GroupAttack], order: str, malicious: str = MALICIOUS
) -> Iterator[tuple[AttackedNetwork, TransportNetwork]]:
    with deterministic(seed), NetworkWorld(seed) as world:
        attack = kind(Random(seed))
        honest = [each for each in SITES if each != malicious]
        owner = honest[0]
        plugins = attacked((rcm_transport, rcm_links), malicious, attack)
        if isinstance(attack, ClaimedLog):
            plugins = with_origin(plugins, malicious, lambda: world[owner].event_log.origin)
        options = RcmOptions(sites={each: address_of(each) for each in SITES}, order=order)
        stack = StackInstance(INSTANCE, use="rcm", options=options)
        transports = TransportNetwork(world, plugins, lambda _: stack)
        for name in SITES:
            world.add(name, "one", start=False, join=world.names[:2], verify="always")
            transports.set_carried(name, True)
            world.start(name)
        world.run(6.0)
        network = AttackedNetwork(world, malicious, attack, honest, honest[:2], CARRIED)
        if isinstance(attack, ClaimedLog):
            record_events(world, attack, owner, malicious)
        attack.is_active = True
        yield network, transports


def record_events(
    world: NetworkWorld, attack: ClaimedLog, owner: str, reader: str = MALICIOUS
) -> None:
    """Let the adversary have the events of a log that a node has."""
    ingest: Any = world.network_of(reader).driver.relay_ingest
    committed, origin = ingest._on_committed, world[owner].event_log.origin

    def record(events: list[LoggedEvent], matches: Sequence[tuple[int, ...]]) -> None:
        attack.seen += [each for each in events if each.origin.startswith(origin)]
        committed(events, matches)

    ingest._on_committed = record


KINDS = (WrongSignatures, Replays, Drops, Silence, Stamps, ClaimedLog)
OF_MESSAGES = (WrongSignatures, Replays, Drops, Silence)
#: Order, malicious site and attack. A sequencer's messages have no stamps.
CASES = [
    *((order, MALICIOUS, kind) for order in ("logical", "real-time", "hybrid") for kind in KINDS),
    *(("sequencer", MALICIOUS, kind) for kind in (*OF_MESSAGES, ClaimedLog)),
    *(("sequencer", SEQUENCER, kind) for kind in (*OF_MESSAGES, Numbers, SomeNumbers)),
]


@pytest.mark.parametrize(("order", "malicious", "kind"), CASES)
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_other_sites_have_the_guarantees(
    seed: int, order: str, malicious: str, kind: type[GroupAttack]
) -> None:
    with attacked_group(seed, kind, order, malicious) as (network, transports):
        network.publish()
        network.check()
        senders = network.rejected_senders()
        assert senders <= {malicious}
        if kind is WrongSignatures:
            assert senders == {malicious}
        if kind is ClaimedLog:
            for name in network.victims:
                peers = {each["site"]: each for each in transports.state_of(name)["peers"]}
                assert peers[malicious]["status"] == "disconnected"
        if kind is not Numbers:
            # Events of honest sites have one order, whatever the malicious one says.
            orders = [[name_of(each) for each in reader.events] for reader in network.readers]
            assert orders[0] == orders[1] == orders[2]
        transports.check_states(network.victims)


@pytest.mark.parametrize("must_sign", [False, True])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_site_can_not_name_a_log_of_another_cluster_as_its_own(
    seed: int, must_sign: bool
) -> None:
    """No map names the owner of the log at the other sites."""
    with deterministic(seed), NetworkWorld(seed) as world:
        attack = ClaimedLog(Random(seed))
        plugins = attacked((rcm_transport, rcm_links), MALICIOUS, attack)
        plugins = with_origin(plugins, MALICIOUS, lambda: world["n3"].event_log.origin)
        options = RcmOptions(sites={each: address_of(each) for each in SITES})
        stack = StackInstance(INSTANCE, use="rcm", options=options)
        transports = TransportNetwork(world, plugins, lambda _: stack)
        for name, cluster, known in (
            ("n0", "one", {}),
            ("n3", "two", {"gateways": ["n0"]}),
            ("n1", "two", {"join": ["n3"]}),
            ("n2", "one", {"join": ["n0"]}),
        ):
            signing = {"verify": "always", "require_signatures": must_sign}
            world.add(name, cluster, start=False, **known, **signing)  # type: ignore[arg-type]
            transports.set_carried(name, True)
            world.start(name)
        world.run(6.0)
        network = AttackedNetwork(
            *(world, MALICIOUS, attack, ("n0", "n2", "n3"), ("n0", "n3"), CARRIED)
        )
        record_events(world, attack, "n3", "n2")
        attack.is_active = True
        network.publish()
        network.check()
