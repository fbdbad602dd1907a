"""Multicast with the bodies in datagrams to an IP multicast group (RCM R33)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.errors import ProtocolError
from broker.transport.effects import Effect
from broker.transport.message import Message, Peer
from broker.transport.multicast.bounds import Bounds
from broker.transport.multicast.group_datagram import (
    MOST_BODY,
    Assembly,
    Piece,
    decode_piece,
    encode_body,
)
from broker.transport.multicast.sharing_core import GROUP, SharingCore, Spread
from broker.transport.view import View


class GroupCore(SharingCore):
    """A body leaves once, for the peer `GROUP`. Lost ones come as repairs on the links.

    A peer that does not hear the group soon gets copies. Datagrams count only with the key that
    their source has told on its link, and only for references that it has sent there. Others are
    dropped and counted, without state.
    """

    def __init__(self, node: str, key: bytes, bounds: Bounds = Bounds()) -> None:  # noqa: B008
        super().__init__(node, key, bounds)
        self.rejected = 0
        """Datagrams that are forged, malformed or of strangers."""
        self._assemblies: dict[str, Assembly] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        return {**super().counts, "rejected_datagrams": self.rejected}

    def spread_body(self, payload: bytes, counter: int, peers: Sequence[str]) -> Spread | None:
        if len(payload) > MOST_BODY:
            return None
        datagrams = tuple(encode_body(self.node, self.key, counter, payload))
        return Spread(references=peers, datagrams=datagrams)

    def receive(self, messages: Sequence[Message], peer: Peer, now: float) -> list[Effect]:
        if peer != GROUP:
            return super().receive(messages, peer, now)
        effects: list[Effect] = []
        for message in messages:
            try:
                effects += self._receive_piece(decode_piece(message.payload), now)
            except ProtocolError:
                self.rejected += 1
        return effects

    def _receive_piece(self, piece: Piece, now: float) -> list[Effect]:
        source = piece.source
        if source == self.node:
            # The system returns it.
            return []
        incoming = self.incoming.get(source)
        if incoming is None or not incoming.key:
            raise ProtocolError(f"a datagram of {source}, which is not connected")
        assembly = self._assemblies.get(source)
        if assembly is None or assembly.key != incoming.key:
            assembly = self._assemblies[source] = Assembly(incoming.key)
        body = assembly.add_piece(piece)
        if body is None:
            return []
        incoming.add_body(piece.counter, body, now)
        self._plan(incoming)
        return self._release(source, 0)

    def view_changed(self, peer: Peer, view: View, now: float) -> list[Effect]:
        return [] if peer == GROUP else super().view_changed(peer, view, now)

    def writable_changed(self, peer: Peer, writable: bool, now: float) -> list[Effect]:
        return [] if peer == GROUP else super().writable_changed(peer, writable, now)

    def peer_removed(self, peer: Peer, now: float) -> list[Effect]:
        self._assemblies.pop(str(peer), None)
        return super().peer_removed(peer, now)
