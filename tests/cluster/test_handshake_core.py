from __future__ import annotations

import random
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.address import Address
from broker.cluster.descriptor import Endpoint
from broker.cluster.handshake_core import (
    HANDSHAKE_TIMEOUT,
    Accepted,
    Admission,
    Effect,
    HandshakeState,
    Initiator,
    Refusal,
    Refused,
    Responder,
    Send,
)
from broker.cluster.handshake_messages import (
    LINKS,
    MAGIC,
    MEMBER,
    MOST_ALTERNATIVES,
    NONCE_BYTES,
    Alternative,
    NodeChallenge,
    NodeHello,
    NodeProof,
    NodeRefuse,
    NodeWelcome,
)
from broker.cluster.map.name_bindings import SignedDescriptor, prove_descriptor
from broker.cluster.messages import Message, decode, encode
from broker.errors import (
    AuthenticationFailed,
    Cloned,
    ClusterFull,
    NameTaken,
    PeerSilent,
    ProtocolError,
    VersionMismatch,
    WrongNetwork,
)
from broker.order_certificates.signing_key import SigningKey
from broker.wire.codec import pack
from tests.cluster.sample_nodes import a_node

_S = TypeVar("_S", Initiator, Responder)
KEY = b"a key that all share"
NONCE = bytes(range(NONCE_BYTES))
N1, N2, N3 = a_node("c/n1"), a_node("c/n2"), a_node("c/n3")
ELSEWHERE = Alternative(Address(("d",), "n9"), Endpoint("n9", 4000))
HELLO = NodeHello(MAGIC, (1,), "net", N1, MEMBER, ("c",), NONCE)
MESSAGES: list[Message] = [
    HELLO,
    NodeChallenge(N2, NONCE),
    NodeProof(bytes(32)),
    NodeWelcome(1, N2, ("c",), 5, (N2, N3), bytes(32)),
    NodeRefuse(ClusterFull("full").to_wire(), ("c",), (ELSEWHERE,)),
]


def dialling(key: bytes | None = None, **fields: object) -> Initiator:
    settings = {"purpose": MEMBER, "cluster": ("c",), **fields}
    return Initiator(N1, "net", key, **settings)  # type: ignore[arg-type]


def answering(key: bytes | None = None, **fields: object) -> Responder:
    def let_in(hello: NodeHello, trusted: bool) -> Admission:
        return Admission(hello.node._replace(admitted=77), (N2, N3))

    settings = {"node": N2, "network": "net", "decide": let_in, **fields}
    side = Responder(key=key, **settings)  # type: ignore[arg-type]
    side.start(0.0)
    return side


def converse(one: Initiator, other: Responder) -> tuple[list[Effect], list[Effect]]:
    """Return the results at both sides, with all messages on the wire."""
    ends: dict[object, list[Effect]] = {id(one): [], id(other): []}
    to_do: list[tuple[Initiator | Responder, Effect]] = [(one, effect) for effect in one.start(0.0)]
    while to_do:
        side, effect = to_do.pop(0)
        if isinstance(effect, Send):
            far: Initiator | Responder = other if side is one else one
            to_do += [
                (far, each) for each in far.receive_message(decode(encode(effect.message)), 0.1)
            ]
        else:
            ends[id(side)].append(effect)
    assert one.state is other.state is HandshakeState.ENDED
    assert one.next_timeout() is other.next_timeout() is None
    return ends[id(one)], ends[id(other)]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_round_trips_on_the_wire(message: Message) -> None:
    assert decode(encode(message)) == message


@given(st.sampled_from(MESSAGES), st.randoms(use_true_random=False))
def test_damaged_bytes_decode_or_raise_protocol_error(message: Message, rng: random.Random) -> None:
    data = bytearray(encode(message))
    for _damage in range(rng.randint(1, 3)):
        data[rng.randrange(1, len(data))] = rng.randrange(256)
    cut = rng.randint(1, len(data))
    for damaged in (bytes(data), bytes(data[:cut])):
        try:
            assert isinstance(decode(damaged), Message)
        except ProtocolError:
            pass


