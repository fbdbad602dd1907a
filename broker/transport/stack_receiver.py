"""The interface of the user of a stack."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import Interface

from broker.transport.message import Peer
from broker.transport.view import View

_log = Logger()


class IStackReceiver(Interface):
    """Receiver of the messages and views of the peers of a stack.

    An exception from one of these methods is logged and ends the use of the peer's link (see
    `Link.failure`): the delivered messages are acknowledged already and would be missing.
    """

    def messages_received(peer: Peer, messages: Sequence[bytes]) -> None:
        """Receive messages in order, one batch for each read of the socket as far as layers
        allow. Return their credit with `consumed`."""

    def view_changed(peer: Peer, view: View) -> None:
        """Receive the new state of a peer.

        SUSPECTED and DISCONNECTED are repeated for each failed attempt to connect.
        """

    def writable_changed(peer: Peer, writable: bool) -> None:
        """Stop sending to the peer for the moment (False), or continue (True)."""


def log_failure(error: Exception) -> None:
    failure = Failure(error)
    _log.failure("a protocol stack ended after an unexpected error", failure=failure)
