"""The user's end of a stack."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import Interface

from broker.transport.view import View

_log = Logger()


class IStackReceiver(Interface):
    """Who is told what a stack brings.

    An exception out of one of these is reported and ends the use of the stack (see
    `StackDriver.failure`): what was delivered has been acknowledged, and would be missed.
    """

    def messages_received(messages: Sequence[bytes]) -> None:
        """Messages in order, as one batch for each read of the socket as far as layers allow."""

    def view_changed(view: View) -> None:
        """The link is in a new state."""

    def writable_changed(writable: bool) -> None:
        """Stop sending for the moment (False), or go on (True)."""


def log_failure(error: Exception) -> None:
    """What a driver does with an unexpected exception unless told otherwise."""
    failure = Failure(error)
    _log.failure("a stack came to its end by an unexpected error", failure=failure)
