"""Suspicion of a peer whose connection broke (RCM R25)."""

from __future__ import annotations

from broker.errors import BrokerError
from broker.transport.view import LinkState, View


class Suspicion:
    """A peer is suspected for at most `timeout` seconds after its connection broke.

    A connection that breaks before the link resumed does not prolong that.
    """

    def __init__(self, timeout: float) -> None:
        self.give_up_at: float | None = None
        self._timeout = timeout
        self._is_connected = False
        self._error: BrokerError | None = None

    def connect(self) -> None:
        self._is_connected = True
        self.give_up_at = None

    def disconnect(self, view: View, now: float) -> View:
        """Return the view for the layer above, with the end of a connection or of an attempt."""
        if self._is_connected and self._timeout:
            self.give_up_at = now + self._timeout
        self._is_connected = False
        if self.give_up_at is None:
            return view
        self._error = view.error
        return View(LinkState.SUSPECTED, error=view.error)

    def give_up(self) -> View:
        self.give_up_at = None
        return View(LinkState.DISCONNECTED, error=self._error)
