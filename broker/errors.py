"""Errors of this project, in two families.

`OurError`: wrong configuration or caller, or failure of this process's own disk or network.
`PeerError`: wrong bytes of a peer; the error is sent to it and counted.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

#: Value of `to_wire` and `from_wire`: code, text, line, column (0 where there is none).
WireError: TypeAlias = tuple[str, str, int, int]


class BrokerError(Exception):
    """Base of all errors of this project; never raised itself.

    `line` and `column` count from 1; 0 means no place in a text. A query has line 1.
    """

    code: ClassVar[str] = ""
    _by_code: ClassVar[dict[str, type[BrokerError]]] = {}

    def __init__(self, text: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.line = line
        self.column = column

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" in cls.__dict__ and BrokerError._by_code.setdefault(cls.code, cls) is not cls:
            raise TypeError(f"error code {cls.code!r} has two classes")

    def __str__(self) -> str:
        if self.line:
            return f"{self.text} (line {self.line}, column {self.column})"
        return self.text

    def to_wire(self) -> WireError:
        """Return the error as a tuple that any codec can carry."""
        return (self.code, self.text, self.line, self.column)


def from_wire(wire: WireError) -> BrokerError:
    """Return the error of a `to_wire` tuple; `UnknownPeerError` for the code of a later version."""
    code, text, line, column = wire
    known = BrokerError._by_code.get(code)
    if known is None:
        return UnknownPeerError(f"{code}: {text}", line=line, column=column)
    return known(text, line=line, column=column)


# --------------------------------------------------------------------------- the two families


class OurError(BrokerError):
    """Wrong configuration or call of this process, or failure of its own resources."""


class PeerError(BrokerError):
    """Broken rule of the other side: sent to it and counted; nothing else changes."""


class UnknownPeerError(PeerError):
    """Error from the peer whose code this version does not know."""

    code = "unknown"


# --------------------------------------------------------------------------- ours


class ConfigurationError(OurError):
    """Unknown setting, wrong value, or contradiction between settings. Names the key."""

    code = "configuration"


class StackError(OurError):
    """A stack's layers do not fit together. Names the layer and the property that it misses."""

    code = "stack"


class UnknownStack(StackError):
    """No stack of that name is installed. Lists the installed ones."""

    code = "unknown-stack"


class AmbiguousStack(StackError):
    """Several stacks of that name are installed. Names the source of each."""

    code = "ambiguous-stack"


class LogUnavailable(OurError):
    """The event log is not writable now (full or failing disk). Nothing is lost; retry."""

    code = "log-unavailable"


class Cloned(LogUnavailable):
    """Another process runs on a copy of this node's data and holds its place in the network."""

    code = "cloned"


class LogCorrupt(OurError):
    """The event log on disk is not an xmlbroker log, or has an unreadable version."""

    code = "log-corrupt"


class ArchiveUnavailable(OurError):
    """The archive is not reachable, readable or writable now. Nothing is lost; retry."""

    code = "archive-unavailable"


class ArchiveCorrupt(OurError):
    """An archive object differs from the one that was written. Names the object."""

    code = "archive-corrupt"


class ArchiveObjectMissing(ArchiveCorrupt):
    """The archive has no object of that name; a newer archive state may have replaced it."""

    code = "archive-object-missing"


class EngineUnavailable(OurError):
    """The replay engine is not installed here, or it died. The text says which."""

    code = "engine-unavailable"


class ReplayCancelled(OurError):
    """The replay was cancelled before it was done."""

    code = "replay-cancelled"


class ReplayTooLarge(OurError):
    """The replay finds more than the node may hold for one. Ask for less at a time."""

    code = "replay-too-large"


class Overloaded(OurError):
    """A bounded queue is full; its stated rule was applied."""

    code = "overloaded"


class NotConnected(OurError):
    """The client has no session, and the request can not wait for one."""

    code = "not-connected"


class Closed(OurError):
    """The object is closed and accepts no more calls."""

    code = "closed"


class GaveUp(OurError):
    """No listed node was reachable within the caller's time limit."""

    code = "gave-up"


# --------------------------------------------------------------------------- bytes and sessions


class ProtocolError(PeerError):
    """The bytes do not follow the protocol: bad frame, message in the wrong state, garbage."""

    code = "protocol"


class FrameTooLarge(PeerError):
    """A frame announces more bytes than this end accepts."""

    code = "frame-too-large"


