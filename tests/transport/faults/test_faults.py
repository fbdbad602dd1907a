from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from broker.errors import ConfigurationError
from broker.transport.effects import DeliverUp, Effect, SendDown, ViewChanged
from broker.transport.faults import (
    CorruptLayer,
    DelayLayer,
    Direction,
    DiscardLayer,
    DuplicateLayer,
    PartitionLayer,
    ShuffleLayer,
    ThrottleLayer,
)
from broker.transport.layer import ILinkCore, ILinkLayer, Property
from broker.transport.view import LinkState, View

PACKETS = [b"packet %d" % number for number in range(1000)]

Make = Callable[..., ILinkLayer]

ALL: dict[str, Callable[..., ILinkLayer]] = {
    "corrupt": lambda **more: CorruptLayer(seed=1, rate=0.5, **more),
    "delay": lambda **more: DelayLayer(seed=1, minimum=0.1, maximum=0.9, **more),
    "discard": lambda **more: DiscardLayer(seed=1, rate=0.5, **more),
    "duplicate": lambda **more: DuplicateLayer(seed=1, rate=0.5, **more),
    "partition": lambda **more: PartitionLayer(schedule=[(0.0, 1.0)], **more),
    "shuffle": lambda **more: ShuffleLayer(seed=1, rate=0.5, **more),
    "throttle": lambda **more: ThrottleLayer(bytes_per_second=1000, queue_bytes=5000, **more),
}


def down(effects: Sequence[Effect]) -> list[bytes]:
    return [p for effect in effects if isinstance(effect, SendDown) for p in effect.packets]


def up(effects: Sequence[Effect]) -> list[bytes]:
    return [p for effect in effects if isinstance(effect, DeliverUp) for p in effect.messages]


def through(core: ILinkCore, packets: Sequence[bytes], step: int = 10) -> list[bytes]:
    """Submit packets at time 0, a few at a time; return those sent down."""
    out: list[bytes] = []
    for place in range(0, len(packets), step):
        out += down(core.submit(packets[place : place + step], 0.0))
    return out + drain(core)


def drain(core: ILinkCore) -> list[bytes]:
    out: list[bytes] = []
    while (due := core.next_timeout()) is not None:
        out += down(core.handle_timeout(due))
    return out


@pytest.mark.parametrize("name", ALL)
def test_each_fault_is_a_layer_with_a_name(name: str) -> None:
    layer = ALL[name]()
    assert verifyObject(ILinkLayer, layer)
    assert verifyObject(ILinkCore, layer.create_core())
    assert layer.name == name
    assert layer.requires == layer.provides == frozenset()


@pytest.mark.parametrize("name", ALL)
def test_a_seed_always_does_the_same(name: str) -> None:
    layer = ALL[name]()
    assert through(layer.create_core(), PACKETS) == through(layer.create_core(), PACKETS)


@pytest.mark.parametrize("name", sorted(set(ALL) - {"delay"}))
def test_a_fault_acts_on_packets_both_ways_by_default(name: str) -> None:
    def changed(**more: Any) -> tuple[bool, bool]:
        core = ALL[name](**more).create_core()
        sent = down(core.submit(PACKETS, 0.0))
        received = up(core.receive(PACKETS, 0.0))
        return sent != PACKETS, received != PACKETS

    assert changed() == (True, True)
    assert changed(direction=Direction.DOWN) == (True, False)
    assert changed(direction=Direction.UP) == (False, True)


@pytest.mark.parametrize("name", ALL)
def test_views_and_credit_pass_untouched(name: str) -> None:
    core = ALL[name]().create_core()
    for state in LinkState:
        view = View(state)
        assert core.view_changed(view, 0.0) == [ViewChanged(view)]
    (effect,) = core.consumed(3, 0.0)
    assert getattr(effect, "count", None) == 3


