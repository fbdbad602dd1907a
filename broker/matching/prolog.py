"""The prolog of an event: encoding, event type, pointer.

It is read before the XML parser runs, which an internal subset must not reach (T23), and compared
with the parser's afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

import attrs
from lxml import etree

from broker.dtd.reference import DtdReference
from broker.errors import BadEnvelope, BadName, ForbiddenMarkup, InvalidEvent
from broker.event.encoding import is_utf8
from broker.event.envelope import public_identifier
from broker.event.reader import parse_public_identifier
from broker.matching.screening import error_at

#: The root element as written in DOCTYPEs and DTDs.
ROOT_NAME = b"Mspaces:Event"

_BOM = b"\xef\xbb\xbf"
_DECLARATION = re.compile(
    rb"<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*([\"'])([^\"']*)\1"
    rb"(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*([\"'])([^\"']*)\3)?"
    rb"(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*([\"'])(?:yes|no)\5)?[ \t\r\n]*\?>"
)
_DOCTYPE = re.compile(
    rb"<!DOCTYPE[ \t\r\n]+([^ \t\r\n\[>\"']+)"
    rb"(?:[ \t\r\n]+(?:SYSTEM[ \t\r\n]+(?:\"[^\"]*\"|'[^']*')"
    rb"|PUBLIC[ \t\r\n]+(\"[^\"]*\"|'[^']*')[ \t\r\n]+(\"[^\"]*\"|'[^']*')))?"
    rb"[ \t\r\n]*([\[>])"
)
_SPACE = re.compile(rb"[ \t\r\n]+")
_CACHED = 1024
_CACHED_BYTES = 2048


@attrs.frozen(slots=True)
class Prolog:
    """`reference` is None for a document without a DOCTYPE.

    `end` is the offset after the prolog. `extras` are its comments and processing instructions.
    """

    reference: DtdReference | None
    system_id: str
    end: int
    extras: bytes


class PrologReader:
    def __init__(self) -> None:
        self._known: dict[bytes, Prolog] = {}
        # Neighbouring events mostly have one prolog; the root's name ends it.
        self._last: tuple[bytes, Prolog] | None = None

    def read(self, document: bytes) -> Prolog:
        """Return the document's prolog.

        Raises `NotWellFormed` for a malformed prolog or an encoding other than UTF-8 and US-ASCII;
        `ForbiddenMarkup` for an internal subset; `BadEnvelope` for a DOCTYPE without event type.
        """
        if self._last is not None and document.startswith(self._last[0]):
            return self._last[1]
        end = document.find(b"<" + ROOT_NAME)
        head = document[:end] if 0 < end <= _CACHED_BYTES else b""
        known = self._known.get(head)
        if known is not None:
            self._last = head + b"<" + ROOT_NAME, known
            return known
        prolog = _parse_prolog(document)
        if head and prolog.end == end:
            if len(self._known) >= _CACHED:
                self._known.clear()
            self._known[head] = prolog
        return prolog

    def read_changes(self, documents: Iterable[bytes]) -> Iterator[tuple[int, Prolog]]:
        """Yield each prolog that differs from the one before, with the index of its document.

        Malformed ones are left out.
        """
        repeated: bytes | None = None
        for index, document in enumerate(documents):
            if repeated is not None and document.startswith(repeated):
                continue
            try:
                prolog = self.read(document)
            except InvalidEvent:
                continue
            yield index, prolog
            is_known = self._last is not None and self._last[1] is prolog
            repeated = self._last[0] if self._last is not None and is_known else None


def check_prolog(prolog: Prolog, root: etree._Element) -> None:
    """Raise `BadEnvelope` if the parser has read another DOCTYPE or encoding."""
    found = cast(Any, root.getroottree().docinfo)
    reference = prolog.reference
    public_id = None if reference is None else public_identifier(reference.type, reference.version)
    system_id = None if reference is None else prolog.system_id
    encoding = found.encoding
    if (
        found.public_id != public_id
        or found.system_url != system_id
        or not (encoding is None or is_utf8(encoding))
    ):
        raise BadEnvelope("the prolog is not what the parser reads", line=1, column=1)


def _parse_prolog(document: bytes) -> Prolog:
    at = _skip_declaration(document, len(_BOM) if document.startswith(_BOM) else 0)
    extras = []
    reference, system_id, has_doctype = None, "", False
    while at < len(document):
        if space := _SPACE.match(document, at):
            at = space.end()
        elif document.startswith(b"<!--", at):
            start, at = at, _skip_past(document, b"-->", at, 4, "a comment is not closed")
            extras.append(document[start:at])
        elif document.startswith(b"<?", at):
            start, at = (
                at,
                _skip_past(document, b"?>", at, 2, "a processing instruction is not closed"),
            )
            extras.append(document[start:at])
        elif document.startswith(b"<!DOCTYPE", at) and not has_doctype:
            reference, system_id, at = _parse_doctype(document, at)
            has_doctype = True
        elif document.startswith(b"<!", at):
            raise error_at(document, at, "no such declaration may stand before the root element")
        else:
            break
    return Prolog(reference, system_id, at, b"".join(extras))


def _skip_declaration(document: bytes, at: int) -> int:
    if not document.startswith(b"<?xml", at) or document[at + 5 : at + 6] not in b" \t\r\n":
        return at
    match = _DECLARATION.match(document, at)
    if match is None:
        raise error_at(document, at, "the XML declaration is malformed")
    _, version, _, encoding, _ = match.groups()
    if version != b"1.0":
        raise error_at(document, at, f"XML version {_shown(version)} is not accepted, only 1.0")
    if encoding is not None and not is_utf8(encoding.decode("utf-8", "replace")):
        raise error_at(
            document, at, f"the declared encoding is {_shown(encoding)}: only UTF-8 is accepted"
        )
    return match.end()


def _parse_doctype(document: bytes, at: int) -> tuple[DtdReference, str, int]:
    match = _DOCTYPE.match(document, at)
    if match is None:
        raise error_at(document, at, "the DOCTYPE is malformed")
    root, public, system, ending = match.groups()
    if ending == b"[":
        text = "the DOCTYPE has an internal subset"
        raise error_at(document, match.end() - 1, text, ForbiddenMarkup)
    if root != ROOT_NAME:
        text = f"the DOCTYPE's root element is {_shown(root)}, not {ROOT_NAME.decode()}"
        raise error_at(document, at, text, BadEnvelope)
    try:
        name, version = parse_public_identifier(_unquote(public) if public else None)
        reference = DtdReference(name, version)
    except (BadEnvelope, BadName) as error:
        raise error_at(document, at, error.text, BadEnvelope) from None
    return reference, _unquote(system), match.end()


def _unquote(quoted: bytes) -> str:
    return quoted[1:-1].decode("utf-8", "replace")


def _shown(name: bytes) -> str:
    return repr(name[:60].decode("utf-8", "replace"))


def _skip_past(document: bytes, mark: bytes, start: int, opening: int, problem: str) -> int:
    position = document.find(mark, start + opening)
    if position < 0:
        raise error_at(document, start, problem)
    return position + len(mark)
