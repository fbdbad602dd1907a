"""Records of one session in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from broker.audit import IAuditLog
from broker.errors import (
    BrokerError,
    ClearanceTooLow,
    ForgedIdentity,
    NotAllowed,
    WireError,
    from_wire,
)
from broker.identity import Identity
from broker.wire.messages import NO_ERROR, Ask, Published

#: Errors of refused rights.
_RIGHTS_CODES: Final = frozenset({NotAllowed.code, ClearanceTooLow.code, ForgedIdentity.code})


@attrs.frozen
class SessionRecords:
    """Actions of a client, with its account and address."""

    _audit: IAuditLog
    _audited_questions: frozenset[str]
    """Questions that change something. Others are recorded if a right is missing."""
    _identity: Identity
    _find_peer: Callable[[], str]

    def record(self, action: str, subject: str = "", error: BrokerError | None = None) -> None:
        self._audit.record(
            action,
            account=self._identity.account,
            client=self._identity.client_id,
            address=self._find_peer(),
            subject=subject,
            error=error,
        )

    def record_refused(self, action: str, subject: str, error: BrokerError) -> None:
        """Record an action that failed for a missing right; ignore other errors."""
        if error.code in _RIGHTS_CODES:
            self.record(action, subject, error)

    def record_published(self, answer: Published) -> None:
        """Record each missing right of a batch once."""
        for code, text in {error[:2] for _, error in answer.refused}:
            self.record_refused("publish", "", from_wire((code, text, 0, 0)))

    def record_answer(self, ask: Ask, wire_error: WireError) -> None:
        error = None if wire_error == NO_ERROR else from_wire(wire_error)
        subject = " ".join(f"{name}={value}" for name, value in sorted(ask.arguments.items()))
        if ask.what in self._audited_questions:
            self.record(ask.what, subject, error)
        elif error is not None:
            self.record_refused(ask.what, subject, error)