@pytest.mark.parametrize("name", ["delay", "shuffle", "throttle"])
def test_held_packets_are_lost_with_the_connection(name: str) -> None:
    core = ALL[name]().create_core()
    core.submit(PACKETS[:20], 0.0)
    core.receive(PACKETS[:20], 0.0)
    assert core.next_timeout() is not None
    core.view_changed(View(LinkState.SUSPECTED), 0.0)
    assert core.next_timeout() is not None
    core.view_changed(View(LinkState.DISCONNECTED), 0.0)
    assert core.next_timeout() is None


def test_discard_drops_packets_at_its_rate_and_counts_them() -> None:
    core = DiscardLayer(seed=5, rate=0.2).create_core()
    kept = through(core, PACKETS)
    assert kept == [packet for packet in PACKETS if packet in set(kept)]
    assert 150 < core.discarded < 250
    assert len(kept) + core.discarded == len(PACKETS)


def test_discard_can_drop_all_and_none() -> None:
    assert through(DiscardLayer(seed=5, rate=1.0).create_core(), PACKETS) == []
    assert through(DiscardLayer(seed=5, rate=0.0).create_core(), PACKETS) == PACKETS


def test_duplicate_repeats_packets_behind_themselves() -> None:
    core = DuplicateLayer(seed=5, rate=0.2).create_core()
    out = through(core, PACKETS)
    assert list(dict.fromkeys(out)) == PACKETS
    assert out == sorted(out, key=PACKETS.index)
    assert 150 < len(out) - len(PACKETS) == core.duplicated < 250


def test_corrupt_flips_one_bit_or_cuts_the_end_off() -> None:
    core = CorruptLayer(seed=5, rate=0.2).create_core()
    out = through(core, PACKETS)
    assert len(out) == len(PACKETS)
    cut = flipped = 0
    for before, after in zip(PACKETS, out, strict=True):
        assert after
        if len(after) < len(before):
            assert before.startswith(after)
            cut += 1
        elif after != before:
            bits = int.from_bytes(before, "big") ^ int.from_bytes(after, "big")
            assert bits.bit_count() == 1
            flipped += 1
    assert cut + flipped == core.corrupted
    assert 150 < core.corrupted < 250
    assert 0 < cut < flipped


def test_partition_follows_its_schedule() -> None:
    core = PartitionLayer(schedule=[(1.0, 2.0), (3.0, 3.5)]).create_core()
    passed = [now / 4 for now in range(18) if core.submit([b"x"], now / 4)]
    assert passed == [0.0, 0.25, 0.5, 0.75, 2.0, 2.25, 2.5, 2.75, 3.5, 3.75, 4.0, 4.25]
    assert core.receive([b"x"], 1.5) == []
    assert core.discarded == 7


def test_partition_repeats_its_whole_schedule() -> None:
    core = PartitionLayer(schedule=[(1.0, 2.0), (3.0, 3.5)], every=4.0).create_core()
    passed = [now / 2 for now in range(22) if core.submit([b"x"], now / 2)]
    assert passed == [0.0, 0.5, 2.0, 2.5, 3.5, 4.0, 4.5, 6.0, 6.5, 7.5, 8.0, 8.5, 10.0, 10.5]


def test_delay_keeps_packets_in_order_for_a_time_within_its_bounds() -> None:
    core = DelayLayer(seed=5, minimum=0.1, maximum=0.3).create_core()
    out: list[bytes] = []
    times: list[float] = []
    for number, packet in enumerate(PACKETS):
        now = number / 100
        while (due := core.next_timeout()) is not None and due <= now:
            released = down(core.handle_timeout(due))
            out += released
            times += [due] * len(released)
        assert down(core.submit([packet], now)) == []
    assert out == PACKETS[: len(out)]
    delays = [time - number / 100 for number, time in enumerate(times)]
    assert 0.1 <= min(delays) <= max(delays) <= 0.3
    assert out + drain(core) == PACKETS


