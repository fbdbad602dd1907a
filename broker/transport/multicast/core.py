"""Which peers there are, and what may be sent to each (RCM R11, R25; T14).

A peer is connected, suspected (its connection broke; it is hoped for, and its stack buffers), or
disconnected. It counts as suspected for `suspect_timeout` seconds, from the first break on: a
connection that comes and breaks again before the stack could resume does not prolong it.
"""

from __future__ import annotations

import enum

import attrs

from broker.errors import BrokerError
from broker.transport.view import LinkState, View


class Outcome(enum.Enum):
    """What became of a message for one of its destinations."""

    #: Its stack has taken it: it arrives once and in order, unless the peer begins a new life.
    SENT = "sent"
    #: Back-pressure: it was not taken. The peer gets what was taken before and after it, in order.
    FULL = "full"
    #: There is no such peer, or it is disconnected: it was not taken.
    ABSENT = "absent"


@attrs.frozen
class PeerView:
    """To be told: the state of one peer from now on."""

    peer: str
    view: View


@attrs.define
class _Member:
    state: LinkState = LinkState.DISCONNECTED
    #: While it is suspected: when it is given up, and why its last connection broke.
    give_up_at: float = 0.0
    error: BrokerError | None = None


class MulticastCore:
    """Keeps the peers' states; what it returns is to be told to the user, in order.

    With `suspect_timeout` 0 a peer whose connection breaks is disconnected at once.
    """

    def __init__(self, suspect_timeout: float) -> None:
        self._suspect_timeout = suspect_timeout
        self._members: dict[str, _Member] = {}

    def add_peer(self, peer: str) -> None:
        """There is a stack for `peer`, disconnected for the moment. ValueError if there was."""
        if peer in self._members:
            raise ValueError(f"{peer!r} has joined before")
        self._members[peer] = _Member()

    def remove_peer(self, peer: str) -> None:
        """There is none any more. KeyError if there was none."""
        del self._members[peer]

    def states(self) -> dict[str, LinkState]:
        """The state of each peer."""
        return {peer: member.state for peer, member in self._members.items()}

    def send_outcome(self, peer: str, writable: bool) -> Outcome:
        """What would become of a message to `peer`, whose stack is `writable`, if it takes it."""
        member = self._members.get(peer)
        if member is None or member.state is LinkState.DISCONNECTED:
            return Outcome.ABSENT
        return Outcome.SENT if writable else Outcome.FULL

    def view_changed(
        self, peer: str, view: View, now: float, *, final: bool = False
    ) -> list[PeerView]:
        """What the stack of `peer` says of its link; `final` if it can not be used any more."""
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
        """Give up who was suspected for too long."""
        told: list[PeerView] = []
        for peer, member in self._members.items():
            if member.state is LinkState.SUSPECTED and member.give_up_at <= now:
                member.state = LinkState.DISCONNECTED
                told.append(PeerView(peer, View(LinkState.DISCONNECTED, error=member.error)))
        return told

    def next_timeout(self) -> float | None:
        """When the next one is given up."""
        return min(
            (
                member.give_up_at
                for member in self._members.values()
                if member.state is LinkState.SUSPECTED
            ),
            default=None,
        )
