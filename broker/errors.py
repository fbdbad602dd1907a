"""Everything that can go wrong, as two families: our mistake and the peer's.

`OurError`: this process was configured or called wrongly, or its own disk or network failed.
`PeerError`: a peer sent wrong bytes; it is told, the error is counted, nothing else changes.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

#: What `to_wire` gives and `from_wire` takes: code, text, line, column (0 where it does not apply).
WireError: TypeAlias = tuple[str, str, int, int]


class BrokerError(Exception):
    """Base of all errors of this project. Never raised itself.

    `line` and `column` count from 1; 0: no place in a text. A query has line 1.
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
            raise TypeError(f"error code {cls.code!r} is taken twice")

    def __str__(self) -> str:
        if self.line:
            return f"{self.text} (line {self.line}, column {self.column})"
        return self.text

    def to_wire(self) -> WireError:
        """The error as a tuple that any codec can carry."""
        return (self.code, self.text, self.line, self.column)


def from_wire(wire: WireError) -> BrokerError:
    """The error that `to_wire` described; `UnknownPeerError` for a code of a later version."""
    code, text, line, column = wire
    known = BrokerError._by_code.get(code)
    if known is None:
        return UnknownPeerError(f"{code}: {text}", line=line, column=column)
    return known(text, line=line, column=column)


# --------------------------------------------------------------------------- the two families


class OurError(BrokerError):
    """This process was configured or called wrongly, or its own resources failed."""


class PeerError(BrokerError):
    """The other side broke a rule. Told to it, counted, and nothing else is disturbed."""


class UnknownPeerError(PeerError):
    """The peer reported an error whose code this version does not know."""

    code = "unknown"


# --------------------------------------------------------------------------- ours


class ConfigurationError(OurError):
    """A setting is unknown, has a wrong value, or contradicts another one. Names the key."""

    code = "configuration"


class StackError(OurError):
    """A stack of layers does not fit together: names who needs and who lacks."""

    code = "stack"


class UnknownStack(StackError):
    """No stack of that name is installed. Lists those that are."""

    code = "unknown-stack"


class AmbiguousStack(StackError):
    """Several stacks of that name are installed. Names where each comes from."""

    code = "ambiguous-stack"


class LogUnavailable(OurError):
    """The event log can not be written now (a full or failing disk). Nothing is lost; retry."""

    code = "log-unavailable"


class Cloned(LogUnavailable):
    """Another process runs on a copy of this node's data, and has its place in the network."""

    code = "cloned"


class LogCorrupt(OurError):
    """The event log on disk is not one of ours, or of a version that this program can not read."""

    code = "log-corrupt"


class ArchiveUnavailable(OurError):
    """The archive can not be reached, read or written now. Nothing is lost; retry."""

    code = "archive-unavailable"


class ArchiveCorrupt(OurError):
    """Something in the archive is not what was written there. Names the object."""

    code = "archive-corrupt"


class ArchiveObjectMissing(ArchiveCorrupt):
    """The archive has no object of that name (any more): its state may be newer by now."""

    code = "archive-object-missing"


class EngineUnavailable(OurError):
    """The engine of replays can not run here, or it died. Says what is missing, or that."""

    code = "engine-unavailable"


class ReplayCancelled(OurError):
    """The replay was cancelled before it was done."""

    code = "replay-cancelled"


class ReplayTooLarge(OurError):
    """What a replay finds is more than the node may hold for one. Ask for less at a time."""

    code = "replay-too-large"


class Overloaded(OurError):
    """A bounded queue is full; its stated rule was applied."""

    code = "overloaded"


class NotConnected(OurError):
    """The client has no session, and what was asked can not wait for one."""

    code = "not-connected"


class Closed(OurError):
    """The object was closed; nothing more can be done with it."""

    code = "closed"


class GaveUp(OurError):
    """No listed node could be reached within the time the caller allowed."""

    code = "gave-up"


# --------------------------------------------------------------------------- bytes and sessions


class ProtocolError(PeerError):
    """The bytes are not this protocol: a bad frame, a message out of state, garbage."""

    code = "protocol"


class FrameTooLarge(PeerError):
    """A frame announces more bytes than this end accepts."""

    code = "frame-too-large"


class VersionMismatch(PeerError):
    """The two ends share no protocol version."""

    code = "version-mismatch"


