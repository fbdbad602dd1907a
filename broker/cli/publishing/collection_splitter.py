"""Splitter of collections into events: one for each element that matches a path. Sans-I/O.

expat reads the document as a stream and gives the byte offsets of an event, whose bytes are those
of the document. Only its start tag gets the bindings of its ancestors that it uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from xml.parsers import expat

import attrs

from broker.cli.publishing.ancestor_values import AncestorValues, Copy
from broker.cli.publishing.document_splitter import MAX_DOCUMENT
from broker.cli.publishing.publication import RawDocument, SourceLocation
from broker.cli.publishing.split_path import START, StreamingPath
from broker.cli.publishing.start_tag import (
    NO_BINDINGS,
    BadNamespace,
    OpenedTag,
    Scope,
    declared_bindings,
    extend_scope,
    find_used_prefixes,
    write_declarations,
)
from broker.event.encoding import is_utf8

#: Elements inside each other; libxml2 has the same bound.
MAX_DEPTH: Final = 256
#: Distinct names of elements and attributes: expat keeps them until the document's end.
MAX_NAMES: Final = 20_000
#: Bytes of input with a name that is new.
MAX_NAME_BYTES: Final = 16 << 20
#: Bytes of the ancestors' bindings in one event.
MAX_DECLARATIONS: Final = 4 << 10
#: Namespaces of one name that a refusal shows.
_MAX_HINTS: Final = 3
_JUNK: Final = expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]
_INVALID: Final = expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]


@attrs.frozen
class Split:
    """The option `--split` with its companions."""

    path: StreamingPath
    copies: tuple[Copy, ...] = ()


class _Refused(Exception):
    """Ends the reading of a source."""


class CollectionSplitter:
    """Returns each event when the next markup or text behind it is there.

    Holds at most one event and one portion of input. After a document that is not well-formed the
    rest of the source is skipped.
    """

    def __init__(
        self, source: str, split: Split, *, transcoded: bool = False, max_event: int = MAX_DOCUMENT
    ) -> None:
        """A `transcoded` source is in UTF-8 regardless of its declaration."""
        self._source = source
        self._split = split
        self._transcoded = transcoded
        self._max = max_event
        self.is_over = False
        """True if the rest of the source is skipped."""
        self._line = 1
        self._document = self._next_document()

    def feed(self, data: bytes) -> list[RawDocument]:
        return [] if self.is_over else self._parse(data, final=False)

    def close(self) -> list[RawDocument]:
        events = [] if self.is_over else self._parse(b"", final=True)
        self.is_over = True
        return events

    def _next_document(self) -> _Document:
        return _Document(self._source, self._split, self._line, self._transcoded, self._max)

    def _parse(self, data: bytes, *, final: bool) -> list[RawDocument]:
        found: list[RawDocument] = []
        while True:
            document = self._document
            try:
                rest = document.feed(data, final=final)
                found += document.take_events()
                if rest is None:
                    return found
                self._line = document.current_line
                self._document, data = self._next_document(), rest
            except (_Refused, BadNamespace, expat.ExpatError, LookupError, ValueError) as error:
                found += document.take_events()
                location = SourceLocation(self._source, document.current_line)
                reason = f"{_describe(error)}: the rest of the source is skipped"
                found.append(RawDocument(location, b"", reason))
                self.is_over = True
                return found


def _describe(error: Exception) -> str:
    if isinstance(error, expat.ExpatError):
        return f"not well-formed: {expat.ErrorString(error.code)}"
    return str(error)


class _Document:
    """One parse of one document."""

    def __init__(
        self, source: str, split: Split, first_line: int, transcoded: bool, max_event: int
    ) -> None:
        self._source = source
        self._path = split.path
        self._first_line = first_line
        self._max = max_event
        self._transcoded = transcoded
        self._encoding = "utf-8"
        self._values = AncestorValues(split.copies)
        self._buffer = bytearray()
        self._base = 0
        """Offset of the buffer in the document."""
        self._fed = 0
        self._found: list[RawDocument] = []
        self._is_empty = True
        """True until an event was found."""
        self._depth = 0
        self._scopes: list[Scope] = [NO_BINDINGS]
        self._states = [START]
        self._names: set[str] = set()
        self._name_bytes = 0
        self._is_root_closed = False
        self._seen_in: dict[str, set[str]] = {
            step.local: set() for step in split.path.steps if step.local is not None
        }
        """Namespaces of the elements whose names the path has."""
        self._event: _Event | None = None
        self._is_event_closed = False
        # Without interning, which would keep each text of a name twice.
        self._parser = expat.ParserCreate("utf-8" if transcoded else None, intern=None)
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.XmlDeclHandler = self._read_declaration
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self._watch_ancestors()

    @property
    def current_line(self) -> int:
        return self._first_line + self._parser.CurrentLineNumber - 1

    def take_events(self) -> list[RawDocument]:
        found, self._found = self._found, []
        return found

    def feed(self, data: bytes, *, final: bool) -> bytes | None:
        """Return the input behind the document's end, or None before it.

        Raises an error if the document can not be read further.
        """
        self._buffer += data
        self._fed += len(data)
        names = len(self._names)
        try:
            self._parser.Parse(data, final)
        except expat.ExpatError as error:
            if not self._is_root_closed or error.code not in (_JUNK, _INVALID):
                raise
            end = self._parser.ErrorByteIndex
            self._end_document(end)
            return bytes(self._buffer[end - self._base :])
        except UnicodeError:
            raise _Refused("not well-formed: a byte is not in the document's encoding") from None
        if final:
            self._end_document(self._fed)
            return None
        if len(self._names) > names:
            self._name_bytes += len(data)
        if len(self._names) > MAX_NAMES or self._name_bytes > MAX_NAME_BYTES:
            raise _Refused(f"the document has more than {MAX_NAMES} distinct names")
        self._trim_buffer()
        return None

    def _trim_buffer(self) -> None:
        needed = self._parser.CurrentByteIndex
        if self._fed - needed > self._max:
            raise _Refused(f"a single tag, comment or section is larger than {self._max} bytes")
        if self._event is not None and not self._event.is_oversized:
            if self._fed - self._event.start > self._max:
                self._event.is_oversized = True
            else:
                needed = self._event.start
        if needed > self._base:
            del self._buffer[: needed - self._base]
            self._base = needed

    def _end_document(self, end: int) -> None:
        if self._is_event_closed:
            self._take_event(end)
        if self._is_empty:
            location = SourceLocation(self._source, self._first_line)
            self._found.append(RawDocument(location, b"", self._describe_no_match()))

    def _describe_no_match(self) -> str:
        reason = f"nothing matches --split {self._path.text}"
        for step in self._path.steps:
            found = sorted(self._seen_in.get(step.local or "", ()))
            if step.local is None or step.uri is None or step.uri in found:
                continue
            if not found:
                return f"{reason}: there is no element {step.local}"
            if found == [""]:
                return f"{reason}: {step.local} occurs without a namespace, so without a prefix"
            uri = found[-1]
            return (
                f"{reason}: {step.local} occurs in the namespace {uri}; "
                f"give --namespace p={uri} and write p:{step.local}"
            )
        return reason

    # ------------------------------------------------------------------ handlers

    def _refuse_doctype(self, *_: Any) -> None:
        raise _Refused("the document has a DOCTYPE, which a collection may not have")

    def _read_declaration(self, version: str, encoding: str | None, _standalone: int) -> None:
        if version != "1.0":
            raise _Refused(f"it is XML {version[:20]}, not 1.0")
        if encoding is not None and not self._transcoded and not is_utf8(encoding):
            self._encoding = encoding

    def _watch_ancestors(self) -> None:
        parser = self._parser
        parser.StartElementHandler = self._open_ancestor
        parser.EndElementHandler = self._close_ancestor
        self._watch_text()

    def _watch_text(self) -> None:
        reads = self._values.reads_text
        self._parser.CharacterDataHandler = self._values.add_text if reads else None

    def _open_ancestor(self, name: str, attributes: dict[str, str]) -> None:
        if self._is_event_closed:
            self._take_event(self._parser.CurrentByteIndex)
        self._go_down(name, attributes)
        scope = extend_scope(self._scopes[-1], attributes)
        tag = OpenedTag(name, attributes, scope)
        if (seen := self._seen_in.get(tag.local)) is not None and len(seen) < _MAX_HINTS:
            seen.add(tag.uri)
        self._values.open_element(tag, self._depth)
        state, is_match = self._path.advance(self._states[-1], tag)
        self._states.append(state)
        self._scopes.append(scope)
        if is_match:
            self._begin_event(name, attributes)
        else:
            self._watch_text()

    def _close_ancestor(self, _name: str) -> None:
        if self._is_event_closed:
            self._take_event(self._parser.CurrentByteIndex)
        self._go_up()
        self._watch_text()

    def _begin_event(self, name: str, attributes: dict[str, str]) -> None:
        parser = self._parser
        self._event = _Event(
            name,
            start=parser.CurrentByteIndex,
            line=self.current_line,
            depth=self._depth,
            inherited=self._scopes[-2],
            declared=declared_bindings(attributes),
            fields=self._values.fields(),
        )
        self._event.see_tag(name, attributes, self._depth)
        self._values.drop_text()
        parser.CharacterDataHandler = None
        parser.StartElementHandler = self._open_inner
        parser.EndElementHandler = self._close_inner

    def _open_inner(self, name: str, attributes: dict[str, str]) -> None:
        self._go_down(name, attributes)
        assert self._event is not None
        self._event.see_tag(name, attributes, self._depth)

    def _close_inner(self, _name: str) -> None:
        event = self._event
        assert event is not None
        event.leave_tag(self._depth)
        if self._depth > event.depth:
            self._depth -= 1
            return
        self._go_up()
        self._is_event_closed = True
        self._watch_ancestors()
        # An end tag's length is unknown: the next token gives the end.
        self._parser.DefaultHandler = self._parser.CharacterDataHandler = self._see_token

    def _see_token(self, _text: str) -> None:
        if self._is_event_closed:
            self._take_event(self._parser.CurrentByteIndex)

    def _go_down(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Refused(f"more than {MAX_DEPTH} elements are inside each other")
        self._names.add(name)
        self._names.update(attributes)

    def _go_up(self) -> None:
        self._values.close_element(self._depth)
        self._states.pop()
        self._scopes.pop()
        self._depth -= 1
        self._is_root_closed = not self._depth

    def _take_event(self, end: int) -> None:
        event, self._event = self._event, None
        assert event is not None
        self._parser.DefaultHandler = self._parser.CharacterDataHandler = None
        self._is_event_closed = self._is_empty = False
        location = SourceLocation(self._source, event.line)
        if event.is_oversized or end - event.start > self._max:
            problem = f"the event is larger than {self._max} bytes"
            self._found.append(RawDocument(location, b"", problem))
            return
        data = bytes(self._buffer[event.start - self._base : end - self._base])
        if self._encoding != "utf-8":
            data = data.decode(self._encoding).encode()
        self._found.append(event.finish(location, data))


@attrs.define
class _Event:
    """An event whose end is not there yet."""

    name: str
    start: int
    line: int
    depth: int
    inherited: Scope
    declared: Mapping[str, str]
    fields: dict[str, Any]
    is_oversized: bool = False
    uses_default: bool = False
    """True if a name may be in the default namespace of the ancestors."""
    _own_default_depth: int = 0
    """Depth of the element that declares its own default namespace; 0: none."""

    def see_tag(self, name: str, attributes: Mapping[str, str], depth: int) -> None:
        if self._own_default_depth:
            return
        if "xmlns" in attributes:
            self._own_default_depth = depth
        elif ":" not in name or any(each.endswith(":type") for each in attributes):
            # The value of xsi:type is a name too.
            self.uses_default = True

    def leave_tag(self, depth: int) -> None:
        if depth == self._own_default_depth:
            self._own_default_depth = 0

    def finish(self, location: SourceLocation, data: bytes) -> RawDocument:
        missing = {
            prefix: uri
            for prefix, uri in self.inherited.items()
            if uri and prefix not in self.declared
        }
        used = find_used_prefixes(filter(None, missing), data) | (
            {""} if self.uses_default else set()
        )
        declarations = write_declarations(
            {prefix: uri for prefix, uri in missing.items() if prefix in used}
        )
        if len(declarations) > MAX_DECLARATIONS:
            reason = f"the namespaces of its ancestors have more than {MAX_DECLARATIONS} bytes"
            return RawDocument(location, b"", reason)
        at = 1 + len(self.name.encode())
        return RawDocument(
            location, b"".join((data[:at], declarations, data[at:])), fields=self.fields
        )
