"""The core of multicast: the outcome for each destination of a message (RCM R11, R25; T14)."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import implementer

from broker.transport.effects import Effect, Outcomes, SendDown, ViewChanged, WritableChanged
from broker.transport.layer import ILayerCore, PassThrough
from broker.transport.message import Message, Outcome, Peer
from broker.transport.view import LinkState, View


@implementer(ILayerCore)
class MulticastCore(PassThrough):
    """States of the peers, and of their back-pressure. Messages wait in the links, not here."""

    def __init__(self) -> None:
        self._states: dict[Peer, LinkState] = {}
        self._full: set[Peer] = set()

    def submit(self, messages: Sequence[Message], now: float) -> list[Effect]:
        """Send a copy to each destination. A link that refuses a copy changes its outcome."""
        batches: dict[Peer, list[Message]] = {}
        for message in messages:
            for peer in dict.fromkeys(message.destinations):
                if self._states.get(peer, LinkState.DISCONNECTED) is LinkState.DISCONNECTED:
                    outcome = Outcome.ABSENT
                elif peer in self._full and not message.is_urgent:
                    outcome = Outcome.FULL
                else:
                    outcome = Outcome.SENT
                    batches.setdefault(peer, []).append(message)
                message.outcomes[peer] = outcome
        effects: list[Effect] = [SendDown(batch, peer) for peer, batch in batches.items()]
        effects.append(Outcomes(messages))
        return effects

    def view_changed(self, peer: Peer, view: View, now: float) -> list[Effect]:
        self._states[peer] = view.state
        return [ViewChanged(view, peer)]

    def writable_changed(self, peer: Peer, writable: bool, now: float) -> list[Effect]:
        if writable:
            self._full.discard(peer)
        else:
            self._full.add(peer)
        return [WritableChanged(writable, peer)]

    def peer_removed(self, peer: Peer, now: float) -> list[Effect]:
        self._states.pop(peer, None)
        self._full.discard(peer)
        return []