class PeerSilent(PeerError):
    """Nothing was heard from the peer for the liveness timeout."""

    code = "peer-silent"


class AuthenticationFailed(PeerError):
    """The credential is missing or wrong. Does not say which, so as not to help a guesser."""

    code = "authentication-failed"


class IncarnationRefused(PeerError):
    """A newer or concurrent process of the same client is known: two of them can not both be it."""

    code = "incarnation-refused"


class SessionSuperseded(PeerError):
    """Another process of this client connected with a higher incarnation; this session is over."""

    code = "session-superseded"


class TooManySessions(PeerError):
    """The node, or this client, has as many sessions as it may."""

    code = "too-many-sessions"


class ShuttingDown(PeerError):
    """The node is being stopped in good order; try another one, or this one later."""

    code = "shutting-down"


class NotAllowed(PeerError):
    """The account has no right to do this. Names the right and the stream."""

    code = "not-allowed"


class ClearanceTooLow(PeerError):
    """The event's security level is above what this client may publish."""

    code = "clearance-too-low"


# --------------------------------------------------------------------------- events


class InvalidEvent(PeerError):
    """Base of all refusals of one event. The event is not logged; its publisher is told."""

    code = "invalid-event"


class TooLarge(InvalidEvent):
    """The document, or one part of it, is larger than the node accepts."""

    code = "too-large"


class NotWellFormed(InvalidEvent):
    """The bytes are not a well-formed XML document, or not in UTF-8."""

    code = "not-well-formed"


class ForbiddenMarkup(InvalidEvent):
    """An internal subset, a general entity, or another construct that events may not have."""

    code = "forbidden-markup"


class NotValid(InvalidEvent):
    """The document does not conform to its DTD."""

    code = "not-valid"


class BadEnvelope(InvalidEvent):
    """The DTD accepts the envelope, but a rule that no DTD can say is broken."""

    code = "bad-envelope"


class UnknownType(InvalidEvent):
    """No DTD could be had for the event's type and version."""

    code = "unknown-type"


class TooManyTypes(UnknownType):
    """The DTD can not be stored: its account or node has used its share."""

    code = "too-many-types"


class ForbiddenPointer(UnknownType):
    """The event points to a DTD at a place that this node does not fetch from."""

    code = "forbidden-pointer"


class ForgedIdentity(InvalidEvent):
    """The event names another client, or another incarnation, than the session it came by."""

    code = "forged-identity"


class OutsideWindow(InvalidEvent):
    """The sequence number is so old that duplicate and new can not be told apart any more."""

    code = "outside-window"


# --------------------------------------------------------------------------- DTDs


class BadDtd(PeerError):
    """The text is not a DTD that can be used here: names what is wrong."""

    code = "bad-dtd"


# --------------------------------------------------------------------------- names and queries


class BadName(PeerError):
    """A stream name, stream pattern, client or subscription name breaks the grammar."""

    code = "bad-name"


class BadQuery(PeerError):
    """The query is not an XPath 1.0 expression that can be used here. `column` is the position."""

    code = "bad-query"


class QueryTooExpensive(BadQuery):
    """The query would cost more than the node allows: at subscribe time or while running."""

    code = "query-too-expensive"


class TooManySubscriptions(PeerError):
    """The client has as many subscriptions as it may."""

    code = "too-many-subscriptions"


class UnknownSubscription(PeerError):
    """No subscription of this client has that number or name."""

    code = "unknown-subscription"


class SubscriptionHeld(PeerError):
    """The durable subscription is in use, or paused: it can not be changed or moved now."""

    code = "subscription-held"


class BadPosition(PeerError):
    """A position that this log can not have given: from the future, or of another origin."""

    code = "bad-position"


# --------------------------------------------------------------------------- the network of nodes


class WrongNetwork(PeerError):
    """The two nodes are of different networks, or not of the cluster that is wanted."""

    code = "wrong-network"


class ClusterFull(PeerError):
    """The cluster has as many nodes as it may."""

    code = "cluster-full"


class AddressNotAllowed(PeerError):
    """Nodes at this network address may not be part of the cluster."""

    code = "address-not-allowed"


class NameTaken(PeerError):
    """Another node has this name already."""

    code = "name-taken"


class TooManyLinks(PeerError):
    """The node has as many links over this transport as it may."""

    code = "too-many-links"
