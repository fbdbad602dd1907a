"""The one event to explain: a whole event, or a payload that gets an envelope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Final

from broker.cli.publishing.document_reader import split_documents
from broker.cli.publishing.payload import UnusableDocument, make_payload
from broker.cli.publishing.preparation import Preparation, PublishOptions
from broker.cli.publishing.publication import Publication, Refusal, SourceLocation
from broker.cli.publishing.source import READ_ERRORS, describe_error, open_sources
from broker.dtd.dtd import ENVELOPE_TAG
from broker.event.event_id import EventId
from broker.event.writer import write_event

#: EventId of the envelope for a bare payload.
_EVENT_ID: Final = EventId("explain", 0, 1, 1)


class SingleEventError(Exception):
    """The file does not hold one event; the text names file, line and content."""


def read_single_event(
    argument: str, stdin: Callable[[], IO[bytes]], options: PublishOptions
) -> bytes:
    """Return the event in a file; `-` is stdin.

    A bare payload gets an envelope, as from `xmlbroker pub`. Raises `SingleEventError`.
    """
    documents = _read_documents(argument, stdin, options)
    try:
        event = next(documents, None)
        if event is None:
            raise SingleEventError(f"{argument} holds no event")
        if next(documents, None) is not None:
            raise SingleEventError(f"{argument} holds more than one event: give a file with one")
    except READ_ERRORS as error:
        raise SingleEventError(f"{argument}: {describe_error(error)}") from None
    return event


def _read_documents(
    argument: str, stdin: Callable[[], IO[bytes]], options: PublishOptions
) -> Iterator[bytes]:
    preparation = Preparation(options)
    for source in open_sources((argument,), stdin):
        if isinstance(source, Refusal):
            raise SingleEventError(str(source))
        if source.form != "xml":
            raise SingleEventError(f"{source.name} is not XML")
        for raw in split_documents(source.read_portions(), source.name):
            if raw.problem or not _has_envelope(raw.location, raw.data):
                yield _wrap_payload(preparation.prepare_xml(raw))
            else:
                yield raw.data


def _has_envelope(location: SourceLocation, document: bytes) -> bool:
    try:
        return bool(make_payload(document).root.tag == ENVELOPE_TAG)
    except UnusableDocument as unusable:
        raise SingleEventError(f"{location.plus_lines(unusable.line - 1)}: {unusable}") from None


def _wrap_payload(publication: Publication | Refusal) -> bytes:
    if isinstance(publication, Refusal):
        raise SingleEventError(str(publication))
    return write_event(_EVENT_ID, publication.stream, publication.event_type, publication.payload)
