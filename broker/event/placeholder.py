"""Placeholder of an event that a relay rejected: it keeps the place and carries the code.

A relay must not drop an acknowledged event silently. A subscriber gets a gap with the code. The
placeholder has the hash of the event's document, so that the proof of the event's header
(`broker.signatures.proof`) stays valid. Those of earlier versions have none. Older nodes reject the
processing instruction as not well-formed.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

_PLACEHOLDER: Final = re.compile(rb"<\?xmlbroker-refused ([a-z][a-z-]{0,63})( [0-9a-f]{64})?\?>")
_BEGINNING: Final = b"<?xmlbroker-refused "
MAX_PLACEHOLDER_BYTES: Final = len(_BEGINNING) + 64 + 65 + len(b"?>")


def make_placeholder(code: str, document: bytes) -> bytes:
    """Return the placeholder of a document; of a placeholder itself."""
    if placeholder_code(document) is not None:
        return document
    return b"%b%b %b?>" % (_BEGINNING, code.encode(), sha256(document).hexdigest().encode())


def placeholder_code(document: bytes) -> str | None:
    """Return None for any other document."""
    if not document.startswith(_BEGINNING):
        return None
    found = _PLACEHOLDER.fullmatch(document)
    return None if found is None else found[1].decode()


def digest_of(document: bytes) -> bytes:
    """Return the SHA-256 of a document; for a placeholder, that of the rejected document."""
    if document.startswith(_BEGINNING):
        found = _PLACEHOLDER.fullmatch(document)
        if found is not None and found[2] is not None:
            return bytes.fromhex(found[2].decode())
    return sha256(document).digest()