@pytest.mark.parametrize(
    "wrong",
    [
        {"purpose": "spy"},
        {"network": "n" * 65},
        {"nonce": b"short"},
        {"cluster": ("a b",)},
        {"cluster": ("a",) * 9},
        {"node": (1, 2)},
    ],
)
def test_fields_of_a_hello_are_checked(wrong: dict[str, object]) -> None:
    fields = msgspec.structs.asdict(HELLO) | wrong

    with pytest.raises(ProtocolError):
        decode(bytes([NodeHello.kind]) + pack(tuple(fields.values())))


def test_lists_are_bounded() -> None:
    error = ClusterFull("full").to_wire()
    decode(encode(NodeRefuse(error, (), (ELSEWHERE,) * MOST_ALTERNATIVES)))
    decode(encode(NodeWelcome(1, N2, ("c",), 5, (N2,) * 1024)))
    with pytest.raises(ProtocolError, match="length <= 32"):
        decode(encode(NodeRefuse(error, (), (ELSEWHERE,) * (MOST_ALTERNATIVES + 1))))
    with pytest.raises(ProtocolError, match="length <= 1024"):
        decode(encode(NodeWelcome(1, N2, ("c",), 5, (N2,) * 1025)))


def test_repr_omits_the_proof() -> None:
    assert "00" not in repr(NodeProof(bytes(32)))
    assert KEY.decode() not in repr(dialling(KEY))


def test_without_a_key_the_link_is_not_trusted() -> None:
    (at_one,), (at_other,) = converse(dialling(), answering())
    assert at_one == Accepted(N2, False, 1, MEMBER, members=(N2, N3), admitted=77)
    assert at_other == Accepted(N1._replace(admitted=77), False, 1, MEMBER)


def certified(side: _S, name: str) -> _S:
    side.certified_name = lambda: name
    return side


def test_a_certificate_alone_makes_a_link_trusted() -> None:
    one, other = certified(dialling(), N2.name), certified(answering(), N1.name)
    (at_one,), (at_other,) = converse(one, other)
    assert isinstance(at_one, Accepted) and at_one.trusted
    assert isinstance(at_other, Accepted) and at_other.trusted


@pytest.mark.parametrize("key", [None, KEY])
def test_a_certificate_of_another_node_is_refused(key: bytes | None) -> None:
    (_,), (refused,) = converse(dialling(key), certified(answering(key), "n9"))
    assert isinstance(refused, Refused)
    assert str(refused.error) == "n1 has the certificate of n9"
    (refused,), (_,) = converse(certified(dialling(key), "n9"), answering(key))
    assert isinstance(refused, Refused)
    assert str(refused.error) == "n2 has the certificate of n9"


def test_a_common_key_makes_both_sides_trusted() -> None:
    asked: list[bool] = []

    def decide(hello: NodeHello, trusted: bool) -> Admission:
        asked.append(trusted)
        return Admission(hello.node)

    (at_one,), (at_other,) = converse(dialling(KEY), answering(KEY, decide=decide))
    assert isinstance(at_one, Accepted) and at_one.trusted
    assert isinstance(at_other, Accepted) and at_other.trusted
    assert asked == [True]


def test_the_highest_common_version_is_negotiated() -> None:
    one = dialling()
    one.node = N1._replace(versions=(1, 2, 3))
    other = answering(node=N2._replace(versions=(1, 2)))
    (at_one,), _at_other = converse(one, other)
    assert isinstance(at_one, Accepted) and at_one.version == 2


def test_a_refusal_carries_alternatives() -> None:
    def decide(hello: NodeHello, trusted: bool) -> Refusal:
        return Refusal(ClusterFull("no room"), (ELSEWHERE,))

    (at_one,), (at_other,) = converse(dialling(), answering(decide=decide))
    assert isinstance(at_one, Refused) and isinstance(at_other, Refused)
    assert isinstance(at_one.error, ClusterFull) and at_one.by_peer
    assert at_one.alternatives == (ELSEWHERE,)
    assert at_one.cluster == ("c",)


