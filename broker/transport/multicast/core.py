"""States of the peers of a channel, and the outcome of a send (RCM R11, R25; T14)."""

from __future__ import annotations

import enum

import attrs

from broker.errors import BrokerError
from broker.transport.view import LinkState, View


class Outcome(enum.Enum):
    #: Accepted: it arrives once and in order, unless the peer restarts.
    SENT = "sent"
    #: Back-pressure: it was not accepted. Messages before and after it arrive in order.
    FULL = "full"
    #: Not accepted, since the peer is unknown or disconnected.
    ABSENT = "absent"


@attrs.frozen
class PeerView:
    peer: str
    view: View


@attrs.define
class _Member:
    state: LinkState = LinkState.DISCONNECTED
    give_up_at: float = 0.0
    error: BrokerError | None = None


class MulticastCore:
    """States of the peers. Returned views are reported in order.

    A peer is suspected for at most `suspect_timeout` seconds after its connection broke. A
    connection that breaks before the stack resumed does not prolong that.
    """

    def __init__(self, suspect_timeout: float) -> None:
        self._suspect_timeout = suspect_timeout
        self._members: dict[str, _Member] = {}

    def add_peer(self, peer: str) -> None:
        """Raises ValueError if the peer exists."""
        if peer in self._members:
            raise ValueError(f"{peer!r} has joined before")
        self._members[peer] = _Member()

    def remove_peer(self, peer: str) -> None:
        """Raises KeyError if it does not exist."""
        del self._members[peer]

    def states(self) -> dict[str, LinkState]:
        return {peer: member.state for peer, member in self._members.items()}

    def send_outcome(self, peer: str, writable: bool) -> Outcome:
        member = self._members.get(peer)
        if member is None or member.state is LinkState.DISCONNECTED:
            return Outcome.ABSENT
        return Outcome.SENT if writable else Outcome.FULL

    def view_changed(
        self, peer: str, view: View, now: float, *, final: bool = False
    ) -> list[PeerView]:
        """Process a view; `final` if the peer's stack can not be used any more."""
        member = self._members[peer]
        if view.state is not LinkState.DISCONNECTED:
            member.state = view.state
            return [PeerView(peer, view)]
        if final or not self._suspect_timeout:
            member.state = LinkState.DISCONNECTED
        elif member.state is LinkState.CONNECTED:
            member.state = LinkState.SUSPECTED
            member.give_up_at = now + self._suspect_timeout
        if member.state is LinkState.SUSPECTED:
            member.error = view.error
            view = View(LinkState.SUSPECTED, error=view.error)
        return [PeerView(peer, view)]

    def handle_timeout(self, now: float) -> list[PeerView]:
        views: list[PeerView] = []
        for peer, member in self._members.items():
            if member.state is LinkState.SUSPECTED and member.give_up_at <= now:
                member.state = LinkState.DISCONNECTED
                views.append(PeerView(peer, View(LinkState.DISCONNECTED, error=member.error)))
        return views

    def next_timeout(self) -> float | None:
        return min(
            (
                member.give_up_at
                for member in self._members.values()
                if member.state is LinkState.SUSPECTED
            ),
            default=None,
        )
