"""A check of rights by the first bytes of a document, before any other work on it.

A document of an account without the right is not parsed, matched, looked up or stored. The fields
are read where all known writers of envelopes put them. A document that hides them there is matched,
and its rights are checked afterwards (`broker.ingest.authorisation`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from broker.errors import ForgedIdentity, NotAllowed, PeerError
from broker.event.envelope import SecurityLevel
from broker.identity import Identity
from broker.ingest.publisher import Publisher

_HEAD = re.compile(
    rb"[^<]{0,9}+(?:<\?xml[^>]{0,200}+>\s*+)?+<!DOCTYPE[^>]{0,2000}+>\s*+"
    rb"<Mspaces:Event(?:\s[^>]{0,2000}+)?+>\s*+"
    rb"<Mspaces:StreamId>([^<&]{0,1000}+)</Mspaces:StreamId>\s*+"
    rb"<Mspaces:EventId>\s*+<Mspaces:ClientId>([^<&]{0,1000}+)</Mspaces:ClientId>"
)
_TYPE_TAG = b"<Mspaces:EventType"
_LEVEL = re.compile(rb"[^>]{0,200}?\sSecuritylevel\s*=\s*[\"'](\w{1,20})[\"']")
#: Bytes between the client id and the tag with the level.
_MAX_BETWEEN = 1_000
_LEVELS = {level.value.encode(): level for level in SecurityLevel}


def check_heads(publisher: Publisher, documents: Sequence[bytes]) -> dict[int, PeerError]:
    """Return the errors of documents that the account may not publish, by index."""
    if not publisher.identity.account:
        return {}
    errors: dict[int, PeerError] = {}
    for index, document in enumerate(documents):
        error = _check_head(publisher, document)
        if error is not None:
            errors[index] = error
    return errors


def _check_head(publisher: Publisher, document: bytes) -> PeerError | None:
    identity, permitted = publisher.identity, publisher.permitted_head
    if permitted is not None and permitted[0] is identity and document.startswith(permitted[1]):
        # The publisher's last events differ behind this only.
        end = len(permitted[1])
        return _check_level(identity, document, end)
    match = _HEAD.match(document)
    if match is None:
        if identity.rights.publish:
            return None
        return NotAllowed(f"account {identity.account!r} may not publish")
    stream, client_id = (field.decode("utf-8", "replace") for field in match.groups())
    try:
        identity.check_publish(stream, SecurityLevel.LOW)
    except PeerError as error:
        return error
    if client_id != identity.client_id:
        return ForgedIdentity(
            f"the event is of {client_id[:100]!r}, the session is of {identity.client_id}"
        )
    publisher.permitted_head = (identity, match.group())
    return _check_level(identity, document, match.end())


def _check_level(identity: Identity, document: bytes, start: int) -> PeerError | None:
    if identity.clearance is SecurityLevel.HIGH:
        return None
    tag = document.find(_TYPE_TAG, start, start + _MAX_BETWEEN)
    match = None if tag < 0 else _LEVEL.match(document, tag + len(_TYPE_TAG))
    level = None if match is None else _LEVELS.get(match[1])
    if level is None:
        return None
    try:
        identity.check_level(level)
    except PeerError as error:
        return error
    return None
