"""The parts of ARQ that a stack can use without the others."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from zope.interface.verify import verifyObject

from broker.errors import ConfigurationError
from broker.testing.datagram_network import DatagramFaults
from broker.transport.arq import FragmentationLayer, MacLayer, PacingLayer
from broker.transport.effects import Consumed, DeliverUp, Effect, SendDown, WritableChanged
from broker.transport.layer import ILayer, ILinkCore, ILinkLayer, Property
from broker.transport.socket import DATAGRAM_PROPERTIES
from broker.transport.stack import check_layers
from tests.seeds import seeds
from tests.transport.datagram_ends import DatagramLink, End

SECRET = MacLayer(secret=b"secret")


def fragmentation(incarnation: int = 1, **settings: float) -> FragmentationLayer:
    return FragmentationLayer(incarnation=incarnation, **settings)  # type: ignore[arg-type]


def sent(effects: Sequence[Effect]) -> list[bytes]:
    packets: list[bytes] = []
    for effect in effects:
        assert isinstance(effect, SendDown)
        packets += effect.packets
    return packets


def delivered(effects: Sequence[Effect]) -> list[bytes]:
    return [
        message
        for effect in effects
        if isinstance(effect, DeliverUp)
        for message in effect.messages
    ]


def test_each_is_a_layer_and_names_its_properties() -> None:
    for layer, more in (
        (SECRET, {Property.AUTHENTICATED}),
        (MacLayer(), set()),
        (PacingLayer(rate=1e6), set()),
        (fragmentation(), {Property.ANY_SIZE, Property.FIFO}),
    ):
        assert verifyObject(ILinkLayer, layer)
        assert verifyObject(ILinkCore, layer.create_core())
        assert check_layers([layer], DATAGRAM_PROPERTIES) == DATAGRAM_PROPERTIES | more
    assert "secret" not in repr(SECRET)


# --------------------------------------------------------------------------- mac


def test_packets_of_other_secrets_and_damaged_ones_are_dropped_and_consumed() -> None:
    one, other, stranger = SECRET.create_core(), SECRET.create_core(), MacLayer().create_core()
    genuine = sent(one.submit([b"a", b"", b"b"], 0.0))
    forged = [*sent(stranger.submit([b"c"], 0.0)), b"", b"short", genuine[0][:-1] + b"\0"]
    effects = other.receive([*genuine, *forged], 0.0)
    assert effects == [Consumed(4), DeliverUp([b"a", b"", b"b"])]
    assert other.forged == 4
    assert other.receive(forged, 0.0) == [Consumed(4)]
    assert other.receive([], 0.0) == [DeliverUp([])]


def test_every_flipped_bit_is_noticed_without_a_secret_too() -> None:
    core = MacLayer().create_core()
    (packet,) = sent(core.submit([b"some message"], 0.0))
    for place in range(len(packet) * 8):
        damaged = bytearray(packet)
        damaged[place // 8] ^= 1 << place % 8
        assert delivered(core.receive([bytes(damaged)], 0.0)) == []


# --------------------------------------------------------------------------- pacing


def test_packets_leave_in_order_at_the_rate() -> None:
    core = PacingLayer(rate=100_000.0, packet_bytes=1000).create_core()
    packets = [b"%03d" % number + bytes(997) for number in range(200)]
    left = sent(core.submit(packets, 5.0))
    now = 5.0
    while core.next_timeout() is not None:
        due = core.next_timeout()
        assert due is not None and due > now
        now = due
        left += sent(core.handle_timeout(now))
    assert left == packets
    assert 1.7 < now - 5.0 < 2.1
    assert (core.queued_bytes, core.dropped) == (0, 0)


def test_a_full_queue_stops_the_user_and_drops_more() -> None:
    core = PacingLayer(rate=10_000.0, packet_bytes=1000, queue_bytes=100_000).create_core()
    effects = core.submit([bytes(1000)] * 200, 0.0)
    assert core.dropped == 100
    assert effects[-1] == WritableChanged(False)
    writable: list[Effect] = []
    while (due := core.next_timeout()) is not None:
        writable += [e for e in core.handle_timeout(due) if isinstance(e, WritableChanged)]
    assert writable == [WritableChanged(True)]


# --------------------------------------------------------------------------- fragmentation


def test_small_messages_of_a_batch_share_a_packet_and_large_ones_are_split() -> None:
    core, other = fragmentation().create_core(), fragmentation(2).create_core()
    packets = sent(core.submit([b"%d" % number for number in range(100)], 0.0))
    assert len(packets) == 1
    large = sent(core.submit([bytes(10_000)], 0.0))
    assert len(large) == 8
    assert max(map(len, large)) == 1300
    assert len(delivered(other.receive(packets, 0.0))) == 100
    # A part of a message shows that the peer is there.
    assert other.receive(large[:3], 0.0) == [Consumed(3), DeliverUp([])]
    assert delivered(other.receive(large[3:], 0.0)) == [bytes(10_000)]
    assert other.next_timeout() is None


def test_a_lost_fragment_costs_its_messages_only_after_patience() -> None:
    core, other = fragmentation().create_core(), fragmentation(2).create_core()
    packets = [
        each
        for number in range(5)
        for each in sent(core.submit([b"%d" % number + bytes(3000)], 0.0))
    ]
    arrived = delivered(other.receive([*packets[:4], *packets[5:]], 1.0))
    assert [message[:1] for message in arrived] == [b"0"]
    assert other.next_timeout() == pytest.approx(1.05)
    arrived = delivered(other.handle_timeout(1.05))
    assert [message[:1] for message in arrived] == [b"2", b"3", b"4"]
    assert other.lost == 1
    assert delivered(other.receive([packets[4], packets[5]], 1.1)) == []
    assert other.next_timeout() is None


def test_overtaken_and_doubled_fragments_are_put_in_order() -> None:
    core, other = fragmentation().create_core(), fragmentation(2).create_core()
    messages = [b"%d" % number + bytes(2000) for number in range(20)]
    packets = sent(core.submit(messages, 0.0)) * 2
    Random(1).shuffle(packets)
    arrived: list[bytes] = []
    for packet in packets:
        arrived += delivered(other.receive([packet], 0.0))
    assert arrived == messages


def test_a_restarted_sender_begins_anew_and_its_earlier_packets_are_ignored() -> None:
    old, new, other = (fragmentation(each).create_core() for each in (1, 5, 2))
    before = sent(old.submit([b"a"], 0.0)) + sent(old.submit([b"b"], 0.0))
    after = sent(new.submit([b"c"], 0.0))
    assert delivered(other.receive([before[0], *after, before[1]], 0.0)) == [b"a", b"c"]
    assert other.stale == 1


def test_a_receiver_that_joins_late_begins_with_a_later_message() -> None:
    core = fragmentation().create_core()
    packets = [sent(core.submit([b"%d" % number], 0.0))[0] for number in range(5000)]
    other = fragmentation(2).create_core()
    arrived = delivered(other.receive(packets[4000:4010], 0.0))
    arrived += delivered(other.handle_timeout(0.05))
    assert arrived == [b"%d" % number for number in range(4000, 4010)]


def test_noise_is_counted_and_bounded() -> None:
    core = fragmentation(window=32, max_message=1000).create_core()
    random = Random(1)
    for number in range(3000):
        noise = random.randbytes(random.randrange(60))
        core.receive([bytes(8) + noise, noise], number / 1000)
        held = len(core._window.buffered()) + len(core._window.missing)
        assert held <= 64
    assert core.malformed > 500


@pytest.mark.parametrize("seed", seeds(20, 500))
def test_messages_over_a_bad_network_arrive_in_order_and_once(seed: int) -> None:
    random = Random(seed)

    def layers(incarnation: int) -> Sequence[ILayer]:
        return [SECRET, fragmentation(incarnation, patience=0.3)]

    faults = DatagramFaults(
        loss=random.choice([0.0, 0.0, 0.1]), duplication=0.2, corruption=0.0, jitter=0.2
    )
    link = DatagramLink(seed, layers, faults)
    messages = [b"%d:" % number + bytes(random.randrange(4000)) for number in range(200)]
    for message in messages:
        link.here.driver.send([message])
        link.run(lambda: False, 0.01)
    link.run(lambda: False, 2.0)
    arrived = [int(message.split(b":")[0]) for message in link.there.messages]
    assert arrived == sorted(set(arrived)), f"seed {seed}"
    assert all(messages[number] in link.there.messages for number in arrived)
    if not faults.loss:
        assert len(arrived) == 200, f"seed {seed}"
    assert len(arrived) > 50
    assert link.errors == []


def test_a_message_that_is_too_large_is_dropped_and_later_ones_arrive() -> None:
    link = DatagramLink(1, lambda incarnation: [fragmentation(incarnation, max_message=5000)])
    link.here.driver.send([bytes(6000)])
    link.run(lambda: False, 0.1)
    link.here.driver.send([b"after", b"more"])
    link.here.driver.send([bytes(4000)])
    link.run(lambda: False, 1.0)
    assert link.there.messages == [b"after", b"more", bytes(4000)]


@pytest.mark.parametrize(
    ("layer", "settings"),
    [
        (PacingLayer, {"rate": 0.0}),
        (PacingLayer, {"rate": 1.0, "queue_bytes": 0}),
        (PacingLayer, {"rate": 1.0, "packet_bytes": 1}),
        (FragmentationLayer, {"incarnation": -1}),
        (FragmentationLayer, {"incarnation": 1, "packet_bytes": 20}),
        (FragmentationLayer, {"incarnation": 1, "packet_bytes": 70_000}),
        (FragmentationLayer, {"incarnation": 1, "window": 1}),
        (FragmentationLayer, {"incarnation": 1, "patience": 0.0}),
        (FragmentationLayer, {"incarnation": 1, "max_message": 0}),
    ],
)
def test_settings_that_can_not_be_are_refused(
    layer: type[PacingLayer] | type[FragmentationLayer], settings: dict[str, float]
) -> None:
    with pytest.raises(ConfigurationError):
        layer(**settings)  # type: ignore[arg-type]


def test_layers_work_in_an_end_of_a_stack() -> None:
    link = DatagramLink(
        1,
        lambda incarnation: [PacingLayer(rate=1e5), SECRET, fragmentation(incarnation)],
    )
    stranger = End(link.clock, [MacLayer(secret=b"guess"), fragmentation(9)])
    stranger.driver.attach(link.network.share(("x", 9)).open_port("test").connect(("there", 2)))
    stranger.driver.send([b"forged"])
    link.run(lambda: False, 0.5)
    assert link.there.messages == []
