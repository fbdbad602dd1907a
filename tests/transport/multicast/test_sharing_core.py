"""Cores that share bodies: what a peer must not send, and the bounds of what it may."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from broker.errors import ProtocolError
from broker.transport.effects import Consumed, DeliverUp, Effect, Failed, SendDown
from broker.transport.message import Message, Outcome
from broker.transport.multicast.bounds import Bounds
from broker.transport.multicast.group_core import GroupCore
from broker.transport.multicast.group_datagram import MOST_BODY, encode_body
from broker.transport.multicast.incoming import MOST_BODY_BYTES
from broker.transport.multicast.outgoing import FIRST_PAUSE, MOST_NEEDED
from broker.transport.multicast.sharing_core import GROUP, SharingCore
from broker.transport.multicast.tree_core import TreeCore
from broker.transport.multicast.wire import (
    COPY,
    Acknowledge,
    Body,
    LinkView,
    Need,
    Packet,
    Pass,
    Reference,
    Repair,
    decode,
    encode,
)
from broker.transport.view import LinkState, View
from tests.seeds import seeds

KEY = bytes(32)
PAYLOAD = bytes(200)
PEERS = "bcdef"


def key_of(name: str) -> bytes:
    return name.encode() * 32


def receive(core: SharingCore, peer: str, *packets: Packet, now: float = 1.0) -> list[Effect]:
    messages = [Message(encode(each), peer) for each in packets]
    return list(core.receive(messages, peer, now))


def connected(kind: type[SharingCore], peers: str = PEERS) -> SharingCore:
    """Return the core of a, which all others see as connected, as each other."""
    core = kind("a", KEY)
    for name in peers:
        core.view_changed(name, View(LinkState.CONNECTED), 0.0)
        receive(core, name, LinkView(key_of(name), 1, [*peers, "a"]), now=0.0)
    return core


def send(core: SharingCore, payload: bytes = PAYLOAD, now: float = 1.0) -> dict[str, list[Packet]]:
    """Return the packets for each peer; copies are left out."""
    message = Message(payload, destinations=tuple(PEERS))
    found: dict[str, list[Packet]] = {name: [] for name in PEERS}
    for effect in core.submit([message], now):
        if isinstance(effect, SendDown) and effect.peer != GROUP:
            packets = [each.encode() for each in effect.packets]
            found[str(effect.peer)] += [decode(each) for each in packets if each[:1] != COPY]
    assert set(message.outcomes.values()) == {Outcome.SENT}
    return found


def delivered(effects: Sequence[Effect]) -> list[bytes]:
    ups = [each for each in effects if isinstance(each, DeliverUp)]
    return [message.payload for each in ups for message in each.messages]


def sent(effects: Sequence[Effect]) -> list[Packet]:
    downs = [each for each in effects if isinstance(each, SendDown)]
    return [decode(message.encode()) for each in downs for message in each.packets]


# ----------------------------------------------------------------- references


@pytest.mark.parametrize("kind", [TreeCore, GroupCore])
def test_a_body_without_a_reference_is_not_delivered(kind: type[SharingCore]) -> None:
    core = connected(kind)
    effects = bring_body(core, 5)
    assert delivered(effects) == []
    assert delivered(receive(core, "b", Reference(5))) == [PAYLOAD]
    assert delivered(bring_body(core, 5)) == []


def bring_body(core: SharingCore, counter: int, payload: bytes = PAYLOAD) -> list[Effect]:
    """Bring a body of b: by c, or by the group."""
    if isinstance(core, TreeCore):
        return receive(core, "c", Body("b", counter, [], payload))
    datagrams = encode_body("b", key_of("b"), counter, payload)
    return list(core.receive([Message(each, GROUP) for each in datagrams], GROUP, 1.0))


@pytest.mark.parametrize("kind", [TreeCore, GroupCore])
def test_messages_behind_a_missing_body_wait_for_it(kind: type[SharingCore]) -> None:
    core = connected(kind)
    core.receive([Message(COPY + b"before", "b")], "b", 1.0)
    effects = receive(core, "b", Reference(5), Reference(9))
    effects += core.receive([Message(COPY + b"after", "b")], "b", 1.0)
    effects += bring_body(core, 9, bytes(300))
    assert delivered(effects) == []
    assert delivered(bring_body(core, 5)) == [PAYLOAD, bytes(300), b"after"]


@pytest.mark.parametrize("kind", [TreeCore, GroupCore])
def test_a_late_body_is_asked_for_once_and_comes_as_a_repair(kind: type[SharingCore]) -> None:
    core = connected(kind)
    receive(core, "b", Reference(5))
    due = core.next_timeout()
    assert due is not None
    assert 1.0 < due <= 1.25
    assert sent(core.handle_timeout(due)) == [Need(5)]
    assert core.next_timeout() is None
    effects = receive(core, "b", Repair(5, PAYLOAD), now=2.0)
    assert delivered(effects) == [PAYLOAD]
    assert delivered(bring_body(core, 5)) == []


@pytest.mark.parametrize("kind", [TreeCore, GroupCore])
def test_a_finished_reference_is_acknowledged(kind: type[SharingCore]) -> None:
    core = connected(kind)
    receive(core, "b", Reference(5))
    bring_body(core, 5)
    core.consumed("b", 1, 1.0)
    assert core.next_timeout() is not None
    assert sent(core.handle_timeout(1.2)) == [Acknowledge(5)]


@pytest.mark.parametrize("kind", [TreeCore, GroupCore])
def test_each_packet_returns_its_credit_once(kind: type[SharingCore]) -> None:
    core = connected(kind)
    effects = receive(core, "b", Reference(5), Need(0), LinkView(key_of("b"), 1, []))
    # Also that of the message that waits: a repair comes behind it.
    assert [each for each in effects if isinstance(each, Consumed)] == [Consumed(3, "b")]
    bring_body(core, 5)
    assert core.consumed("b", 1, 1.0) == []
    assert delivered(core.receive([Message(COPY + b"x", "b")], "b", 1.0)) == [b"x"]
    assert Consumed(1, "b") in core.consumed("b", 1, 1.0)


def test_messages_behind_a_missing_body_are_bounded_by_their_credit() -> None:
    core = connected(TreeCore)
    receive(core, "b", Reference(5))
    credit = 0
    for _ in range(400):
        for effect in core.receive([Message(COPY + bytes(100_000), "b")], "b", 1.0):
            assert isinstance(effect, Consumed)
            credit += effect.count
    assert credit == Bounds().held // 100_000 + 1


@pytest.mark.parametrize("kind", [TreeCore, GroupCore])
def test_references_of_an_earlier_process_are_over(kind: type[SharingCore]) -> None:
    core = connected(kind)
    receive(core, "b", Reference(5))
    core.receive([Message(COPY + b"of the earlier one", "b")], "b", 1.0)
    core.view_changed("b", View(LinkState.SUSPECTED), 2.0)
    core.view_changed("b", View(LinkState.CONNECTED, resumed=False), 3.0)
    assert sent(core.handle_timeout(3.5)) == []
    effects = receive(core, "b", LinkView(b"n" * 32, 1, []), Reference(3))
    assert Consumed(2, "b") in effects
    assert delivered(effects) == []
    assert delivered(receive(core, "b", Repair(3, PAYLOAD))) == []


# ----------------------------------------------------------------- the sender


def test_a_peer_that_misses_bodies_gets_copies_for_some_time() -> None:
    core = connected(GroupCore)
    for _ in range(MOST_NEEDED):
        (reference,) = send(core)["b"]
        assert isinstance(reference, Reference)
        effects = receive(core, "b", Need(reference.counter))
        assert sent(effects) == [Repair(reference.counter, PAYLOAD)]
    assert send(core)["b"] == []
    assert len(send(core)["c"]) == 1
    assert len(send(core, now=1.0 + FIRST_PAUSE)["b"]) == 1


def test_a_peer_that_acknowledges_nothing_gets_copies_beyond_the_bound() -> None:
    core = connected(GroupCore)
    referred = 0
    for _ in range(40):
        packets = send(core, bytes(50_000))
        referred += len(packets["b"])
        (reference,) = packets["c"]
        assert isinstance(reference, Reference)
        for name in "cdef":
            receive(core, name, Acknowledge(reference.counter))
    assert referred == Bounds().unacknowledged // 50_000


def test_a_suspected_peer_gets_copies() -> None:
    core = connected(TreeCore)
    core.view_changed("b", View(LinkState.SUSPECTED), 1.0)
    packets = send(core)
    assert packets["b"] == []
    routes = [
        each.body.route for some in packets.values() for each in some if isinstance(each, Pass)
    ]
    assert all(name != "b" for route in routes for name, _ in route)


def test_a_message_is_a_copy_if_it_is_small_or_too_large_for_the_group() -> None:
    for core, size in ((connected(TreeCore), 100), (connected(GroupCore), MOST_BODY + 1)):
        assert send(core, bytes(size)) == {name: [] for name in PEERS}


def test_lost_references_are_counted_after_a_restart_of_the_peer() -> None:
    core = connected(GroupCore)
    send(core)
    send(core)
    effects = core.view_changed("b", View(LinkState.CONNECTED, undelivered=3), 2.0)
    views = [each.view for each in effects if hasattr(each, "view")]
    assert [each.undelivered for each in views] == [5]


def test_a_site_passes_a_body_on_to_those_that_it_sees_as_connected() -> None:
    core = connected(TreeCore)
    core.view_changed("d", View(LinkState.SUSPECTED), 1.0)
    body = Body("", 7, [("c", 1), ("e", 0), ("d", 0), ("unknown", 0)], PAYLOAD)
    effects = receive(core, "b", Pass(body))
    assert sent(effects) == [Body("b", 7, [("e", 0)], PAYLOAD)]
    assert delivered(effects) == [PAYLOAD]


# ----------------------------------------------------------------- wrong packets


def failure(effects: Sequence[Effect]) -> str:
    (found,) = [each for each in effects if isinstance(each, Failed)]
    assert isinstance(found.error, ProtocolError)
    return str(found.error)


@pytest.mark.parametrize(
    ("packets", "text"),
    [
        ([Need(2**62)], "names reference"),
        ([Acknowledge(2**62)], "names reference"),
        ([Reference(5), Reference(5)], "reference 5 came after 5"),
        ([Pass(Body("", 1, [("c", 2), ("d", 0)], PAYLOAD))], "ends before"),
    ],
)
def test_a_peer_that_breaks_a_rule_loses_its_connection(packets: list[Packet], text: str) -> None:
    core = connected(TreeCore)
    core.receive([Message(COPY + b"before", "b")], "b", 1.0)
    assert text in failure(receive(core, "b", *packets))


def test_messages_before_a_wrong_packet_are_delivered_and_all_credit_returns() -> None:
    core = connected(TreeCore)
    messages = [Message(each, "b") for each in (COPY + b"good", b"\x99bad", COPY + b"behind")]
    effects = core.receive(messages, "b", 1.0)
    assert delivered(effects) == [b"good"]
    assert Consumed(2, "b") in effects
    assert "is fan_out the same at both sites?" in failure(effects)


def test_a_body_on_a_link_is_wrong_with_a_group() -> None:
    core = connected(GroupCore)
    assert "no tree" in failure(receive(core, "b", Body("c", 1, [], PAYLOAD)))


def test_bodies_of_unknown_sites_are_dropped() -> None:
    core = connected(TreeCore)
    assert receive(core, "b", Body("x", 1, [], PAYLOAD)) == [Consumed(1, "b")]
    assert "x" not in core.incoming


def test_bodies_without_references_are_bounded() -> None:
    core = connected(TreeCore)
    for counter in range(1, 100):
        receive(core, "c", Body("b", counter, [], bytes(100_000)))
    kept = [
        counter
        for counter in range(1, 100)
        if delivered(receive(core, "b", Reference(counter), Repair(counter, b"")))
    ]
    assert kept == []
    # The newest were kept; they wait behind the first ones.
    core = connected(TreeCore)
    for counter in range(1, 100):
        receive(core, "c", Body("b", counter, [], bytes(100_000)))
    kept = [
        counter for counter in range(80, 100) if delivered(receive(core, "b", Reference(counter)))
    ]
    assert len(kept) == MOST_BODY_BYTES // 100_000
    assert kept[-1] == 99


@pytest.mark.parametrize("seed", seeds(8, 200))
def test_damaged_packets_are_refused_or_mean_something(seed: int) -> None:
    random = Random(seed)
    examples: list[Packet] = [
        Pass(Body("", 7, [("c", 1), ("d", 0)], PAYLOAD)),
        Body("b", 7, [], PAYLOAD),
        *(Reference(9), Repair(9, PAYLOAD), Need(9), Acknowledge(9)),
        LinkView(KEY, 3, ["a", "b"]),
    ]
    for packet in examples:
        assert decode(encode(packet)) == packet
        for _ in range(50):
            data = bytearray(encode(packet))
            for _ in range(random.randrange(3)):
                data[random.randrange(len(data))] = random.randrange(256)
            if random.random() < 0.5:
                del data[random.randrange(len(data)) :]
            core = connected(TreeCore)
            for effect in core.receive([Message(bytes(data), "b")], "b", 1.0):
                assert not isinstance(effect, Failed) or isinstance(effect.error, ProtocolError)


# ----------------------------------------------------------------- the group


def test_a_body_of_any_size_comes_in_pieces() -> None:
    core = connected(GroupCore)
    for counter, size in enumerate((1, 1_000, 1_300, 5_000, MOST_BODY), 1):
        payload = Random(size).randbytes(size)
        receive(core, "b", Reference(counter))
        assert delivered(bring_body(core, counter, payload)) == [payload]


def test_a_datagram_hides_the_message() -> None:
    (datagram,) = encode_body("b", key_of("b"), 5, b"a secret of the sites")
    assert b"secret" not in datagram
    assert len(datagram) <= 1_300


def test_forged_and_foreign_datagrams_are_dropped_without_state() -> None:
    core, random = connected(GroupCore), Random(1)
    assert isinstance(core, GroupCore)
    receive(core, "b", Reference(5))
    (genuine,) = encode_body("b", key_of("b"), 5, PAYLOAD)
    damaged = bytearray(genuine)
    damaged[-1] ^= 1
    forged = [
        *encode_body("b", key_of("x"), 5, PAYLOAD),
        *encode_body("stranger", key_of("b"), 5, PAYLOAD),
        *(bytes(damaged), genuine[:-1], genuine[:4], b"", b"\x01", b"\x01\xff"),
        *(random.randbytes(size) for size in (1, 2, 10, 100, 1300)),
        *encode_body("c", key_of("b"), 5, PAYLOAD),
    ]
    for datagram in forged:
        assert core.receive([Message(datagram, GROUP)], GROUP, 1.0) == []
    assert core.rejected == len(forged)
    assert core.incoming.keys() == set(PEERS)
    assert delivered(core.receive([Message(genuine, GROUP)], GROUP, 1.0)) == [PAYLOAD]
    assert core.receive([Message(genuine, GROUP)], GROUP, 1.0) == []


def test_a_datagram_of_an_earlier_process_is_forged() -> None:
    core = connected(GroupCore)
    (old,) = encode_body("b", key_of("b"), 5, PAYLOAD)
    receive(core, "b", LinkView(b"n" * 32, 1, []), Reference(5))
    assert core.receive([Message(old, GROUP)], GROUP, 1.0) == []


def test_unfinished_bodies_are_bounded() -> None:
    core = connected(GroupCore)
    for counter in range(1, 1_000):
        first, *_ = encode_body("b", key_of("b"), counter, bytes(MOST_BODY))
        core.receive([Message(first, GROUP)], GROUP, 1.0)
    assert isinstance(core, GroupCore)
    assert len(core._assemblies["b"]._partial) == 16


def test_own_datagrams_are_ignored() -> None:
    core = connected(GroupCore)
    assert isinstance(core, GroupCore)
    (own,) = encode_body("a", KEY, 5, PAYLOAD)
    assert core.receive([Message(own, GROUP)], GROUP, 1.0) == []
    assert core.rejected == 0
