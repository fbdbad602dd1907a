"""Floods without a handshake, and of handshakes, have no effect (T41)."""

from __future__ import annotations

from random import Random

import pytest
from twisted.internet.error import ConnectionRefusedError

from broker.errors import ProtocolError, VersionMismatch
from broker.testing.datagram_network import MemoryDatagramSocket
from broker.transport.arq import ArqSettings, wire
from broker.transport.arq.handshake import UNKEYED_MAC, Dialler
from broker.transport.arq.mac import Mac
from tests.transport.arq.datagram_members import Members
from tests.transport.arq.datagram_pair import HERE, THERE, Pair, User

STRANGER = ("stranger", 3)


def stranger(pair: Pair) -> tuple[MemoryDatagramSocket, list[bytes]]:
    heard: list[bytes] = []
    wire = pair.network.bind(STRANGER, lambda batch: heard.extend(data for data, _ in batch))
    return wire, heard


def test_forged_control_messages_change_nothing_and_are_counted() -> None:
    pair = Pair(0)
    here, there = (User(channel) for channel in pair.connected())
    outside, heard = stranger(pair)
    identity = there.core.own_id
    said = wire.Feedback(10**6, 2 * 10**6, 10**6, 0.0, 0, ((10**6 + 1, 100),))
    forged = [
        Mac(key).add_tag(contents)
        for key in (b"", b"a guess")
        for contents in (
            wire.encode_feedback(identity, said),
            wire.encode_bye(identity, wire.Reason.RESET),
            wire.encode_numbered(wire.POLL, identity, 5),
            wire.encode_data(identity, 1, 0, 0, [b"\0\0\0\1x"]),
        )
    ]
    outside.send(forged, THERE)
    pair.run(lambda: False, 1.0)
    assert there.core.datagram_counts.dropped == len(forged)
    assert heard == []
    here.channel.send([b"after"])
    pair.run(lambda: bool(there.packets), 1.0)
    assert there.packets == [b"after"]
    assert not here.losses + there.losses


