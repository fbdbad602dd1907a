"""Errors of this project, in two families: `OurError` and `PeerError`."""

from __future__ import annotations

from broker.error import BrokerError as BrokerError
from broker.error import OurError as OurError
from broker.error import PeerError as PeerError
from broker.error import UnknownPeerError as UnknownPeerError
from broker.error import WireError as WireError
from broker.error import from_wire as from_wire

# --------------------------------------------------------------------------- ours


class ConfigurationError(OurError):
    """Unknown setting, wrong value, or contradiction. Names the key."""

    code = "configuration"


class StackError(OurError):
    """Names the layer and its missing property."""

    code = "stack"


class UnknownStack(StackError):
    """Lists the installed ones."""

    code = "unknown-stack"


class AmbiguousStack(StackError):
    """Names the source of each."""

    code = "ambiguous-stack"


class CleartextForbidden(OurError):
    """The connection is not encrypted, and a secret, or an event of the level `high`, waits."""

    code = "cleartext-forbidden"


class LogUnavailable(OurError):
    """Full or failing disk. Nothing is lost; retry."""

    code = "log-unavailable"


class Cloned(LogUnavailable):
    """Another process runs on a copy of this node's data."""

    code = "cloned"


class TableUnavailable(OurError):
    """The table of published keys can not be read or written, or another process uses it."""

    code = "table-unavailable"


class LogCorrupt(OurError):
    """The file is not an event log of xmlbroker, or has an unreadable version."""

    code = "log-corrupt"


class ArchiveUnavailable(OurError):
    """Nothing is lost; retry."""

    code = "archive-unavailable"


class ArchiveCorrupt(OurError):
    """Names the object that differs from the written one."""

    code = "archive-corrupt"


class ArchiveObjectMissing(ArchiveCorrupt):
    """A newer archive state may have replaced it."""

    code = "archive-object-missing"


class EngineUnavailable(OurError):
    """It is not installed, or it died. The text says which."""

    code = "engine-unavailable"


class ReplayCancelled(OurError):
    code = "replay-cancelled"


class ReplayTooLarge(OurError):
    """The replay exceeds the bound for one. Ask for less at a time."""

    code = "replay-too-large"


class Overloaded(OurError):
    """A bounded queue is full; its rule was applied."""

    code = "overloaded"


class NotConnected(OurError):
    """The client has no session, and the request can not wait for one."""

    code = "not-connected"


class Closed(OurError):
    code = "closed"


class UnknownDestination(OurError):
    """A message for a site that is not in the group, or a change of a node that is not there."""

    code = "unknown-destination"


class GaveUp(OurError):
    """No node was reachable in time."""

    code = "gave-up"


# --------------------------------------------------------------------------- bytes and sessions


class ProtocolError(PeerError):
    """Bytes that break the protocol: bad frame, message in the wrong state, garbage."""

    code = "protocol"


class FrameTooLarge(PeerError):
    code = "frame-too-large"


class VersionMismatch(PeerError):
    code = "version-mismatch"


class BadCertificate(PeerError):
    """An order certificate, or a proof, that is not of the site or not about its order."""

    code = "bad-certificate"


class BadSignature(ProtocolError):
    """An event that its origin has not signed, at this place and with these bytes."""

    code = "bad-signature"


class PeerSilent(PeerError):
    code = "peer-silent"


class NoMesh(PeerError):
    code = "no-mesh"


class AuthenticationFailed(PeerError):
    """The text does not say whether the credential is missing or wrong, against guessing."""

    code = "authentication-failed"


class LoginExpired(PeerError):
    """The token or certificate of the session's login is not valid any more."""

    code = "login-expired"


class AccountChanged(PeerError):
    """The account lost a right that the session needs: log in again."""

    code = "account-changed"


class IncarnationRefused(PeerError):
    """Another process of the client is newer or concurrent; only one may be connected."""

    code = "incarnation-refused"


class IncarnationAhead(IncarnationRefused):
    """An incarnation lies too far ahead of the node's clock, so it could not be followed."""

    code = "incarnation-ahead"


