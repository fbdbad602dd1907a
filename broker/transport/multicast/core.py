"""Known peers, their states, and the outcome of a send (RCM R11, R25; T14).

A peer is connected, suspected (its connection broke, and its stack buffers), or disconnected. It
stays suspected for at most `suspect_timeout` seconds after the first break. A connection that
breaks before the stack resumed does not prolong that.
"""

from __future__ import annotations

import enum

import attrs

from broker.errors import BrokerError
from broker.transport.view import LinkState, View


class Outcome(enum.Enum):
    """Outcome of a message for one destination."""

    #: Its stack accepted the message: it arrives once and in order, unless the peer restarts.
    SENT = "sent"
    #: Back-pressure: it was not accepted. The peer gets the messages before and after it, in order.
    FULL = "full"
    #: There is no such peer, or it is disconnected: the message was not accepted.
    ABSENT = "absent"


@attrs.frozen
class PeerView:
    """The state of one peer from now on."""

    peer: str
    view: View


@attrs.define
class _Member:
    state: LinkState = LinkState.DISCONNECTED
    #: While it is suspected: deadline, and the error of its last connection.
    give_up_at: float = 0.0
    error: BrokerError | None = None


class MulticastCore:
    """States of the peers. Returned views are reported to the user in order.

    With `suspect_timeout` 0 a peer is disconnected as soon as its connection breaks.
    """

    def __init__(self, suspect_timeout: float) -> None:
        self._suspect_timeout = suspect_timeout
        self._members: dict[str, _Member] = {}

    def add_peer(self, peer: str) -> None:
        """Add a peer, disconnected at first. Raises ValueError if it exists."""
        if peer in self._members:
            raise ValueError(f"{peer!r} has joined before")
        self._members[peer] = _Member()

    def remove_peer(self, peer: str) -> None:
        """Remove a peer. Raises KeyError if it does not exist."""
        del self._members[peer]

    def states(self) -> dict[str, LinkState]:
        return {peer: member.state for peer, member in self._members.items()}

    def send_outcome(self, peer: str, writable: bool) -> Outcome:
        """Return the outcome of sending to `peer`, if its stack, which is `writable`, accepts."""
        member = self._members.get(peer)
        if member is None or member.state is LinkState.DISCONNECTED:
            return Outcome.ABSENT
        return Outcome.SENT if writable else Outcome.FULL

    def view_changed(
        self, peer: str, view: View, now: float, *, final: bool = False
    ) -> list[PeerView]:
        """Process a view of a peer's stack; `final` if the stack can not be used any more."""
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
        """Disconnect peers whose suspicion has timed out."""
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
