"""Text from events and peers, made harmless for terminals."""

from __future__ import annotations

import re
from typing import Final

# Control characters could command the terminal; XML allows C1 controls and DEL. The others are
# invisible, and could reorder or hide text. Surrogates can not be written.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Escape control and invisible characters, but tab and newline."""
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def escape_in_json(text: str) -> str:
    """Escape such characters in the strings of a line of JSON, which keeps its meaning."""
    return _UNPRINTABLE.sub(_escape_for_json, text)


def _escape_for_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
