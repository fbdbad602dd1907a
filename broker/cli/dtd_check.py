"""Check of a DTD file and of events against it, as a node would, with file and line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import attrs
from lxml import etree

from broker.cli.failure import Failure
from broker.cli.publishing.collection_splitter import Split
from broker.cli.publishing.document_reader import is_transcoded, read_xml
from broker.cli.publishing.payload import UnusableDocument, make_payload
from broker.cli.publishing.publication import RawDocument, Refusal
from broker.cli.publishing.source import READ_ERRORS, describe_error, open_sources
from broker.dtd.assembly import AssemblyLimits
from broker.dtd.catalogue import CATALOGUE_NAME, Catalogue, shipped_folder
from broker.dtd.dtd import ENVELOPE_TAG, Dtd
from broker.dtd.reference import DtdReference
from broker.dtd.xsd.bundle import read_schema_files, write_instruction
from broker.errors import BadDtd, BadName, BrokerError
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.reader import read_event
from broker.event.writer import write_event
from broker.ingest.quarantine import is_details_file

_FILE_NAME = re.compile(r"(.+)-([0-9.]+)")
#: In the first comment, as the shipped DTDs have it.
_PUBLIC_ID = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*\?>)?\s*<!--(?:(?!-->).)*?\bPUBLIC\s+\"([^\"]*)\"",
    re.DOTALL,
)
_MAX_HEAD = 4096
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
#: EventId of the envelope for bare payloads.
_EVENT_ID = EventId("check", 0, 1, 1)
_ENVELOPE_LINES = 2


@attrs.define
class CheckCounts:
    events: int = 0
    valid: int = 0


def load_dtd_file(
    file: Path, type_name: str | None, version: str | None, schemas: Sequence[Path] = ()
) -> Dtd:
    """Load a DTD, and the XML Schema of its payloads.

    The file's name or first comment gives what is None. Raises `Failure` with file and line.
    """
    try:
        text = file.read_bytes()
    except OSError as error:
        raise Failure(f"{file} can not be read: {error.strerror}") from None
    catalogues = [Catalogue.load(shipped_folder())]
    if (file.parent / CATALOGUE_NAME).is_file():
        catalogues.append(Catalogue.load(file.parent))

    def resolve(public_id: str | None, system_id: str) -> bytes | None:
        found = (catalogue.read(public_id, system_id) for catalogue in catalogues)
        return next((module for module in found if module is not None), None)

    if schemas:
        try:
            text += b"\n" + write_instruction(read_schema_files(schemas).pack())
        except BadDtd as error:
            raise Failure(error.text) from None
    try:
        dtd = Dtd.load(_make_reference(file, text, type_name, version), text, resolve)
    except BadDtd as error:
        raise Failure(f"{file}:{max(error.line, 1)}: {error.text}") from None
    limit = AssemblyLimits().max_text
    if len(dtd.text) > limit:
        raise Failure(
            f"{file}: with all entities expanded, as it is sent to a node, it is longer than "
            f"{limit:,} bytes"
        )
    return dtd


def _make_reference(
    file: Path, text: bytes, type_name: str | None, version: str | None
) -> DtdReference:
    """Take the type from the options, the file's name, or the identifier in the first comment."""
    if type_name is not None and version is not None:
        return DtdReference(type_name, version)
    named = _FILE_NAME.fullmatch(file.stem)
    if named is not None:
        with suppress(BadName):
            return DtdReference(type_name or named[1], version or named[2])
    written = _PUBLIC_ID.match(text[:_MAX_HEAD])
    if written is not None:
        with suppress(BadName):
            found = DtdReference.from_public_id(written[1].decode("utf-8", "replace"))
            return DtdReference(type_name or found.type, version or found.version)
    raise Failure(
        f"{file.name} does not name a type, as flight-1.1.dtd does: give --type NAME and "
        "--version VERSION"
    )


def check_events(
    dtd: Dtd, sources: tuple[str, ...], counts: CheckCounts, split: Split | None = None
) -> Iterator[str]:
    """Yield `FILE:LINE: REASON` for each invalid event."""
    for source in open_sources(sources, lambda: sys.stdin.buffer):
        if isinstance(source, Refusal):
            counts.events += 1
            yield str(source)
            continue
        if is_details_file(Path(source.name)):
            continue
        transcoded = is_transcoded(source, split)
        try:
            for raw in read_xml(source, split):
                counts.events += 1
                problem = _find_problem(dtd, raw, transcoded=transcoded)
                counts.valid += problem is None
                if problem is not None:
                    yield problem
        except READ_ERRORS as error:
            counts.events += 1
            yield f"{source.name}: {describe_error(error)}"


def _find_problem(dtd: Dtd, raw: RawDocument, *, transcoded: bool) -> str | None:
    if raw.problem:
        return f"{raw.location}: {raw.problem}"
    try:
        payload = make_payload(raw.data, transcoded=transcoded)
        location, first = raw.location.plus_lines(payload.skipped_lines), 1
        if payload.root.tag == ENVELOPE_TAG:
            _check_type(dtd, raw.data)
            location = raw.location
            root = etree.fromstring(raw.data, _PARSER)
        else:
            kind = EventType(dtd.reference.type, dtd.reference.version)
            root = etree.fromstring(write_event(_EVENT_ID, "check", kind, payload.element), _PARSER)
            first += _ENVELOPE_LINES
    except UnusableDocument as unusable:
        return f"{raw.location.plus_lines(unusable.line - 1)}: {unusable}"
    except BrokerError as error:
        return f"{raw.location.plus_lines(max(error.line - 1, 0))}: {error.text}"
    dtd.normalise_attributes(root)
    invalid = dtd.check(root)
    if invalid is None:
        return None
    return f"{location.plus_lines(max(invalid.line - first, 0))}: {invalid.text}"


def _check_type(dtd: Dtd, document: bytes) -> None:
    event_type = read_event(document).event_type
    if (event_type.name, event_type.version) != (dtd.reference.type, dtd.reference.version):
        raise BadName(
            f"the event is of type {event_type.name} {event_type.version}, not {dtd.reference}"
        )
