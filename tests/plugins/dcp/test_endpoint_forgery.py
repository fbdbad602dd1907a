"""Handshakes that are repeated, forged or damaged."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.transport.arq.counters import HandshakeCounts
from broker.transport.arq.handshake import (
    UNKEYED_MAC,
    Acceptor,
    Dialler,
    DialStep,
    HandshakeRequest,
)
from broker.transport.arq.link_mac import KEY_BYTES, LINK_TAG_BYTES
from broker.transport.arq.mac import TAG_BYTES
from broker.transport.arq.wire import OPEN, REFUSE, Reason, decode_reason
from plugins.dcp.endpoint import Endpoint
from plugins.dcp.packet import decode
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.endpoint_network import Network, Node, connect, handshakes_to, wrap

# ------------------------------------------------------------------ repeated and forged requests


def test_a_repeated_request_gets_the_same_answer_and_one_connection() -> None:
    network = Network("c", "p")
    connect(network)
    (request,) = handshakes_to(network, "p", OPEN)
    node = network["p"]
    before, connection = [*node.sent], node.only
    for _ in range(3):
        node.endpoint.receive("c", request, network.now)
    assert node.only is connection and node.owner.connected_to == [connection]
    answers = node.sent[len(before) :]
    assert answers[0] in before and answers == [answers[0]] * 3
    network.run(0.5)
    assert network["c"].only.error == node.only.error == ""


def test_a_request_without_a_proven_address_stores_nothing() -> None:
    network = Network("c", "p")
    connect(network, "c", "p")
    (request,) = handshakes_to(network, "p", OPEN)
    fresh = Network("p")["p"]
    # Cookies of another secret, of another address, and changed ones.
    other = Endpoint(DcpSettings(), fresh.owner, lambda peer, packets: None, Random(9).randbytes)
    other.receive("c", request, network.now)
    node = network["p"]
    node.endpoint.receive("elsewhere", request, network.now)
    contents = decode(request).body
    behind = KEY_BYTES + LINK_TAG_BYTES
    for place in range(len(contents) - behind - 24, len(contents) - behind):
        forged = bytearray(contents)
        forged[place] ^= 1
        node.endpoint.receive("d", wrap(bytes(forged)), network.now)
    assert node.endpoint.counts.bad_cookies == 25 and other.counts.bad_cookies == 1
    assert node.only.peer == "c" and [*other] == [] and fresh.owner.connected_to == []


def test_cookies_expire() -> None:
    network = Network("c", "p")
    connect(network)
    (request,) = handshakes_to(network, "p", OPEN)
    node = network["p"]
    node.endpoint.close(node.only, "moved", network.now)
    node.endpoint.receive("c", request, 100.0)
    assert node.connections == [] and node.endpoint.counts.bad_cookies == 1


def of_version(version: int, hello: bytes) -> bytes:
    return UNKEYED_MAC.add_tag(hello[:9] + bytes([version]) + hello[10:-TAG_BYTES])


def test_a_request_of_another_version_is_refused() -> None:
    network = Network("p")
    hello = Dialler(5, bytes, 0, 0.0).next_datagram(0.0)
    network["p"].endpoint.receive("c", wrap(of_version(9, hello)), 0.0)
    (answer,) = network["p"].sent
    assert decode(answer).connection == 5 and decode(answer).body[0] == REFUSE
    assert decode_reason(decode(answer).body[:-TAG_BYTES]) == Reason.VERSION
    assert network["p"].connections == []


def test_the_cookie_is_shorter_than_its_request() -> None:
    network = Network("p")
    hello = wrap(Dialler(5, bytes, 0, 0.0).next_datagram(0.0))
    network["p"].endpoint.receive("c", hello, 0.0)
    assert [len(data) < len(hello) for data in network["p"].sent] == [True]


# ------------------------------------------------------------------ ids above 32 bits


@pytest.mark.parametrize("version", [1, 2, 9])
def test_a_first_request_with_a_large_id_is_malformed(version: int) -> None:
    node = Network("p")["p"]
    hello = Dialler(2**32 + 5, bytes, 0, 0.0).next_datagram(0.0)
    node.endpoint.receive("c", wrap(of_version(version, hello)), 0.0)
    assert node.sent == [] and node.endpoint.counts.malformed == 1


def test_a_request_with_a_cookie_and_a_large_id_is_malformed() -> None:
    node = Network("p")["p"]
    # It has the secret of the node: cookies for such ids are not sent.
    acceptor = Acceptor(Random("p").randbytes, HandshakeCounts())
    for client in (2**32, 2**64 - 1):
        dialler = Dialler(client, bytes, 0, 0.0)
        cookie = acceptor.receive(dialler.next_datagram(0.0), "c", 0.0)
        assert isinstance(cookie, bytes) and dialler.receive(cookie, 0.0) is DialStep.SEND_NOW
        node.endpoint.receive("c", wrap(dialler.next_datagram(0.0)), 0.0)
    assert node.endpoint.counts.malformed == 2 and node.endpoint.counts.bad_cookies == 0
    assert node.connections == [] and node.sent == []


def answer_dial(own_id: int) -> Node:
    """Return a node whose dial was accepted by a listener with an id."""
    node = Network("c")["c"]
    acceptor = Acceptor(Random(1).randbytes, HandshakeCounts())
    node.endpoint.dial("p", 0.0)
    cookie = acceptor.receive(decode(node.sent[-1]).body, "c", 0.0)
    assert isinstance(cookie, bytes)
    client = int.from_bytes(cookie[1:9], "big")
    node.endpoint.receive("p", wrap(cookie, client), 0.0)
    request = acceptor.receive(decode(node.sent[-1]).body, "c", 0.0)
    assert isinstance(request, HandshakeRequest)
    _, accept = acceptor.accept(request, own_id, Random(1).randbytes, 0, 0.0)
    node.endpoint.receive("p", wrap(accept, client), 0.0)
    node.endpoint.flush(0.0)
    return node


def test_an_answer_with_a_large_id_fails_the_dial() -> None:
    accepted = answer_dial(2**32 - 1)
    assert accepted.only.remote_id == 2**32 - 1 and accepted.owner.failed_dials == []
    for own_id in (2**32, 2**64 - 1):
        failed = answer_dial(own_id)
        assert failed.owner.failed_dials == ["p"] and failed.owner.connected_to == []
        assert failed.connections == [] and not failed.endpoint.uses("p")


# ------------------------------------------------------------------ hostile datagrams


HEADS = st.sampled_from([b"\x10", b"\x11", b"\x18", b"\x20"])
BODIES = st.one_of(
    st.binary(max_size=100),
    st.builds(
        lambda kind, client, rest: bytes([kind]) + client.to_bytes(8, "big") + rest,
        st.integers(0, 12),
        st.integers(0, 2**32 - 1) | st.integers(0, 2**64 - 1),
        st.binary(max_size=90),
    ),
)


@st.composite
def datagrams(draw: st.DrawFn) -> bytes:
    """Return bytes that are like a packet, or of a handshake."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=120))
    head = draw(HEADS) + bytes([draw(st.integers(0, 255))])
    ids = draw(st.sampled_from([0, 1, 5])).to_bytes(4, "big") + bytes(4)
    return head + bytes(18) + ids + draw(BODIES)


@given(st.lists(datagrams(), max_size=10))
def test_any_datagrams_are_handled(found: list[bytes]) -> None:
    network = Network("c", "p")
    dialled, accepted = connect(network)
    network["c"].endpoint.dial("q", network.now)
    for data in found:
        for node in network.nodes.values():
            for peer in ("c", "p", "q", "elsewhere"):
                node.endpoint.receive(peer, data, network.now)
    network.run(1.0)
    assert network["c"].only is dialled and network["p"].only is accepted
    assert dialled.error == accepted.error == ""


@pytest.mark.parametrize("seed", range(5))
def test_damaged_handshakes_open_nothing(seed: int) -> None:
    network, random = Network("c", "p"), Random(seed)
    connect(network)
    fresh = Network("c", "p")
    fresh["c"].endpoint.dial("p", 0.0)
    for _, receiver, data in network.carried * 20:
        damaged = bytearray(data)
        damaged[random.randrange(len(data))] ^= 1 << random.randrange(8)
        for peer in ("c", "p"):
            fresh[receiver].endpoint.receive(peer, bytes(damaged), 0.0)
    assert fresh["c"].connections == fresh["p"].connections == []