def test_a_full_delay_lets_the_oldest_go_early() -> None:
    core = DelayLayer(seed=5, minimum=10.0, maximum=10.0, capacity=3).create_core()
    assert down(core.submit(PACKETS[:5], 0.0)) == PACKETS[:2]
    assert down(core.submit(PACKETS[5:6], 0.0)) == PACKETS[2:3]
    assert drain(core) == PACKETS[3:6]


def test_shuffle_lets_packets_overtake_and_loses_none() -> None:
    core = ShuffleLayer(seed=5, rate=0.2, hold=0.5, span=4).create_core()
    out = through(core, PACKETS)
    assert out != PACKETS
    assert sorted(out) == sorted(PACKETS)
    assert core.shuffled == 4  # no more than its span at one time


def test_shuffle_holds_back_for_its_time() -> None:
    core = ShuffleLayer(seed=5, rate=0.5, hold=0.5, span=100).create_core()
    first = down(core.submit(PACKETS[:50], 1.0))
    assert first == sorted(first, key=PACKETS.index)
    assert core.next_timeout() == 1.5
    late = down(core.handle_timeout(1.5))
    assert sorted(first + late) == sorted(PACKETS[:50])


def test_throttle_lets_so_many_bytes_pass_in_a_second() -> None:
    core = ThrottleLayer(bytes_per_second=1000, queue_bytes=10_000).create_core()
    packets = [bytes([number]) * 100 for number in range(50)]
    assert down(core.submit(packets, 2.0)) == []
    passed: list[float] = []
    while (due := core.next_timeout()) is not None:
        passed += [due] * len(down(core.handle_timeout(due)))
    assert passed == pytest.approx([2.0 + 0.1 * (number + 1) for number in range(50)])


def test_throttle_drops_packets_without_room_and_counts_them() -> None:
    core = ThrottleLayer(bytes_per_second=1000, queue_bytes=1000).create_core()
    packets = [bytes([number]) * 300 for number in range(5)]
    core.submit(packets, 0.0)
    assert core.discarded == 2
    assert drain(core) == packets[:3]
    assert down(core.submit([bytes(9000)], 20.0)) == []
    assert drain(core) == [bytes(9000)]  # an empty queue has room for one of any size


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: DiscardLayer(seed=1, rate=1.5), "discard rate"),
        (lambda: DuplicateLayer(seed=1, rate=-0.1), "duplicate rate"),
        (lambda: CorruptLayer(seed=1, rate=2), "corrupt rate"),
        (lambda: ShuffleLayer(seed=1, rate=2), "shuffle rate"),
        (lambda: ShuffleLayer(seed=1, rate=0.1, span=0), "shuffle span"),
        (lambda: ShuffleLayer(seed=1, rate=0.1, hold=0), "shuffle hold"),
        (lambda: DelayLayer(seed=1, minimum=2, maximum=1), "delay"),
        (lambda: DelayLayer(seed=1, minimum=1, maximum=1, capacity=0), "delay capacity"),
        (lambda: ThrottleLayer(bytes_per_second=0), "throttle bytes_per_second"),
        (lambda: ThrottleLayer(bytes_per_second=1, queue_bytes=0), "throttle queue_bytes"),
        (lambda: PartitionLayer(schedule=[(2.0, 1.0)]), "partition schedule"),
        (lambda: PartitionLayer(schedule=[(0, 1), (3, 5)], every=4.5), "partition every"),
    ],
)
def test_a_setting_that_can_not_be_is_refused_by_name(
    make: Callable[[], object], setting: str
) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        make()


def test_a_fault_declares_the_properties_it_breaks() -> None:
    broken = {name: make().breaks for name, make in ALL.items()}
    assert broken["delay"] == frozenset()
    assert Property.FIFO in broken["shuffle"]
    for name in ("discard", "corrupt", "partition", "throttle"):
        assert Property.RELIABLE in broken[name]
