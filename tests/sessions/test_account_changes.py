"""Changed accounts are applied to all sessions."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
from twisted.internet.task import Clock

from broker.config import load_text
from broker.errors import PeerError
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from broker.identity import Accounts, Identity
from broker.identity.rights import Rights
from broker.sessions.account_changes import AccountChanges, EndedByChange
from broker.sessions.time_slices import SLICE_SECONDS

KEYS = "A" * 43 + "=:" + "A" * 43 + "="
ACCOUNTS = load_text(
    f"""
    [accounts.kept]
    secret = "SCRAM-SHA-256$100000:{"c2Fs" * 6}${KEYS}"
    client_ids = ["*"]
    publish = ["a"]
    """,
    "node.toml",
).accounts
RIGHTS = Rights(publish=(StreamPattern.parse("a"),))


@attrs.define
class OpenSession:
    identity: Identity
    clock: Clock
    has_ended: bool = False
    peer: str = "192.0.2.1"
    errors: list[PeerError] = attrs.field(factory=list)
    changes: list[Identity] = attrs.field(factory=list)

    def end(self, error: PeerError) -> None:
        self.errors.append(error)

    def change_identity(self, identity: Identity) -> int:
        self.clock.advance(SLICE_SECONDS)
        self.changes.append(identity)
        return 2


class Audit:
    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []

    def record(self, event: str, **fields: Any) -> None:
        self.records.append((event, fields))


class Sessions:
    def __init__(self) -> None:
        self.clock = Clock()
        self.open: list[OpenSession] = []
        self.audit = Audit()

    def add(self, account: str, rights: Rights, *, has_ended: bool = False) -> OpenSession:
        identity = Identity(account, f"c{len(self.open)}", rights, SecurityLevel.MED, False, ("*",))
        self.open.append(OpenSession(identity, self.clock, has_ended))
        return self.open[-1]

    def apply(self) -> list[EndedByChange]:
        """Return the result as soon as it is there."""
        found: list[EndedByChange] = []
        changes = AccountChanges(
            *(Accounts(ACCOUNTS), lambda: cast(Any, self.open), cast(Any, self.audit), self.clock)
        )
        changes.apply().addCallback(found.append)
        return found


def test_sessions_of_a_revoked_account_end_with_a_record() -> None:
    sessions = Sessions()
    kept = sessions.add("kept", RIGHTS)
    revoked = sessions.add("revoked", RIGHTS)
    gone = sessions.add("revoked", RIGHTS, has_ended=True)
    (ended,) = sessions.apply()
    assert (ended.sessions, ended.subscriptions) == (1, 0)
    assert not (kept.errors or kept.changes or gone.errors)
    assert [error.code for error in revoked.errors] == ["authentication-failed"]
    ((event, fields),) = sessions.audit.records
    assert event == "session-revoked"
    assert fields["account"] == "revoked" and fields["client"] == revoked.identity.client_id
    assert fields["address"] == revoked.peer and fields["error"] is revoked.errors[0]


def test_sessions_with_other_rights_are_changed_in_time_slices() -> None:
    sessions = Sessions()
    changed = [sessions.add("kept", Rights()) for _ in range(3)]
    gone = sessions.add("kept", Rights(), has_ended=True)
    found = sessions.apply()
    assert len(changed[0].changes) == 1
    assert not found and not changed[2].changes
    while not found:
        assert sessions.clock.getDelayedCalls()
        sessions.clock.advance(0.0)
    assert [each.changes[0].rights for each in changed] == [RIGHTS] * 3
    assert gone.changes == []
    assert (found[0].sessions, found[0].subscriptions) == (0, 6)


@pytest.mark.parametrize("account", ["", "kept"])
def test_without_a_change_nothing_happens(account: str) -> None:
    sessions = Sessions()
    assert len(sessions.apply()) == 1
    session = sessions.add(account, RIGHTS)
    assert len(sessions.apply()) == 1 and not (session.changes or session.errors)