@pytest.mark.parametrize("version", [5, 6])
def test_a_refused_clone_gets_the_descriptor_of_the_later_process(version: int) -> None:
    later = SignedDescriptor(N1, prove_descriptor(SigningKey.generate(), N1))

    def decide(hello: NodeHello, trusted: bool) -> Refusal:
        return Refusal(Cloned("two processes"), later=(later,))

    one = dialling()
    one.node = N1._replace(versions=(1, version))
    (at_one,), _ = converse(one, answering(decide=decide))
    assert isinstance(at_one, Refused) and isinstance(at_one.error, Cloned)
    assert at_one.later == ((later,) if version == 6 else ())


@pytest.mark.parametrize(
    ("one", "other", "error"),
    [
        (dialling(KEY), answering(b"another"), AuthenticationFailed),
        (dialling(), answering(KEY), AuthenticationFailed),
        (dialling(KEY), answering(), AuthenticationFailed),
        (dialling(), answering(network="other"), WrongNetwork),
        (dialling(), answering(node=a_node("c/n2", versions=(2,))), VersionMismatch),
        (dialling(expected_name="n7"), answering(), NameTaken),
        (dialling(), answering(node=a_node("c/n1")), NameTaken),
        (dialling(), answering(node=a_node("d/n2")), WrongNetwork),
        (dialling(cluster=()), answering(node=a_node("d/n2")), None),
    ],
)
def test_both_sides_get_the_error(
    one: Initiator, other: Responder, error: type[Exception] | None
) -> None:
    (at_one,), at_other = converse(one, other)
    if error is None:
        assert isinstance(at_one, Accepted)
    else:
        assert isinstance(at_one, Refused)
        assert isinstance(at_one.error, error)
        # The responder may have sent its welcome already: then the initiator closes.
        assert isinstance(at_other[-1], Refused | Accepted)


def test_a_proof_can_not_be_replayed() -> None:
    first, second = answering(KEY), answering(KEY)
    one = dialling(KEY)
    (hello,) = one.start(0.0)
    assert isinstance(hello, Send)
    (challenge,) = first.receive_message(hello.message, 0.0)
    assert isinstance(challenge, Send)
    (proof,) = one.receive_message(challenge.message, 0.0)
    assert isinstance(proof, Send)
    second.receive_message(hello.message, 0.0)
    assert isinstance(second.receive_message(proof.message, 0.0)[-1], Refused)
    assert isinstance(first.receive_message(proof.message, 0.0)[-1], Accepted)


def test_unexpected_messages_are_refused_in_every_state() -> None:
    for key, steps in ((None, 0), (KEY, 0), (KEY, 1)):
        for message in MESSAGES:
            side = answering(key)
            for _step in range(steps):
                side.receive_message(HELLO, 0.0)
            welcome = isinstance(message, NodeHello) and not steps
            effects = side.receive_message(message, 0.0)
            if isinstance(message, NodeRefuse):
                assert [type(each) for each in effects] == [Refused]
            elif not welcome:
                assert [type(each) for each in effects] == [Send, Refused]
            assert side.receive_message(message, 0.0) == [] or welcome and key


def test_the_initiator_refuses_a_second_challenge_and_a_hello() -> None:
    for message in (HELLO, NodeProof(bytes(32))):
        side = dialling(KEY)
        side.start(0.0)
        assert isinstance(side.receive_message(message, 0.0)[-1], Refused)
    side = dialling(KEY)
    side.start(0.0)
    side.receive_message(NodeChallenge(N2, NONCE), 0.0)
    refused = side.receive_message(NodeChallenge(N2, NONCE), 0.0)[-1]
    assert isinstance(refused, Refused) and isinstance(refused.error, ProtocolError)