def test_every_flipped_bit_is_noticed() -> None:
    seal = Mac(b"key")
    datagram = seal.add_tag(wire.encode_data(1, 2, 0, 3, [b"some packet"]))
    assert seal.remove_tag(datagram) == datagram[:-8]
    for place in range(len(datagram) * 8):
        damaged = bytearray(datagram)
        damaged[place // 8] ^= 1 << place % 8
        assert seal.remove_tag(bytes(damaged)) is None


def test_a_flood_of_handshakes_leaves_no_state_and_is_not_amplified() -> None:
    pair = Pair(0)
    outside, heard = stranger(pair)
    for number in range(1, 1001):
        dialler = Dialler(number, pair.random.randbytes, 100, 0.0)
        outside.send([dialler.next_datagram(0.0)], THERE)
    pair.run(lambda: False, 1.0)
    assert len(heard) == 1000
    assert pair.wires[1].sent_bytes < outside.sent_bytes
    assert not pair.there._channels
    assert pair.clock.getDelayedCalls() == []


def test_a_cookie_of_another_address_or_another_time_proves_nothing() -> None:
    pair = Pair(0)
    outside, heard = stranger(pair)
    dialler = Dialler(7, bytes, 100, 0.0)
    outside.send([dialler.next_datagram(0.0)], THERE)
    pair.run(lambda: bool(heard), 1.0)
    dialler.receive(heard[0], 0.0)
    opening = dialler.next_datagram(0.0)
    pair.network.bind(("spoofed", 4), lambda batch: None).send([opening], THERE)
    pair.run(lambda: False, 1.0)
    assert pair.there.counts.bad_cookies == 1
    pair.clock.advance(120.0)
    outside.send([opening], THERE)
    pair.run(lambda: False, 1.0)
    assert pair.there.counts.bad_cookies == 2
    assert not pair.there._channels


def test_half_open_connections_are_bounded_and_do_not_stop_honest_ones() -> None:
    settings = ArqSettings(half_open=10)
    pair = Pair(0, settings=settings)
    diallers: dict[int, Dialler] = {}

    def hears(batch: object) -> None:
        for datagram, _ in batch:  # type: ignore[attr-defined]
            dialler = diallers[wire.decode_head(datagram)[1]]
            if wire.decode_head(datagram)[0] == wire.COOKIE:
                dialler.receive(datagram, 0.0)
                outside.send([dialler.next_datagram(0.0)], THERE)

    outside = pair.network.bind(STRANGER, hears)
    for number in range(1, 101):
        diallers[number] = Dialler(number, pair.random.randbytes, 100, 0.0)
        outside.send([diallers[number].next_datagram(0.0)], THERE)
    pair.run(lambda: pair.there.counts.dropped_half_open == 90, 1.0)
    assert len(pair.there._half_open) == len(pair.there._channels) == 10
    pair.connected()
    assert pair.accepted
    pair.run(lambda: len(pair.there._channels) == 1, 20.0)
    assert not pair.there._half_open


def test_more_connections_than_there_may_be_are_refused() -> None:
    pair = Pair(0, settings=ArqSettings(connections=1))
    pair.connected()
    pair.dial()
    pair.run(lambda: bool(pair.failures), 1.0)
    assert pair.failures[0].check(ConnectionRefusedError)


def test_another_version_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(0)
    monkeypatch.setattr("broker.transport.arq.handshake.VERSION", 99)
    pair.dial()
    monkeypatch.undo()
    pair.run(lambda: bool(pair.failures), 1.0)
    assert pair.failures[0].check(VersionMismatch)


def test_a_dial_can_be_cancelled_and_leaves_no_timer() -> None:
    pair = Pair(0)
    pair.network.unbind(THERE)
    result = pair.here.connect(THERE)
    result.addErrback(pair.failures.append)
    result.cancel()
    pair.run(lambda: False, 10.0)
    assert len(pair.failures) == 1
    assert pair.clock.getDelayedCalls() == []


def test_a_lost_bye_is_repeated() -> None:
    pair = Pair(0)
    here, there = (User(channel) for channel in pair.connected())
    pair.network.cut(HERE, THERE)
    here.channel.abort(ProtocolError("enough"))
    pair.run(lambda: False, 0.5)
    assert there.losses == []
    pair.network.heal()
    there.channel.send([b"anybody?"])
    took = pair.run(lambda: bool(there.losses), 5.0)
    assert took < 1.0
    (error,) = there.losses
    assert error is not None and "reset by the other end" in error.text


def test_noise_is_counted_and_answered_by_nothing() -> None:
    pair = Pair(0)
    outside, heard = stranger(pair)
    random = Random(0)
    for _ in range(700):
        noise = bytes([random.randrange(16)]) + random.randbytes(random.randrange(50))
        outside.send([noise, UNKEYED_MAC.add_tag(noise)], THERE)
    pair.run(lambda: False, 1.0)
    counts = pair.there.counts
    assert counts.malformed + counts.unknown_connection == 1400
    assert heard == []


def test_noise_in_a_group_is_counted_and_harmless() -> None:
    members = Members(0, "ab")
    here, there = members.all
    random = Random(0)
    seal = Mac()
    for _ in range(2000):
        noise = bytes([random.randrange(16)]) + random.randbytes(random.randrange(60))
        session = random.choice([here.core._session, there.core._session, random.getrandbits(64)])
        noise = noise[:1] + session.to_bytes(8, "big") + noise[9:]
        there.group.datagrams_received([(noise, STRANGER), (seal.add_tag(noise), STRANGER)])
    counts = there.core.counts
    assert counts.forged >= 2000
    assert counts.malformed + counts.wrong_address > 500
    assert len(there.core.receivers) <= members.settings.senders
    here.send([b"after"])
    members.run(lambda: bool(there.heard["a"]), 1.0)
    assert there.heard["a"] == [b"after"]
    assert not there.gaps