class NotOwner(PeerError):
    """The ClientId belongs to another account, or its owner's proof is missing or wrong."""

    code = "not-owner"


class SessionSuperseded(PeerError):
    """Another process of this client connected with a higher incarnation."""

    code = "session-superseded"


class TooManySessions(PeerError):
    code = "too-many-sessions"


class ShuttingDown(PeerError):
    code = "shutting-down"


class NotAllowed(PeerError):
    """Names the missing right and the stream."""

    code = "not-allowed"


class NotInGroup(PeerError):
    """Names the nodes that carry the stream."""

    code = "not-in-group"


class ClearanceTooLow(PeerError):
    """The event's security level is above the publisher's clearance."""

    code = "clearance-too-low"


class InvalidEvent(PeerError):
    """Base of all rejections of one event, which is not logged. Its publisher gets the error."""

    code = "invalid-event"


class TooLarge(InvalidEvent):
    """The document, or one part of it, exceeds the node's limit."""

    code = "too-large"


class NotWellFormed(InvalidEvent):
    code = "not-well-formed"


class ForbiddenMarkup(InvalidEvent):
    """The document has an internal subset, general entity or other forbidden markup."""

    code = "forbidden-markup"


class NotValid(InvalidEvent):
    """The document does not conform to its DTD."""

    code = "not-valid"


class SchemaUnusable(NotValid):
    """The schema of the type took too long: it is not known whether the event is valid."""

    code = "schema-unusable"


class BadEnvelope(InvalidEvent):
    """The envelope breaks a rule that a DTD can not express."""

    code = "bad-envelope"


class UnknownType(InvalidEvent):
    """No DTD is available for the type and version."""

    code = "unknown-type"


class TooManyTypes(UnknownType):
    """The account or the node has used its share of DTDs."""

    code = "too-many-types"


class ForbiddenPointer(UnknownType):
    """The DTD pointer names a place from which this node does not fetch."""

    code = "forbidden-pointer"


class ForgedIdentity(InvalidEvent):
    """The event names another client or incarnation than its session."""

    code = "forged-identity"


class OutsideWindow(InvalidEvent):
    """The sequence number is too old to be told from a duplicate."""

    code = "outside-window"


class BadDtd(PeerError):
    """Names the problem of the text."""

    code = "bad-dtd"


class BadName(PeerError):
    """A name of a stream, client or subscription, or a stream pattern, breaks the grammar."""

    code = "bad-name"


class BadQuery(PeerError):
    """The query is not a supported XPath 1.0 expression. `column` is the position."""

    code = "bad-query"


class QueryTooExpensive(BadQuery):
    """The query exceeds the node's limit, when subscribed or while running."""

    code = "query-too-expensive"


class TooManySubscriptions(PeerError):
    code = "too-many-subscriptions"


class BadQueuePolicy(PeerError):
    """The queue policy is unknown, or does not fit the subscription."""

    code = "bad-queue-policy"


class QueueFull(PeerError):
    """The queue of a subscription with the policy `fail` was full."""

    code = "queue-full"


class UnknownSubscription(PeerError):
    code = "unknown-subscription"


class SubscriptionHeld(PeerError):
    """The durable subscription is in use or paused, and can not be changed or moved."""

    code = "subscription-held"


class BadPosition(PeerError):
    """The position is in the future or of another log."""

    code = "bad-position"


# --------------------------------------------------------------------------- the network of nodes


class WrongNetwork(PeerError):
    """The nodes are of different networks, or one is not of the requested cluster."""

    code = "wrong-network"


class StackMismatch(PeerError):
    """The other end of a transport's link has other stacks, or other versions of them."""

    code = "stack-mismatch"


class ClusterFull(PeerError):
    code = "cluster-full"


class AddressNotAllowed(PeerError):
    """Nodes at this network address may not join."""

    code = "address-not-allowed"


class NameTaken(PeerError):
    code = "name-taken"


class TooManyLinks(PeerError):
    code = "too-many-links"
