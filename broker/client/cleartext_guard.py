"""Guard of a client: it sends no high event over clear text to another machine (X12, T37)."""

from __future__ import annotations

from broker.client.effects import PublicationSettled
from broker.client.outbox import Outbox
from broker.client.pending_requests import PendingRequests
from broker.errors import ClearanceTooLow, NotConnected
from broker.event.envelope import CLEARTEXT_LEVEL
from broker.event.reader import may_cross_cleartext


class CleartextGuard:
    """Keeps such events from connections that others on the network can read."""

    def __init__(self, outbox: Outbox, requests: PendingRequests) -> None:
        self._outbox = outbox
        self._requests = requests
        self._is_in_cleartext = False

    def prepare_connection(self, *, confidential: bool) -> list[PublicationSettled]:
        """Prepare for a connection before its handshake: unsent events that it must not carry fail.

        Raises `NotConnected` if an unanswered one would be sent again.
        """
        self._is_in_cleartext = not confidential
        if confidential:
            return []
        if self._outbox.has_sent(_is_above_cleartext) or any(
            ask.what == "explain" and ask.document and _is_above_cleartext(ask.document)
            for ask in self._requests.all_open()
        ):
            raise NotConnected(
                f"an unanswered event above {CLEARTEXT_LEVEL.value!r} waits for an encrypted "
                "connection"
            )
        refused = self._outbox.refuse_unsent(find_cleartext_error)
        return [PublicationSettled(waiter, error) for waiter, error in refused]

    def end_connection(self) -> None:
        self._is_in_cleartext = False

    def check_document(self, document: bytes) -> None:
        """Raise `ClearanceTooLow` for an event that the present connection must not carry."""
        if self._is_in_cleartext and (error := find_cleartext_error(document)) is not None:
            raise error


def find_cleartext_error(document: bytes) -> ClearanceTooLow | None:
    """Return an error for an event that may not leave this machine without encryption."""
    if not _is_above_cleartext(document):
        return None
    return ClearanceTooLow(
        f"the event is above {CLEARTEXT_LEVEL.value!r}, and the connection is not encrypted"
    )


def _is_above_cleartext(document: bytes) -> bool:
    return not may_cross_cleartext(document)
