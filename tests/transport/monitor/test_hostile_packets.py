"""Packets that break the protocol end the connection with an error, and nothing else."""

from __future__ import annotations

from random import Random
from zlib import crc32

import pytest

from broker.errors import IncarnationRefused, ProtocolError, VersionMismatch
from broker.transport.effects import DeliverUp, Effect, Failed, ViewChanged
from broker.transport.monitor import MonitorSettings, wire
from broker.transport.monitor.core import MonitorCore
from broker.transport.monitor.wire import Answer, Heartbeat, Hello, Offer
from broker.transport.view import LinkState, View
from tests.seeds import seeds

PEER = 50
UP = View(LinkState.CONNECTED)
DOWN = View(LinkState.DISCONNECTED)
HELLO = wire.encode(Hello(PEER))
BEAT = Heartbeat(2, 1, 0, 0, 0, 0)


def new_core() -> MonitorCore:
    core = MonitorCore(7, MonitorSettings(), None)
    core.view_changed(UP, 0.0)
    return core


def failure(effects: list[Effect]) -> Exception:
    (error,) = [effect.error for effect in effects if isinstance(effect, Failed)]
    return error


@pytest.mark.parametrize(
    "packet",
    [
        Hello(PEER),
        Hello(2**64 - 1),
        Heartbeat(2**64 - 1, 3, 4, 5, -(2**63), 2**63 - 1, "suspected - late"),
        Heartbeat(1, 2, 3, 4, 5, 6),
        Offer(2**32 - 1, b"clock"),
        Offer(1, b""),
        Answer(1, bytes(wire.MAX_OFFER_BYTES)),
    ],
)
def test_packets_are_read_as_they_were_written(packet: wire.Packet) -> None:
    encoded = wire.encode(packet)
    assert encoded[:1] > wire.FIRST_KIND
    assert wire.decode(encoded) == packet
    for place in range(len(encoded)):
        damaged = bytearray(encoded)
        damaged[place] ^= 0x55
        with pytest.raises(ProtocolError):
            wire.decode(bytes(damaged))


@pytest.mark.parametrize("seed", seeds(200, 5000))
def test_no_bytes_raise_from_the_core(seed: int) -> None:
    random = Random(seed)
    core = new_core()
    for _ in range(10):
        kind = random.choice((0x80, 0x81, 0x82, 0x83, 0x84, 0xFF))
        body = random.randbytes(random.choice((0, 1, 4, 9, 48, 60, 200)))
        packet = bytes([kind]) + crc32(body, kind).to_bytes(4) + body
        effects = core.receive([random.choice((packet, HELLO, packet[:3], body))], 0.5)
        if any(isinstance(effect, Failed) for effect in effects):
            assert core.receive([HELLO], 0.6) == []
            core.view_changed(DOWN, 0.7)
            core.view_changed(UP, 0.8)


@pytest.mark.parametrize(
    "packets",
    [
        [b"\x01first"],
        [wire.encode(BEAT)],
        [wire.encode(Offer(1, b""))],
        [wire.encode(Answer(1, b""))],
        [b""],
        [HELLO, wire.encode(Hello(PEER + 1))],
        [HELLO, wire.encode(BEAT._replace(number=3))],
        [HELLO, wire.encode(BEAT._replace(echo=3))],
        [HELLO, wire.encode(Answer(1, b""))],
        [HELLO, wire.encode(Offer(1, bytes(wire.MAX_OFFER_BYTES + 1)))],
        [HELLO, wire.encode(BEAT._replace(reason="\x1b[2J"))],
        [HELLO, wire.encode(BEAT._replace(reason="long" * 9))],
        [HELLO, HELLO[:-1]],
    ],
)
def test_a_packet_against_the_rules_ends_the_connection(packets: list[bytes]) -> None:
    core = new_core()
    assert isinstance(failure(core.receive(packets, 0.1)), ProtocolError)
    assert core.receive([HELLO], 0.2) == []


def test_another_version_is_named() -> None:
    error = failure(new_core().receive([wire.encode(Hello(PEER, version=2))], 0.1))
    assert isinstance(error, VersionMismatch)
    assert "version 2" in str(error)


def test_an_older_incarnation_is_refused() -> None:
    core = new_core()
    core.receive([HELLO], 0.1)
    core.view_changed(DOWN, 0.2)
    core.view_changed(UP, 0.3)
    error = failure(core.receive([wire.encode(Hello(PEER - 1))], 0.4))
    assert isinstance(error, IncarnationRefused)
    core.view_changed(DOWN, 0.5)
    core.view_changed(UP, 0.6)
    effects = core.receive([wire.encode(Hello(PEER + 1))], 0.7)
    assert core.status is LinkState.CONNECTED
    restarted, connected = [each.view for each in effects if isinstance(each, ViewChanged)]
    assert (restarted.state, restarted.is_restarted) == (LinkState.SUSPECTED, True)
    assert (connected.state, connected.resumed) == (LinkState.CONNECTED, False)


def test_packets_before_an_error_are_delivered() -> None:
    core = new_core()
    core.receive([HELLO], 0.1)
    effects = core.receive([b"\x02good", HELLO[:-1]], 0.2)
    assert DeliverUp([b"\x02good"]) in effects
    assert isinstance(failure(effects), ProtocolError)


def test_a_batch_of_data_goes_up_as_it_came() -> None:
    core = new_core()
    core.receive([HELLO], 0.1)
    batch = [b"\x02one", b"\x02other"]
    (effect,) = core.receive(batch, 0.2)
    assert isinstance(effect, DeliverUp)
    assert effect.messages is batch
