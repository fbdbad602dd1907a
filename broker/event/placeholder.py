"""The placeholder of an event that a relay refused: it keeps the place and tells the code.

A relay that refuses an acknowledged event must not drop it in silence. The event's bytes are
replaced by a processing instruction that no event can consist of, so a node that does not know
placeholders refuses them as not well-formed. A subscriber gets a gap with the code.
"""

from __future__ import annotations

import re
from typing import Final

_PLACEHOLDER: Final = re.compile(rb"<\?xmlbroker-refused ([a-z][a-z-]{0,63})\?>")
_BEGINNING: Final = b"<?xmlbroker-refused "


def placeholder(code: str) -> bytes:
    """The bytes that stand for a refused event."""
    return _BEGINNING + code.encode() + b"?>"


def refusal_code(document: bytes) -> str | None:
    """The code in a placeholder; None for any other document."""
    if not document.startswith(_BEGINNING):
        return None
    found = _PLACEHOLDER.fullmatch(document)
    return None if found is None else found[1].decode()
