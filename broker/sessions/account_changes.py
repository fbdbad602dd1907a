"""Changed accounts, applied to the sessions of a running node."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import attrs
from twisted.internet.defer import Deferred

from broker.audit import IAuditLog
from broker.errors import PeerError
from broker.identity import Accounts, revise_identity
from broker.sessions.session import Session
from broker.sessions.time_slices import TimeSlices
from broker.transport.clock import IClock


@attrs.define
class EndedByChange:
    """Numbers of sessions and subscriptions whose rights are gone."""

    sessions: int = 0
    subscriptions: int = 0


class AccountChanges:
    """Revision of sessions, in time slices.

    A session of a revoked account, or of one with a lower clearance, ends with the error. Other
    sessions get the new rights, and lose subscriptions without a right.
    """

    def __init__(
        self,
        accounts: Accounts,
        sessions: Callable[[], Iterable[Session]],
        audit: IAuditLog,
        clock: IClock,
    ) -> None:
        self._accounts = accounts
        self._sessions = sessions
        self._audit = audit
        self._clock = clock

    def apply(self) -> Deferred[EndedByChange]:
        """Revise all present sessions. Later ones already have the new accounts."""
        waiting = deque(self._sessions())
        ended = EndedByChange()
        done: Deferred[EndedByChange] = Deferred()

        def step() -> bool:
            if waiting:
                self._revise(waiting.popleft(), ended)
            if not waiting and not done.called:
                done.callback(ended)
            return bool(waiting)

        TimeSlices(self._clock, step, done.errback).run()
        return done

    def _revise(self, session: Session, ended: EndedByChange) -> None:
        identity = session.identity
        try:
            revised = revise_identity(self._accounts, identity)
        except PeerError as error:
            if not session.has_ended:
                self._audit.record(
                    "session-revoked",
                    account=identity.account,
                    client=identity.client_id,
                    address=session.peer,
                    error=error,
                )
                ended.sessions += 1
                session.end(error)
            return
        if revised != identity and not session.has_ended:
            ended.subscriptions += session.change_identity(revised)
