"""Why a document's white space may be marked before it is parsed (T27).

libxml2 keeps each distinct run of fewer than 60 blanks between two tags for ever, like a name.
Indented documents have few such runs; somebody who mixes blanks at will can make a *valid* document
that costs memory for good, 80 bytes for each run. An empty CDATA section behind a run makes libxml2
treat it as ordinary text, and the tree is the same: the parser merges both. A run before a
processing instruction is left alone, since it may lie behind the root element, where no CDATA
section may stand; `names.py` counts those.
"""

from __future__ import annotations

import re

_RUN_OR_OPAQUE = re.compile(
    # Without an end, a section reaches to the document's end: no other place is then looked at.
    rb"(<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z))"
    rb"|(?<=>)[ \t\r\n]{2,}+(?=<[^!?])",
    re.DOTALL,
)

#: A run is mixed if one of these pairs is in it.
_MIXED = (b" \n", b"\t\n", b" \t", b"\t ", b" \r", b"\t\r")


def mark_mixed_runs(document: bytes, start: int) -> bytes:
    """The document, its mixed runs of blanks from offset `start` on marked if it has any.

    `start` lies behind the DOCTYPE. Line numbers stay as they are.
    """
    find = document.find
    # A single sign is looked for much faster than a pair, and most documents have none of them.
    if find(b"\n", start) < 0 and find(b"\t", start) < 0 and find(b"\r", start) < 0:
        return document
    if all(find(pair, start) < 0 for pair in _MIXED):
        return document
    return document[:start] + _RUN_OR_OPAQUE.sub(_mark, document[start:])


def _mark(match: re.Match[bytes]) -> bytes:
    run = match.group()
    if match.group(1) is not None or _is_plain(run):
        return run
    return run + b"<![CDATA[]]>"


def _is_plain(run: bytes) -> bool:
    """Line breaks, then blanks of one kind: documents have such runs, but few different ones."""
    indentation = run.lstrip(b"\r\n")
    return not indentation.strip(b" ") or not indentation.strip(b"\t")
