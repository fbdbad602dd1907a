"""Connections of one node: dialled, accepted and told apart (T41, T43).

A listener stores nothing for a dialler whose address is not proven by a cookie. The packets of the
handshake carry messages of `broker.transport.arq.handshake`. A repeated request of a known nonce
gets the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final, Protocol

import attrs

from broker.errors import ProtocolError
from broker.transport.arq.counters import HandshakeCounts
from broker.transport.arq.handshake import (
    Acceptor,
    Dialler,
    DialStep,
    Entropy,
    HandshakeRequest,
    LinkSecret,
)
from broker.transport.arq.wire import MIN_DATAGRAM_BYTES, Reason
from plugins.dcp.connection import Connection
from plugins.dcp.connection_owner import IConnectionOwner
from plugins.dcp.leaf_peer import LeafPeer
from plugins.dcp.packet import EXTENDED, FIN, SYN, Packet, decode, encode
from plugins.dcp.settings import DcpSettings

_DIAL_SECONDS: Final = 3.0
#: Closed connections whose peers may not know of the end; and the answers to each.
_MOST_ENDED: Final = 1_024
_MOST_ANSWERS: Final = 8
#: Accepted connections of nodes that are not children, beside the children.
_MOST_OTHERS: Final = 32
#: The room of `broker.transport.arq` is not used.
_ROOM: Final = 0
#: The handshake of nodes has a tag by the secret of the network around it, so that nobody else can
#: let them use version 1. Clients have no secret: their tickets prove their rights.
_OF_NODES: Final = LinkSecret(allows_old=True)
_OF_CLIENTS: Final = LinkSecret(allows_old=False)
#: The header has 32 bits for an id.
_MOST_ID: Final = 2**32 - 1


class IEndpointOwner(IConnectionOwner[Connection], Protocol):
    def connected(self, connection: Connection, now: float) -> None:
        """A connection has begun, dialled or accepted."""

    def disconnected(self, connection: Connection, now: float) -> None:
        """A connection has ended, with a reason in `error`."""

    def dial_failed(self, peer: Hashable, now: float) -> None:
        """A peer did not answer, or has refused."""


class IPacketSender(Protocol):
    def __call__(self, peer: Hashable, packets: list[bytes]) -> object:
        """Send packets to a peer."""


@attrs.define
class _Dial:
    dialler: Dialler
    until: float


@attrs.define
class _Ended:
    """A connection that this end has closed."""

    peer: Hashable
    fin: bytes
    answers_left: int = _MOST_ANSWERS


@attrs.frozen
class _Request:
    """Identity of a request: a repeated one has the same."""

    peer: Hashable
    client: int
    nonce: bytes


class Endpoint:
    def __init__(
        self,
        settings: DcpSettings,
        owner: IEndpointOwner,
        send: IPacketSender,
        entropy: Entropy,
        on_dial: Callable[[Hashable], object] = lambda peer: None,
        *,
        is_client: bool = False,
    ) -> None:
        """`entropy` returns random bytes, for ids and nonces. `on_dial` is called before packets
        are sent to a peer that has sent none."""
        self.counts = HandshakeCounts()
        self._settings = settings
        self._owner = owner
        self._send = send
        self._entropy = entropy
        self._on_dial = on_dial
        self._dial_secret = _OF_CLIENTS if is_client else _OF_NODES
        self._acceptors = {
            secret: Acceptor(entropy, self.counts, secret) for secret in (_OF_NODES, _OF_CLIENTS)
        }
        self._dials: dict[Hashable, _Dial] = {}
        self._connections: dict[int, Connection] = {}
        self._ended: dict[int, _Ended] = {}
        """By own id."""
        self._accepts: dict[_Request, tuple[int, bytes]] = {}
        """Id and answer of each accepted request."""

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._connections.values()))

    # ------------------------------------------------------------------ dialling

    def dial(self, peer: Hashable, now: float) -> None:
        """Begin a connection to a listener, unless one has begun."""
        if peer in self._dials or self.find_dialled(peer) is not None:
            return
        dialler = Dialler(self._new_id(), self._entropy, _ROOM, now, self._dial_secret)
        self._dials[peer] = _Dial(dialler, now + _DIAL_SECONDS)
        self._on_dial(peer)
        self._send_request(peer, dialler, now)

    def find_dialled(self, peer: Hashable) -> Connection | None:
        found = (each for each in self if each.peer == peer and each.is_dialled)
        return next(found, None)

    def uses(self, peer: Hashable) -> bool:
        """Return whether there is a connection to a peer, or one begins."""
        return peer in self._dials or any(each.peer == peer for each in self)

    def _send_request(self, peer: Hashable, dialler: Dialler, now: float) -> None:
        self._send(peer, [_wrap(0, dialler.next_datagram(now))])

    def _new_id(self) -> int:
        while True:
            found = int.from_bytes(self._entropy(4), "big")
            if found and found not in self._connections:
                return found

    # ------------------------------------------------------------------ packets

    def receive(self, peer: Hashable, data: bytes, now: float) -> None:
        """Handle a packet of a peer, of which nothing is known before its tag is checked."""
        if len(data) < 24:
            self.counts.malformed += 1
            return
        if data[1] & EXTENDED:
            connection = self._connections.get(int.from_bytes(data[20:24], "big"))
            is_handshake = data[1] & (SYN | FIN) == SYN and data[24:26] == b"\0\0"
        else:
            # It states no connection: a parent has one (D35).
            connection, is_handshake = self.find_dialled(peer), False
        if connection is not None and connection.peer == peer and not is_handshake:
            was_proven = connection.received > 0
            connection.receive(data, now)
            if connection.error:
                self._end(connection, now)
            elif connection.received and not was_proven and not connection.is_dialled:
                self._end_earlier(connection, now)
        elif is_handshake:
            try:
                self._receive_handshake(peer, decode(data), now)
            except ProtocolError:
                self.counts.malformed += 1
        else:
            self.counts.unknown_connection += 1
            self._repeat_end(peer, int.from_bytes(data[20:24], "big"))

    def _receive_handshake(self, peer: Hashable, packet: Packet, now: float) -> None:
        if len(packet.body) < MIN_DATAGRAM_BYTES:
            raise ProtocolError(f"a handshake of {len(packet.body)} bytes")
        dial = self._dials.get(peer)
        if packet.connection and dial is not None and dial.dialler.client == packet.connection:
            self._receive_answer(peer, dial.dialler, packet.body, now)
        elif not packet.connection:
            answer = self._acceptors[_secret_of(peer)].receive(packet.body, peer, now)
            if isinstance(answer, HandshakeRequest) and answer.client > _MOST_ID:
                raise ProtocolError(f"the id {answer.client}")
            if isinstance(answer, HandshakeRequest):
                self._accept(peer, answer, now)
            elif answer is not None:
                # The id of the dialler is that to which the answer goes.
                client = int.from_bytes(answer[1:9], "big")
                if client > _MOST_ID:
                    raise ProtocolError(f"the id {client}")
                self._send(peer, [_wrap(client, answer)])

    def _receive_answer(self, peer: Hashable, dialler: Dialler, answer: bytes, now: float) -> None:
        step = dialler.receive(answer, now)
        if step is DialStep.SEND_NOW:
            self._send_request(peer, dialler, now)
        elif step is DialStep.REFUSED:
            del self._dials[peer]
            self._owner.dial_failed(peer, now)
        elif step is DialStep.ACCEPTED:
            del self._dials[peer]
            assert dialler.mac is not None
            if dialler.server > _MOST_ID:
                self._owner.dial_failed(peer, now)
                return
            ids = dialler.client, dialler.server
            connection = Connection(
                *(peer, ids, dialler.mac, self._settings, self._owner, now), is_dialled=True
            )
            self._connections[dialler.client] = connection
            self._owner.connected(connection, now)

    def _end_earlier(self, connection: Connection, now: float) -> None:
        """End accepted connections of an earlier process of a peer that has proven its key."""
        for each in self:
            if each is not connection and each.peer == connection.peer and not each.is_dialled:
                each.error = "a newer connection of the peer"
                self._end(each, now)

    def _accept(self, peer: Hashable, request: HandshakeRequest, now: float) -> None:
        key = _Request(peer, request.client, request.nonce)
        acceptor = self._acceptors[_secret_of(peer)]
        known = self._accepts.get(key)
        if known is not None:
            self._send(peer, [known[1]])
            return
        # Strangers among the clients take no place of a node.
        is_leaf = isinstance(peer, LeafPeer)
        alike = sum(isinstance(each.peer, LeafPeer) is is_leaf for each in self._accepts)
        most = self._settings.leaves if is_leaf else self._settings.children
        if alike >= most + _MOST_OTHERS:
            refusal = acceptor.refuse(request, Reason.FULL)
            self._send(peer, [_wrap(request.client, refusal)])
            return
        own_id = self._new_id()
        mac, accept = acceptor.accept(request, own_id, self._entropy, _ROOM, now)
        ids = own_id, request.client
        connection = Connection(
            *(peer, ids, mac, self._settings, self._owner, now), is_dialled=False
        )
        self._connections[own_id] = connection
        packet = _wrap(request.client, accept)
        self._accepts[key] = own_id, packet
        self._send(peer, [packet])
        self._owner.connected(connection, now)

    def _repeat_end(self, peer: Hashable, own_id: int) -> None:
        """Answer a peer that does not know of the end of a connection."""
        ended = self._ended.get(own_id)
        if ended is not None and ended.peer == peer and ended.answers_left:
            ended.answers_left -= 1
            self._send(peer, [ended.fin])

    # ------------------------------------------------------------------ output, time and end

    def flush(self, now: float) -> None:
        """Send the packets of the connections, as far as their pace allows."""
        for connection in self._connections.values():
            packets = connection.flush(now)
            if packets:
                self._send(connection.peer, packets)

    def close(self, connection: Connection, reason: str, now: float) -> None:
        connection.close(reason, now)
        self._end(connection, now)

    def _end(self, connection: Connection, now: float) -> None:
        if self._connections.pop(connection.own_id, None) is None:
            return
        connection.buffer.held.close()
        packets = connection.writer.take_packets()
        if packets:
            self._send(connection.peer, packets)
        if packets and connection.is_closed_here:
            self._ended[connection.own_id] = _Ended(connection.peer, packets[-1])
            if len(self._ended) > _MOST_ENDED:
                del self._ended[next(iter(self._ended))]
        for key in [k for k, each in self._accepts.items() if each[0] == connection.own_id]:
            del self._accepts[key]
        self._owner.disconnected(connection, now)

    def next_timeout(self) -> float | None:
        times = [each.next_timeout() for each in self._connections.values()]
        times += [min(each.until, each.dialler.retry_at) for each in self._dials.values()]
        return min(times, default=None)

    def handle_timeout(self, now: float) -> None:
        for peer, dial in list(self._dials.items()):
            if now >= dial.until:
                del self._dials[peer]
                self._owner.dial_failed(peer, now)
            elif now >= dial.dialler.retry_at:
                self._send_request(peer, dial.dialler, now)
        for connection in self:
            connection.handle_timeout(now)
            if connection.error:
                self._end(connection, now)


def _secret_of(peer: Hashable) -> LinkSecret:
    return _OF_CLIENTS if isinstance(peer, LeafPeer) else _OF_NODES


def _wrap(connection: int, message: bytes) -> bytes:
    packet = Packet(SYN | EXTENDED, 0, 0, message, connection)
    return encode(packet, with_checksum=True)
