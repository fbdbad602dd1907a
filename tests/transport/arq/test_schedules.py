"""Two endpoints on a bad network: seeded schedules in virtual time (A20).

Each run must deliver every packet once and in order. Both ends must learn of the end, buffers must
stay within the settings, and no timer may be left.
"""

from __future__ import annotations

from random import Random

import pytest
from twisted.internet.error import TimeoutError

from broker.testing.datagram_network import DatagramFaults
from broker.transport.arq import ArqSettings
from broker.transport.arq.connection_core import ConnectionCore
from tests.seeds import seeds
from tests.transport.arq.datagram_pair import HERE, THERE, Pair, User

SEEDS = 1000
#: Every limit is reached.
SMALL = {"window": 32, "send_buffer_bytes": 20_000, "datagram_bytes": 400}


def drawn_faults(random: Random) -> DatagramFaults:
    return DatagramFaults(
        loss=random.choice([0.0, 0.02, 0.1, 0.2, 0.4]),
        duplication=random.choice([0.0, 0.1, 0.3]),
        corruption=random.choice([0.0, 0.0, 0.05]),
        delay=random.choice([0.0001, 0.005, 0.1]),
        jitter=random.choice([0.0, 0.01, 0.1]),
    )


def drawn_packets(random: Random, count: int) -> list[bytes]:
    sizes = [random.choice([1, 20, 262, 800, 3000, 9000]) for _ in range(count)]
    return [random.randbytes(random.randint(1, size)) for size in sizes]


def check_bounds(core: ConnectionCore, settings: ArqSettings) -> None:
    reception = core.receive_window
    assert len(reception._ready) + len(reception._out_of_order) <= settings.window
    assert len(reception.missing) <= settings.window
    assert len(core.sender._in_flight) <= settings.window
    assert set(core.sender._to_retransmit) <= set(core.sender._in_flight)


@pytest.mark.parametrize("fifty", seeds(1, SEEDS // 50))
def test_everything_arrives_once_and_in_order(fifty: int) -> None:
    for seed in range(50 * fifty, 50 * fifty + 50):
        try:
            run_schedule(seed)
        except BaseException:
            print(f"the seed is {seed}")
            raise


def run_schedule(seed: int) -> None:
    random = Random(seed)
    settings = ArqSettings(liveness=60.0, handshake_timeout=60.0, **SMALL)
    pair = Pair(seed, drawn_faults(random), settings)
    pair.dial()
    pair.run(lambda: bool(pair.accepted and pair.dialled), 60.0)
    forth, back = drawn_packets(random, 60), drawn_packets(random, random.choice([0, 30]))
    here, there = User(pair.dialled[0], forth), User(pair.accepted[0], back)

    def arrived() -> bool:
        check_bounds(here.core, settings)
        check_bounds(there.core, settings)
        return len(there.packets) == len(forth) and len(here.packets) == len(back)

    if random.random() < 0.3:
        pair.clock.callLater(random.uniform(0, 0.5), there.channel.pause)
        pair.clock.callLater(random.uniform(0.5, 3.0), there.channel.resume)
    if random.random() < 0.3:
        pair.clock.callLater(random.uniform(0, 0.5), pair.network.cut, HERE, THERE)
        pair.clock.callLater(random.uniform(0.5, 20.0), pair.network.heal)
    pair.run(arrived, 200.0)
    assert (there.packets, here.packets) == (forth, back)
    # The cut and the pause may still last.
    pair.run(lambda: False, 25.0)
    last = drawn_packets(random, 5)
    here.channel.send(last)
    here.channel.close()
    pair.run(lambda: bool(here.losses and there.losses), 120.0)
    assert there.packets == forth + last
    assert here.losses == there.losses == [None]
    pair.run(lambda: False, 120.0)
    assert pair.clock.getDelayedCalls() == []


def test_a_long_cut_is_reported_to_both_ends() -> None:
    pair = Pair(0, DatagramFaults(loss=0.1))
    here, there = (User(channel) for channel in pair.connected())
    pair.run(lambda: False, 1.0)
    assert not here.losses + there.losses
    pair.network.cut(HERE, THERE)
    pair.run(lambda: bool(here.losses and there.losses), 30.0)
    assert [error.code for error in here.losses + there.losses if error] == ["peer-silent"] * 2
    assert pair.clock.seconds() < pair.settings.liveness + 5.0


def test_silence_of_the_users_is_no_silence_of_the_peer() -> None:
    pair = Pair(0, DatagramFaults(loss=0.2))
    here, there = (User(channel) for channel in pair.connected())
    pair.run(lambda: False, 600.0)
    assert here.losses == there.losses == []
    here.channel.send([b"still there"])
    pair.run(lambda: bool(there.packets), 1.0)
    assert there.packets == [b"still there"]


def test_an_idle_connection_costs_a_few_datagrams_a_poll() -> None:
    pair = Pair(0)
    for channel in pair.connected():
        User(channel)
    pair.run(lambda: False, 10.0)
    before = sum(wire.sent for wire in pair.wires)
    pair.run(lambda: False, 100.0)
    assert sum(wire.sent for wire in pair.wires) - before <= 100.0 / pair.settings.poll * 4


def test_an_unanswered_dial_times_out_with_no_timer_left() -> None:
    pair = Pair(0)
    pair.network.unbind(THERE)
    pair.dial()
    took = pair.run(lambda: bool(pair.failures), 60.0)
    (failure,) = pair.failures
    assert failure.check(TimeoutError)
    assert took == pytest.approx(pair.settings.handshake_timeout)
    assert pair.clock.getDelayedCalls() == []


def test_a_lossless_path_is_used_without_repeats_and_filled_by_the_window() -> None:
    pair = Pair(1)
    packets = [bytes(262)] * 20_000
    here, there = pair.connected()
    sender, receiver = User(here, packets), User(there)
    took = pair.run(lambda: len(receiver.packets) == len(packets), 60.0)
    assert sender.core.sender.retransmitted == 0
    assert receiver.core.receive_window.duplicates == 0
    assert len(packets) * 262 / took > 10e6
