"""Malformed and unexpected messages: a typed error, and other clients go on."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

import attrs
import msgpack
import msgspec
import pytest

from broker.config import Settings
from broker.errors import PeerSilent, ProtocolError, TooManySessions, VersionMismatch
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.testing.flights import FLIGHT, flight
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from broker.wire import messages
from broker.wire.event_batch import encode_batch
from broker.wire.messages import (
    PROTOCOL_VERSIONS,
    Acknowledge,
    Answer,
    Ask,
    Ended,
    Flowing,
    Goodbye,
    NotPublished,
    Progress,
    Published,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Welcome,
)
from tests.simulation.raw_client import RawConnection, RawSession, hello
from tests.simulation.simulated_client import Reader, read_log

HANDSHAKE = 5.0
#: A version of the session protocol that no node speaks.
LATER = PROTOCOL_VERSIONS[-1] + 1


@pytest.fixture
def world() -> Iterator[World]:
    settings = Settings()
    limits = attrs.evolve(
        settings.limits,
        handshake_timeout=HANDSHAKE,
        max_sessions=5,
        max_handshakes=20,
        max_handshakes_per_address=5,
    )
    with World(1, settings=attrs.evolve(settings, limits=limits)) as world:
        publisher = Publisher(world.client("publisher"))
        reader = Reader(world, world.client("reader"))
        world.run(1.0)
        publisher.publish()
        world.run(0.5)
        yield world
        if not world.is_running:
            world.start_node()
        connected = [publisher.client.connected, reader.client.connected]
        assert connected == [True, True], "others were disturbed"
        publisher.publish()
        world.run(3.0)
        reader.read()
        assert len(publisher.receipts) == 2
        assert [e.header.event_id.client_id for e in reader.events].count("publisher") == 2
        reader.check(read_log(world))
        world.check_outcomes()
        assert reader.subscription is not None and not reader.gaps


def subscribe(number: int = 1, query: str = "true()", pattern: str = ">") -> Subscribe:
    return Subscribe(number, pattern, query, {}, "", "new", (), 0)


def document(number: int, client_id: str = "talker", incarnation: int = 1) -> bytes:
    event_id = EventId(client_id, 1, number, incarnation)
    return write_event(event_id, "asdi.zbw.tz", FLIGHT, flight(1))


# ----------------------------------------------------------------------------- handshake


def test_silent_connection_is_closed_after_the_timeout(world: World) -> None:
    stranger = RawConnection(world)
    world.run(HANDSHAKE - 0.5)
    assert stranger.packets == [] and not stranger.is_lost
    world.run(1.0)
    assert isinstance(stranger.refusal, PeerSilent) and stranger.is_lost
    assert world.node.acceptor.refused_connections == {"peer-silent": 1}


GARBAGE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x00",
    b"\xff" * 100,
    b"\x01",
    b"\x01" + msgpack.packb([]),
    b"\x01" + msgpack.packb(["xmlbroker", [1], "a", 1, b"t" * 16, ""]),
    b"\x01" + msgpack.packb(["xmlbroker", [1], "a", -1, b"t" * 16, "", ""]),
    b"\x01" + msgpack.packb(["xmlbroker", 1, "a", 1, b"t" * 16, "", ""]),
    b"\x01" + msgpack.packb(["xmlbroker", [1], "a", 1, b"t" * 16, "", ""])[:-1],
    messages.encode(msgspec.structs.replace(hello("a"), magic="amqp")),
    messages.encode(msgspec.structs.replace(hello("a"), token=b"short")),
    messages.encode(msgspec.structs.replace(hello("a"), incarnation=0)),
    messages.encode(msgspec.structs.replace(hello("a"), incarnation=1 << 63)),
    messages.encode(Goodbye()),
    messages.encode(subscribe()),
    encode_batch(1, [b"<e/>"]),
]


@pytest.mark.parametrize("packet", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_before_the_handshake_is_refused(world: World, packet: bytes) -> None:
    stranger = RawConnection(world)
    stranger.channel.send([packet])
    world.run(1.0)
    assert isinstance(stranger.refusal, ProtocolError) and stranger.is_lost
    assert world.node.acceptor.refused_connections == {"protocol": 1}


def test_handshake_of_a_megabyte_is_not_read(world: World) -> None:
    stranger = RawConnection(world)
    stranger.channel.send([b"\x01" * (1 << 20)])
    world.run(1.0)
    assert stranger.is_lost


def test_welcome_carries_the_address_of_the_node(world: World) -> None:
    stranger = RawConnection(world)
    world.node.acceptor._address = lambda: "alps.c1/simulated"
    stranger.channel.send([messages.encode(hello("a"))])
    world.run(1.0)
    welcome = messages.decode(stranger.packets[0])
    assert isinstance(welcome, Welcome) and welcome.address == "alps.c1/simulated"


@pytest.mark.parametrize("versions", [(), (LATER, LATER + 1), tuple(range(100, 200))])
def test_other_protocol_versions_are_refused(world: World, versions: tuple[int, ...]) -> None:
    stranger = RawConnection(world)
    stranger.channel.send([messages.encode(msgspec.structs.replace(hello("a"), versions=versions))])
    world.run(1.0)
    assert isinstance(stranger.refusal, VersionMismatch)


@pytest.mark.parametrize("client_id", ["", "../../etc", "a/b", "a b", "a" * 65, "ä", "a\0b"])
def test_invalid_client_id_is_refused(world: World, client_id: str) -> None:
    stranger = RawConnection(world)
    stranger.channel.send([messages.encode(hello(client_id))])
    world.run(1.0)
    assert stranger.refusal is not None and stranger.refusal.code == "bad-name"


def test_second_hello_in_one_read_is_refused(world: World) -> None:
    stranger = RawConnection(world)
    packet = messages.encode(hello("a"))
    stranger.channel.send([packet, packet])
    world.run(1.0)
    assert isinstance(stranger.refusal, ProtocolError) and stranger.is_lost
    assert len(list(world.node.acceptor.sessions)) == 2


def test_second_hello_after_the_welcome_breaks_only_the_connection(world: World) -> None:
    stranger = RawConnection(world)
    stranger.channel.send([messages.encode(hello("a"))])
    world.run(1.0)
    stranger.channel.send([messages.encode(hello("a"))])
    world.run(1.0)
    assert stranger.is_lost
    assert len(list(world.node.acceptor.sessions)) == 3
    world.run(70.0)
    assert len(list(world.node.acceptor.sessions)) == 2


def test_disconnect_during_the_handshake_leaves_no_session(world: World) -> None:
    for _ in range(20):
        stranger = RawConnection(world)
        stranger.channel.send([messages.encode(hello("a"))])
        world.run(0.0021)
        world.cut_client("stranger")
    world.run(70.0)
    assert len(list(world.node.acceptor.sessions)) == 2


def test_sessions_are_limited(world: World) -> None:
    talkers = [RawSession(world, f"talker-{n}") for n in range(3)]
    stranger = RawConnection(world)
    stranger.channel.send([messages.encode(hello("one-too-many"))])
    world.run(1.0)
    assert isinstance(stranger.refusal, TooManySessions)
    talkers[0].send(Goodbye())
    world.run(1.0)
    RawSession(world, "one-too-many")


def test_simultaneous_handshakes_are_limited(world: World) -> None:
    strangers = [RawConnection(world) for _ in range(8)]
    world.run(1.0)
    refused = [s for s in strangers if isinstance(s.refusal, TooManySessions)]
    assert len(refused) == 3


# ----------------------------------------------------------------------------- session


WRONG = [
    messages.encode(hello("talker")),
    messages.encode(Welcome(1, "n", "o", 1, 1, "n")),
    messages.encode(messages.Refuse(messages.NO_ERROR)),
    messages.encode(Published(1, (), 0, (), ())),
    messages.encode(NotPublished(1, 1, messages.NO_ERROR)),
    messages.encode(Subscribed(1, None, ())),
    messages.encode(Flowing(1, ())),
    messages.encode(Ended(1, messages.NO_ERROR)),
    messages.encode(Progress(())),
    messages.encode(messages.Gap(1, "n", (1, 1), (1, 1), 1, "slow")),
    messages.encode(Answer(1, messages.NO_ERROR, None)),
    b"\x28" + bytes(20),
    b"",
    b"\x00",
    b"\x10",
    b"\x10\xff\xff\xff\xff",
    struct.pack(">BI", 0x10, 1 << 31) + b"x",
    b"\x10" + struct.pack(">I", 4) + msgpack.packb((1, 0, [])) + b"trailing",
    b"\x10" + struct.pack(">I", 6) + msgpack.packb((1, 7, [1])) + b"xx",
    b"\x20" + msgpack.packb([1] * 8),
    b"\x20" + msgpack.packb(subscribe().query),
    b"\x25" + msgpack.packb([[[1, [["n", 1]]]]]),
    messages.encode(subscribe(query="x" * 300_000)),
]


@pytest.mark.parametrize("message", WRONG, ids=range(len(WRONG)))
def test_invalid_or_unexpected_message_ends_the_session(world: World, message: bytes) -> None:
    talker = RawSession(world)
    talker.send(subscribe(1), encode_batch(1, [document(1)]))
    world.run(1.0)
    talker.send(message)
    world.run(1.0)
    assert isinstance(talker.refusal, ProtocolError)
    assert not talker.is_connected
    assert len(list(world.node.acceptor.sessions)) == 2
    assert [m.accepted for m in talker.control_messages if isinstance(m, Published)] == [1]
    RawSession(world, incarnation=2)


def test_random_messages_end_only_their_session(world: World) -> None:
    random = Random(7)
    kinds = [0x04, 0x10, 0x20, 0x23, 0x25, 0x28, 0x30]
    for incarnation in range(1, 300):
        talker = RawSession(world, incarnation=incarnation)
        kind = random.choice([*kinds, random.randrange(256)])
        message = bytes([kind]) + random.randbytes(random.randrange(40))
        talker.send(message)
        world.run(0.1)
        assert not talker.is_connected or talker.control_messages or kind in (0x23, 0x25), message
        assert set(world.node.acceptor.refused_connections) <= {"protocol"}


def test_message_with_a_flipped_bit_ends_the_session_or_is_answered(world: World) -> None:
    random = Random(8)
    valid = [
        encode_batch(1, [document(1), document(2)]),
        messages.encode(subscribe()),
        messages.encode(Unsubscribe(1, True)),
        messages.encode(Acknowledge(((1, (("n", 1, 1),)),))),
        messages.encode(Ask(1, "status", {})),
    ]
    for incarnation in range(1, 300):
        talker = RawSession(world, incarnation=incarnation)
        message = bytearray(random.choice(valid))
        message[random.randrange(len(message))] ^= 1 << random.randrange(8)
        talker.send(bytes(message))
        world.run(0.1)
        assert world.node.event_log.failures == 0


def test_stack_without_state_can_not_resume_a_session(world: World) -> None:
    first = RawSession(world)
    first.send(subscribe(1))
    world.run(1.0)
    # Another stack with the same token has no unacknowledged messages to send again.
    other = RawConnection(world, "talker")
    other.channel.send([messages.encode(hello("talker"))])
    world.run_until(lambda: bool(other.packets))
    second = RawSession.attach_to(world, other, incarnation=99)
    world.run(2.0)
    assert isinstance(second.refusal, ProtocolError)
    assert len(list(world.node.acceptor.sessions)) == 2


# ----------------------------------------------------------------------------- refused requests


def test_invalid_requests_are_refused_and_the_session_goes_on(world: World) -> None:
    talker = RawSession(world)
    wrong = {
        1: subscribe(1, "///"),
        2: subscribe(2, pattern="../etc"),
        3: subscribe(3, pattern="a.>.b"),
        4: msgspec.structs.replace(subscribe(4), start="tomorrow"),
        5: msgspec.structs.replace(subscribe(5), durable="a/b"),
        6: msgspec.structs.replace(subscribe(6), start="position", position=(("x" * 16, 1, 1),)),
        7: subscribe(7, "count(" * 200 + "//*" + ")" * 200),
        # Only a replay with an end has a range of the events' own times, and some are in it.
        10: msgspec.structs.replace(subscribe(10), event_times=(0, 5)),
        11: msgspec.structs.replace(subscribe(11), event_times=(5, 5), until_ms=9),
        12: msgspec.structs.replace(subscribe(12), event_times=(0, 5), until_ms=9, durable="d"),
    }
    talker.send(*wrong.values(), Unsubscribe(77, False), Acknowledge(((88, ()),)))
    talker.send(Ask(5, "the time", {}), subscribe(9), subscribe(9))
    world.run(1.0)
    ended = {m.number: m.error[0] for m in talker.control_messages if isinstance(m, Ended)}
    assert ended == {
        1: "bad-query",
        2: "bad-name",
        3: "bad-name",
        4: "bad-query",
        5: "bad-name",
        7: "query-too-expensive",
        9: "bad-name",
        **dict.fromkeys((10, 11, 12), "bad-position"),
        77: "unknown-subscription",
    }
    assert [m.number for m in talker.control_messages if isinstance(m, Flowing)] == [6, 9]
    assert [m.error[0] for m in talker.control_messages if isinstance(m, Answer)] == ["protocol"]
    assert talker.is_connected


def test_position_from_the_future_ends_its_subscription(world: World) -> None:
    talker = RawSession(world)
    talker.send(msgspec.structs.replace(subscribe(1), durable="d"), subscribe(2))
    world.run(1.0)
    origin = world.node.event_log.origin
    future = (world.node.event_log.bounds.epoch + 1, 999)
    talker.send(Acknowledge(((1, ((origin, *future),)), (2, ((origin, *future),)))))
    world.run(1.0)
    assert [(m.number, m.error[0]) for m in talker.control_messages if isinstance(m, Ended)] == [
        (1, "bad-position")
    ]
    stored = world.node.durables.get("talker", "d")
    assert stored is not None and stored.position.marks[origin] < future


def test_forged_ids_are_refused_one_by_one(world: World) -> None:
    talker = RawSession(world)
    talker.send(
        encode_batch(
            1,
            [
                document(1),
                document(2, client_id="publisher"),
                document(3, incarnation=2),
                document(4),
                document(1),
            ],
        )
    )
    world.run(1.0)
    (answer,) = [m for m in talker.control_messages if isinstance(m, Published)]
    assert (answer.accepted, answer.duplicates) == (2, (4,))
    assert [(i, e[0]) for i, e in answer.refused] == [
        (1, "forged-identity"),
        (2, "forged-identity"),
    ]
    assert world.node.input.outcomes.refused == {"forged-identity": 2}


def test_empty_batch_is_answered(world: World) -> None:
    talker = RawSession(world)
    talker.send(encode_batch(1, []))
    world.run(1.0)
    (answer,) = [m for m in talker.control_messages if isinstance(m, Published)]
    assert (answer.accepted, answer.first) == (0, ())


def test_client_that_never_reads_answers_loses_its_session(world: World) -> None:
    talker = RawSession(world)
    talker.channel.pause()
    for request in range(10_000):
        talker.send(Ask(request, "status", {}))
        if request % 500 == 0:
            world.run(0.05)
        if len(list(world.node.acceptor.sessions)) == 2:
            return
    raise AssertionError("it could have gone on like that")
