"""The status of a peer, with the time of its suspicion (RCM R25)."""

from __future__ import annotations

from broker.transport.view import LinkState, View


class Suspicion:
    """A peer is suspected for at most `timeout` seconds after it was connected.

    A failed attempt to connect does not prolong that.
    """

    def __init__(self, timeout: float) -> None:
        self.state = LinkState.DISCONNECTED
        self.reason = "never connected"
        self.since = 0.0
        """Time at which the state began."""
        self.give_up_at: float | None = None
        self._timeout = timeout
        self._seconds_left: float | None = None

    def connect(self, now: float) -> None:
        self._set_state(LinkState.CONNECTED, now)
        self.reason = ""

    def suspect(self, reason: str, now: float) -> bool:
        """Return True if the peer was connected before."""
        if self._seconds_left is not None:
            self.give_up_at, self._seconds_left = now + self._seconds_left, None
        if self.state is not LinkState.CONNECTED:
            return False
        self._set_state(LinkState.SUSPECTED, now)
        self.reason = reason
        self.give_up_at = now + self._timeout
        if not self._timeout:
            self.give_up(now)
        return True

    def pause(self, now: float) -> None:
        """Stop the time of a suspicion until the next `suspect`."""
        if self.give_up_at is not None:
            self._seconds_left, self.give_up_at = self.give_up_at - now, None

    def give_up(self, now: float) -> None:
        self._set_state(LinkState.DISCONNECTED, now)

    def _set_state(self, state: LinkState, now: float) -> None:
        self.state, self.since = state, now
        self.give_up_at = self._seconds_left = None

    @property
    def view(self) -> View:
        return View(self.state, reason=self.reason, since=self.since, until=self.give_up_at)