def test_a_modified_welcome_is_refused() -> None:
    one, other = dialling(KEY), answering(KEY)
    (hello,) = one.start(0.0)
    (challenge,) = other.receive_message(hello.message, 0.0)  # type: ignore[union-attr]
    (proof,) = one.receive_message(challenge.message, 0.0)  # type: ignore[union-attr]
    welcome = other.receive_message(proof.message, 0.0)[0]  # type: ignore[union-attr]
    assert isinstance(welcome, Send)
    changed = msgspec.structs.replace(welcome.message, admitted=0)
    refused = one.receive_message(changed, 0.0)[-1]
    assert isinstance(refused, Refused) and isinstance(refused.error, AuthenticationFailed)


@pytest.mark.parametrize("side", [dialling(), answering()], ids=["dialling", "answering"])
def test_a_silent_peer_ends_the_handshake(side: Initiator | Responder) -> None:
    side.start(5.0)
    assert side.next_timeout() == 5.0 + HANDSHAKE_TIMEOUT
    assert side.handle_timeout(5.1) == []
    told, refused = side.handle_timeout(5.0 + HANDSHAKE_TIMEOUT)
    assert isinstance(told, Send) and isinstance(refused, Refused)
    assert isinstance(refused.error, PeerSilent)
    assert side.next_timeout() is None
    assert (
        side.handle_timeout(99.0)
        == side.connection_lost()
        == side.reject_malformed(ProtocolError("x"))
        == []
    )


def test_garbage_or_a_lost_connection_ends_the_handshake() -> None:
    side = answering()
    assert isinstance(side.reject_malformed(ProtocolError("garbage"))[-1], Refused)
    (refused,) = answering().connection_lost()
    assert isinstance(refused, Refused)


@given(st.lists(st.sampled_from([0, 1, 2, 3, 4, -1]), max_size=8), st.booleans(), st.booleans())
def test_a_handshake_ends_once_for_any_messages(steps: list[int], keyed: bool, dials: bool) -> None:
    side = dialling(KEY if keyed else None) if dials else answering(KEY if keyed else None)
    effects = side.start(0.0)
    for step in steps:
        effects += side.connection_lost() if step < 0 else side.receive_message(MESSAGES[step], 0.0)
    effects += side.handle_timeout(HANDSHAKE_TIMEOUT)
    ends = [each for each in effects if not isinstance(each, Send)]
    assert len(ends) == 1
    assert effects[-1] is ends[0]


def test_a_proof_has_the_bytes_of_a_digest_or_none() -> None:
    for proof in (b"", bytes(32)):
        NodeProof(proof)
        NodeWelcome(1, N2, ("c",), 5, (), proof)
    for make in (NodeProof, lambda proof: NodeWelcome(1, N2, ("c",), 5, (), proof)):
        with pytest.raises(ValueError, match="not a proof"):
            make(bytes(31))


@pytest.mark.parametrize(
    ("purpose", "cluster", "place"),
    [
        (MEMBER, ("c",), "one of a node's network.listen"),
        (MEMBER, (), "one of a node's network.listen"),
        (f"{LINKS}radar", (), "that of the links of a node's stack"),
        (f"{LINKS}radar", ("c",), "one of a node's network.listen"),
    ],
)
def test_a_lost_connection_names_the_address_to_check(
    purpose: str, cluster: tuple[str, ...], place: str
) -> None:
    side = dialling(purpose=purpose, cluster=cluster)
    side.start(0.0)
    (refused,) = side.connection_lost()
    assert isinstance(refused, Refused) and f"the address must be {place}," in str(refused.error)
    (refused,) = answering().connection_lost("reset by the peer")
    assert isinstance(refused, Refused) and str(refused.error).endswith(": reset by the peer")
    proving = dialling(KEY, purpose=purpose, cluster=cluster)
    proving.start(0.0)
    proving.receive_message(NodeChallenge(N2, NONCE), 0.0)
    (refused,) = proving.connection_lost()
    assert isinstance(refused, Refused) and str(refused.error).endswith("in the handshake")
