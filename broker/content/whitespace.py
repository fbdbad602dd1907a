"""Why a document's white space may be marked before it is parsed (T27).

libxml2 keeps each distinct run of fewer than 60 blanks between two tags for ever, like a name.
Indented documents have few such runs; somebody who mixes blanks at will can make a *valid* document
that costs memory for good, 80 bytes for each run. An empty CDATA section behind a run makes libxml2
treat it as ordinary text, and the tree is the same: the parser merges both.
"""

from __future__ import annotations

import re

_RUN_OR_OPAQUE = re.compile(
    rb"(<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>)|(?<=>)[ \t\r\n]{2,}(?=<)", re.DOTALL
)

#: A run is mixed if one of these pairs is in it. The single signs are looked for first: it is fast.
_MIXED = (
    (b"\n", (b" \n",)),
    (b"\t", (b"\t\n", b" \t", b"\t ")),
    (b"\r", (b" \r", b"\t\r", b"\r\r", b"\r ", b"\r\t", b"\n\r\n\n")),
)


def with_runs_unkept(document: bytes, start: int) -> bytes:
    """The document, its mixed runs of blanks from offset `start` on marked if it has any.

    `start` lies behind the DOCTYPE. Line numbers stay as they are.
    """
    if not any(
        document.find(sign, start) >= 0 and any(document.find(pair, start) >= 0 for pair in pairs)
        for sign, pairs in _MIXED
    ):
        return document
    return document[:start] + _RUN_OR_OPAQUE.sub(_mark, document[start:])


def _mark(match: re.Match[bytes]) -> bytes:
    run = match.group()
    if match.group(1) is not None or _is_plain(run):
        return run
    return run + b"<![CDATA[]]>"


def _is_plain(run: bytes) -> bool:
    """Line breaks, then blanks of one kind: there are few such runs, and most documents have them."""
    indentation = run.replace(b"\r\n", b"\n").lstrip(b"\n")
    return b"\r" not in run.replace(b"\r\n", b"\n") and (
        not indentation.strip(b" ") or not indentation.strip(b"\t")
    )
