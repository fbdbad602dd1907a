"""Placeholder of an event that a relay rejected: it keeps the place and carries the code.

A relay must not drop an acknowledged event silently. Older nodes reject the processing instruction
as not well-formed. A subscriber gets a gap with the code.
"""

from __future__ import annotations

import re
from typing import Final

_PLACEHOLDER: Final = re.compile(rb"<\?xmlbroker-refused ([a-z][a-z-]{0,63})\?>")
_BEGINNING: Final = b"<?xmlbroker-refused "


def make_placeholder(code: str) -> bytes:
    return _BEGINNING + code.encode() + b"?>"


def placeholder_code(document: bytes) -> str | None:
    """Return None for any other document."""
    if not document.startswith(_BEGINNING):
        return None
    found = _PLACEHOLDER.fullmatch(document)
    return None if found is None else found[1].decode()