class VersionMismatch(PeerError):
    """The two ends share no protocol version."""

    code = "version-mismatch"


class PeerSilent(PeerError):
    """The peer sent nothing within the liveness timeout."""

    code = "peer-silent"


class AuthenticationFailed(PeerError):
    """The credential is missing or wrong. The text does not say which, against guessing."""

    code = "authentication-failed"


class IncarnationRefused(PeerError):
    """Another process of the same client is known, newer or concurrent; only one may be
    connected."""

    code = "incarnation-refused"


class SessionSuperseded(PeerError):
    """Another process of this client connected with a higher incarnation; this session is over."""

    code = "session-superseded"


class TooManySessions(PeerError):
    """The node, or this client, has reached its limit of sessions."""

    code = "too-many-sessions"


class ShuttingDown(PeerError):
    """The node is shutting down. Try another node, or this one later."""

    code = "shutting-down"


class NotAllowed(PeerError):
    """The account has no right to do this. Names the right and the stream."""

    code = "not-allowed"


class ClearanceTooLow(PeerError):
    """The event's security level is above the client's clearance to publish."""

    code = "clearance-too-low"


# --------------------------------------------------------------------------- events


class InvalidEvent(PeerError):
    """Base of all rejections of one event. The event is not logged; its publisher gets the
    error."""

    code = "invalid-event"


class TooLarge(InvalidEvent):
    """The document, or one part of it, is larger than the node accepts."""

    code = "too-large"


class NotWellFormed(InvalidEvent):
    """The bytes are not a well-formed XML document in UTF-8."""

    code = "not-well-formed"


class ForbiddenMarkup(InvalidEvent):
    """The document has an internal subset, a general entity or other forbidden markup."""

    code = "forbidden-markup"


class NotValid(InvalidEvent):
    """The document does not conform to its DTD."""

    code = "not-valid"


class BadEnvelope(InvalidEvent):
    """The DTD accepts the envelope, but it breaks a rule that a DTD can not express."""

    code = "bad-envelope"


class UnknownType(InvalidEvent):
    """No DTD is available for the event's type and version."""

    code = "unknown-type"


class TooManyTypes(UnknownType):
    """The DTD can not be stored: its account or node has used its share."""

    code = "too-many-types"


class ForbiddenPointer(UnknownType):
    """The event's DTD pointer names a place from which this node does not fetch."""

    code = "forbidden-pointer"


class ForgedIdentity(InvalidEvent):
    """The event names another client or incarnation than its session."""

    code = "forged-identity"


class OutsideWindow(InvalidEvent):
    """The sequence number is too old to tell a duplicate from a new event."""

    code = "outside-window"


# --------------------------------------------------------------------------- DTDs


class BadDtd(PeerError):
    """The text is not a usable DTD. Names the problem."""

    code = "bad-dtd"


# --------------------------------------------------------------------------- names and queries


class BadName(PeerError):
    """A stream name, stream pattern, client id or subscription name breaks the grammar."""

    code = "bad-name"


class BadQuery(PeerError):
    """The query is not a supported XPath 1.0 expression. `column` is the position."""

    code = "bad-query"


class QueryTooExpensive(BadQuery):
    """The query costs more than the node allows, at subscribe time or while running."""

    code = "query-too-expensive"


class TooManySubscriptions(PeerError):
    """The client has reached its limit of subscriptions."""

    code = "too-many-subscriptions"


class UnknownSubscription(PeerError):
    """No subscription of this client has that number or name."""

    code = "unknown-subscription"


class SubscriptionHeld(PeerError):
    """The durable subscription is in use or paused; it can not be changed or moved now."""

    code = "subscription-held"


class BadPosition(PeerError):
    """The position can not come from this log: it lies in the future or has another origin."""

    code = "bad-position"


# --------------------------------------------------------------------------- the network of nodes


class WrongNetwork(PeerError):
    """The two nodes belong to different networks, or not to the requested cluster."""

    code = "wrong-network"


class ClusterFull(PeerError):
    """The cluster has reached its limit of nodes."""

    code = "cluster-full"


class AddressNotAllowed(PeerError):
    """Nodes at this network address may not join the cluster."""

    code = "address-not-allowed"


class NameTaken(PeerError):
    """Another node has this name already."""

    code = "name-taken"


class TooManyLinks(PeerError):
    """The node has reached its limit of links over this transport."""

    code = "too-many-links"
