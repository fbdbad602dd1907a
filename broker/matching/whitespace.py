"""Marking of white space before the parse, to bound libxml2's memory (T27).

libxml2 stores each distinct run of fewer than 60 blanks between two tags for ever. An empty CDATA
section after the run avoids that, with the same tree. It is illegal before a processing instruction
after the root element; `name_watch` counts those.
"""

from __future__ import annotations

import re

_RUN_OR_OPAQUE = re.compile(
    # An unclosed section reaches to the document's end, so the scan stays linear.
    rb"(<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z))"
    rb"|(?<=>)[ \t\r\n]{2,}+(?=<[^!?])",
    re.DOTALL,
)

#: A run is mixed if it contains one of these pairs.
_MIXED = (b" \n", b"\t\n", b" \t", b"\t ", b" \r", b"\t\r")


def mark_mixed_runs(document: bytes, start: int) -> bytes:
    """Return the document with its mixed runs of blanks marked, from offset `start`."""
    find = document.find
    # A single character is found much faster than a pair, and most documents have none of these.
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
    """Return True for line breaks and then blanks of one kind. Few such runs are distinct."""
    indentation = run.lstrip(b"\r\n")
    return not indentation.strip(b" ") or not indentation.strip(b"\t")
