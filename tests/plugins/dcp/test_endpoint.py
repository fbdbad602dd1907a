"""Connections of one node: handshakes, bounds and ends."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from broker.transport.arq.link_mac import LINK_TAG_BYTES
from broker.transport.arq.mac import TAG_BYTES
from broker.transport.arq.wire import HELLO, OPEN, REFUSE, Reason, decode_reason
from plugins.dcp.control import Leaving
from plugins.dcp.packet import (
    ACK,
    EXTENDED,
    FIN,
    KEEPALIVE,
    NACK,
    STREAM,
    SYN,
    Packet,
    decode,
    encode,
    encode_extended,
)
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import DESCRIPTION, make_range
from tests.plugins.dcp.endpoint_network import Network, Node, connect, handshakes_to

#: Accepted connections that are not children's.
MOST_OTHERS = 32
MOST_ANSWERS = 8


def encode_short(flags: int, an: int, previous: int, *ids: int) -> bytes:
    """Return a short header for events of a sequence that the child knows, else an extended one."""
    if flags & (SYN | STREAM | ACK | NACK | KEEPALIVE):
        return encode_extended(flags, an, previous, *ids)
    return encode(Packet(flags, an, previous, b""))


def test_events_come_with_the_short_header() -> None:
    network = Network("c", "p")
    _, accepted = connect(network)
    sequence = accepted.buffer.open(DESCRIPTION, 0)
    assert sequence is not None
    with patch("plugins.dcp.packet_writer.encode_extended", encode_short):
        for an in range(1, 9):
            accepted.buffer.append(sequence, make_range(an - 1, an, an))
            network.run(0.1)
    assert network["c"].owner.ans == [*range(1, 9)]
    short = [data for _, to, data in network.carried if to == "c" and not data[1] & EXTENDED]
    assert len(short) == 7
    # Of an address without a connection they are of none.
    network["c"].endpoint.receive("x", short[-1], network.now)
    assert network["c"].endpoint.counts.unknown_connection == 1


# ------------------------------------------------------------------ handshake


def test_a_handshake_connects_both() -> None:
    network = Network("c", "p")
    dialled, accepted = connect(network)
    assert (dialled.is_dialled, accepted.is_dialled) == (True, False)
    assert (dialled.peer, accepted.peer) == ("p", "c")
    assert (dialled.own_id, dialled.remote_id) == (accepted.remote_id, accepted.own_id)
    assert network["c"].owner.connected_to == [dialled]
    assert network["p"].owner.connected_to == [accepted]
    dialled.send_control(Leaving())
    network.run(0.1)
    assert network["p"].owner.messages == [Leaving()]


@pytest.mark.parametrize("seed", range(30))
def test_a_handshake_with_loss(seed: int) -> None:
    network = Network("c", "p", seed=seed, loss=0.3)
    network["c"].endpoint.dial("p", 0.0)
    network.run(3.5)
    network.loss = 0.0
    connected = network["c"].owner.connected_to
    if connected:
        connected[0].send_control(Leaving())
    network.run(5.0)
    # Each request that got through has opened one connection, or the dial has failed.
    assert len(network["p"].owner.connected_to) <= 1
    assert bool(connected) != (network["c"].owner.failed_dials == ["p"])
    assert network["p"].owner.messages == [Leaving()] * len(connected)
    assert network["c"].endpoint.uses("p") == bool(connected)


def test_most_handshakes_with_loss_connect() -> None:
    networks = [Network("c", "p", seed=seed, loss=0.3) for seed in range(50)]
    for network in networks:
        network["c"].endpoint.dial("p", 0.0)
        network.run(3.5)
    assert sum(len(each["c"].owner.connected_to) for each in networks) >= 48


def test_a_peer_that_does_not_answer() -> None:
    network = Network("c")
    network["c"].endpoint.dial("p", 0.0)
    assert network["c"].endpoint.uses("p")
    network.run(2.9)
    assert network["c"].owner.failed_dials == []
    network.run(0.2)
    assert network["c"].owner.failed_dials == ["p"] and network["c"].connections == []
    assert network["c"].endpoint.next_timeout() is None
    assert not network["c"].endpoint.uses("p")
    assert len(network["c"].sent) < 15


def test_a_peer_is_dialled_once() -> None:
    network = Network("c", "p")
    for _ in range(3):
        network["c"].endpoint.dial("p", network.now)
    assert len(network["c"].sent) == 1
    network.run(0.1)
    network["c"].endpoint.dial("p", network.now)
    network.run(0.1)
    assert len(handshakes_to(network, "p", HELLO)) == 1 and network["c"].only.is_dialled


def test_two_nodes_may_dial_each_other() -> None:
    network = Network("c", "p")
    network["c"].endpoint.dial("p", 0.0)
    network["p"].endpoint.dial("c", 0.0)
    network.run(0.5)
    for node in network.nodes.values():
        assert sorted(each.is_dialled for each in node.endpoint) == [False, True]


# ------------------------------------------------------------------ bounds


def test_the_number_of_connections_is_bounded() -> None:
    most = 3 + MOST_OTHERS
    names = [f"c{number}" for number in range(most + 2)]
    network = Network("p", *names, settings=DcpSettings(children=3))
    for name in names:
        network[name].endpoint.dial("p", network.now)
        network.run(0.05)
    assert len(network["p"].connections) == most and network["p"].endpoint.counts.refused == 2
    assert [name for name in names if network[name].owner.failed_dials] == names[most:]
    for name in names[most:]:
        (refusal,) = handshakes_to(network, name, REFUSE)
        body = decode(refusal).body
        assert decode_reason(body[:-LINK_TAG_BYTES]) == Reason.FULL
    # There is room again when one has ended.
    network["p"].endpoint.close(network["p"].connections[0], "moved", network.now)
    network[names[-1]].endpoint.dial("p", network.now)
    network.run(0.1)
    assert network[names[-1]].only.is_dialled


def test_a_newer_connection_of_a_peer_replaces_the_last_one() -> None:
    network = Network("c", "p")
    _, accepted = connect(network)
    # The peer has begun again, with other ids.
    network.nodes["c"] = Node("c", network, DcpSettings(), seed="again")
    connect(network)
    assert accepted.error == "a newer connection of the peer"
    assert network["p"].owner.disconnected_from == [accepted]
    assert network["p"].only.error == "" and network["p"].only is not accepted


def test_a_connection_that_has_proven_no_key_replaces_none() -> None:
    """A peer has begun again, and its earlier request is replayed."""
    network = Network("c", "p")
    connect(network)
    (request,) = handshakes_to(network, "p", OPEN)
    network.nodes["c"] = Node("c", network, DcpSettings(), seed="again")
    dialled, accepted = connect(network)
    node = network["p"]
    assert node.only is accepted
    node.endpoint.receive("c", request, network.now)
    replayed = node.owner.connected_to[-1]
    assert replayed is not accepted and accepted.error == ""
    network.run(30.0)
    # Its peer is silent.
    assert replayed.error in ("silent", "lagging") and replayed.received == 0
    assert node.only is accepted and dialled.error == accepted.error == ""
    dialled.send_control(Leaving())
    network.run(0.1)
    assert node.owner.messages == [Leaving()]


def test_forged_packets_of_a_newer_connection_replace_none() -> None:
    network = Network("c", "p")
    connect(network)
    (request,) = handshakes_to(network, "p", OPEN)
    network.nodes["c"] = Node("c", network, DcpSettings(), seed="again")
    _, accepted = connect(network)
    node = network["p"]
    node.endpoint.receive("c", request, network.now)
    replayed = node.owner.connected_to[-1]
    for flags in (0, KEEPALIVE, FIN):
        packet = Packet(flags | EXTENDED, 9, 5, b"", replayed.own_id)
        node.endpoint.receive("c", encode(packet) + bytes(TAG_BYTES), network.now)
    assert replayed.malformed == 3 and accepted.error == replayed.error == ""


# ------------------------------------------------------------------ ends


def test_a_closed_connection_ends_the_other_end() -> None:
    network = Network("c", "p")
    dialled, accepted = connect(network)
    network["p"].endpoint.close(accepted, "moved", network.now)
    network.run(0.1)
    assert dialled.error == accepted.error == "moved"
    assert network["c"].owner.disconnected_from == [dialled]
    assert network["p"].owner.disconnected_from == [accepted]
    assert network["c"].connections == network["p"].connections == []


def test_a_peer_that_does_not_know_of_the_end_gets_fin_again() -> None:
    network = Network("c", "p")
    dialled, accepted = connect(network)
    network.drops = lambda receiver, data: receiver == "c"
    network["p"].endpoint.close(accepted, "moved", network.now)
    network.run(0.1)
    network.drops = lambda receiver, data: False
    assert dialled.error == ""
    network.run(5.0)
    assert dialled.error == "moved"


def test_fin_is_sent_again_a_few_times_only() -> None:
    network = Network("c", "p")
    _, accepted = connect(network)
    node = network["p"]
    node.endpoint.close(accepted, "moved", network.now)
    fin, sent = node.sent[-1], len(node.sent)
    packet = encode(Packet(KEEPALIVE | EXTENDED, 9, 5, b"", accepted.own_id)) + bytes(TAG_BYTES)
    node.endpoint.receive("elsewhere", packet, network.now)
    assert len(node.sent) == sent
    for _ in range(50):
        node.endpoint.receive("c", packet, network.now)
    assert node.sent[sent:] == [fin] * MOST_ANSWERS
    assert decode(fin[:-TAG_BYTES]).flags & FIN
    assert node.endpoint.counts.unknown_connection == 51


def test_only_fin_of_this_end_is_sent_again() -> None:
    network = Network("c", "p")
    dialled, accepted = connect(network)
    node = network["p"]
    network.drops = lambda receiver, data: True
    network["c"].endpoint.close(dialled, "leaving", network.now)
    # An acknowledgement waits when FIN of the other end comes.
    accepted.writer.write(ACK | KEEPALIVE, 9, 5, network.now)
    node.endpoint.receive("c", network["c"].sent[-1], network.now)
    assert accepted.error == "leaving" and node.connections == []
    sent = len(node.sent)
    packet = encode(Packet(KEEPALIVE | EXTENDED, 9, 5, b"", accepted.own_id)) + bytes(TAG_BYTES)
    for _ in range(3):
        node.endpoint.receive("c", packet, network.now)
    assert len(node.sent) == sent and node.endpoint.counts.unknown_connection == 3


def test_a_packet_of_another_address_is_not_of_the_connection() -> None:
    network = Network("c", "p")
    dialled, accepted = connect(network)
    dialled.send_control(Leaving())
    for data in dialled.flush(network.now):
        network["p"].endpoint.receive("elsewhere", data, network.now)
    assert network["p"].owner.messages == []
    assert network["p"].endpoint.counts.unknown_connection > 0 and accepted.malformed == 0
