"""Identity of a client, with its rights."""

from __future__ import annotations

import attrs
from zope.interface import implementer

from broker.errors import ClearanceTooLow, NotAllowed
from broker.event.envelope import CLEARTEXT_LEVEL, SecurityLevel
from broker.event.stream import StreamPattern, check_client_id
from broker.identity.avatar import IIdentity
from broker.identity.clearance import is_cleared
from broker.identity.client_ids import matches_client_id
from broker.identity.rights import Rights


@implementer(IIdentity)
@attrs.frozen
class Identity:
    """Client id with the account that authenticated it (Q8)."""

    account: str
    client_id: str
    rights: Rights
    clearance: SecurityLevel
    administer: bool
    client_ids: tuple[str, ...] = ()
    """Patterns of the client ids that the account may use."""
    is_in_cleartext: bool = False
    """True if the session's connection is not encrypted, which limits the clearance."""

    @property
    def holder(self) -> str:
        """Return the name under which shared limits count this client: all clients of an account
        share them; on a node without accounts each ClientId has its own."""
        return f"account {self.account}" if self.account else self.client_id

    def owns_client_id(self, client_id: str) -> bool:
        patterns = self.client_ids
        return client_id == self.client_id or any(
            matches_client_id(pattern, client_id) for pattern in patterns
        )

    def limited_to_cleartext(self) -> Identity:
        """Return the identity for a connection that others on the network can read."""
        clearance = min(self.clearance, CLEARTEXT_LEVEL)
        return attrs.evolve(self, clearance=clearance, is_in_cleartext=True)

    def is_cleared(self, level: SecurityLevel) -> bool:
        return is_cleared(self.clearance, level)

    def check_publish(self, stream: str, level: SecurityLevel) -> None:
        if not self.rights.may_publish(stream):
            raise NotAllowed(f"account {self.account!r} may not publish to stream {stream!r}")
        self.check_level(level)

    def check_level(self, level: SecurityLevel) -> None:
        if not self.is_cleared(level):
            raise ClearanceTooLow(
                f"the event's security level is {level.value!r}, "
                f"account {self.account!r} is cleared up to {self.clearance.value!r}"
                + (" on a connection without encryption" if self.is_in_cleartext else "")
            )

    def check_subscribe(self, pattern: StreamPattern) -> None:
        if not self.rights.may_subscribe(pattern):
            denied = self.rights.denied_streams(pattern)
            reason = f": {', '.join(denied[:8])} is denied to it" if denied else ""
            raise NotAllowed(
                f"account {self.account!r} may not subscribe to streams {pattern.text!r}{reason}"
            )

    def check_register(self, type_name: str) -> None:
        if not self.rights.may_register(type_name):
            raise NotAllowed(
                f"account {self.account!r} may not register the event type {type_name!r}"
            )

    def check_administer(self) -> None:
        if not self.administer:
            raise NotAllowed(f"account {self.account!r} may not administer this node")


def anonymous_identity(client_id: str) -> Identity:
    """Return an identity with all rights. Raises `BadName`."""
    return Identity(
        account="",
        client_id=check_client_id(client_id),
        rights=Rights.to_everything(),
        clearance=SecurityLevel.HIGH,
        administer=True,
    )
