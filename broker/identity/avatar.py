"""Interface of the avatars of `twisted.cred`."""

from __future__ import annotations

from zope.interface import Attribute, Interface

from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from broker.identity.rights import Rights


class IIdentity(Interface):
    """Client at the other end of a session: the avatar of `twisted.cred`.

    The `check_` methods raise the error that the client gets.
    """

    account: str = Attribute("The account's name, empty on a node without accounts.")
    client_id: str = Attribute("The ClientId of the session, which every event of it must carry.")
    rights: Rights = Attribute("Its rights to streams and types.")
    clearance: SecurityLevel = Attribute("The highest security level that it may handle.")
    administer: bool = Attribute("Whether it may administer the node.")

    def is_cleared(level: SecurityLevel) -> bool:
        """True if the client may receive events of this level."""

    def check_publish(stream: str, level: SecurityLevel) -> None:
        """Raise `NotAllowed` or `ClearanceTooLow` unless it may publish such an event."""

    def check_subscribe(pattern: StreamPattern) -> None:
        """Raise `NotAllowed` unless it may subscribe to each stream of the pattern."""

    def check_register(type_name: str) -> None:
        """Raise `NotAllowed` unless it may register DTDs for this event type."""

    def check_administer() -> None:
        """Raise `NotAllowed` unless it may administer the node."""
