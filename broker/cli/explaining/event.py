"""The one event that is to be explained: whole, or a payload that is put into an envelope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Final

from broker.cli.publishing.payload import Unusable, make_payload
from broker.cli.publishing.preparation import Preparation, Wishes
from broker.cli.publishing.publication import Origin, Publication, Refusal
from broker.cli.publishing.reading import split
from broker.cli.publishing.source import DAMAGED, open_sources, reason_of
from broker.dtd.dtd import ENVELOPE_TAG
from broker.event.identity import EventId
from broker.event.writing import write_event

#: Who a payload alone is said to be from.
_EVENT_ID: Final = EventId("explain", 0, 1, 1)


class NoEvent(Exception):
    """The file does not hold one event; the text says what it holds, with file and line."""


def event_from(argument: str, stdin: Callable[[], IO[bytes]], wishes: Wishes) -> bytes:
    """The document of the event in a file; `-` is stdin.

    A whole event stays as it is. A payload alone becomes one with an EventId of no meaning, of the
    type and in the stream that `xmlbroker pub` would give it. Raises `NoEvent`.
    """
    documents = _documents(argument, stdin, wishes)
    try:
        event = next(documents, None)
        if event is None:
            raise NoEvent(f"{argument} holds no event")
        if next(documents, None) is not None:
            raise NoEvent(f"{argument} holds more than one event: give one alone")
    except DAMAGED as error:
        raise NoEvent(f"{argument}: {reason_of(error)}") from None
    return event


def _documents(argument: str, stdin: Callable[[], IO[bytes]], wishes: Wishes) -> Iterator[bytes]:
    preparation = Preparation(wishes)
    for source in open_sources((argument,), stdin):
        if isinstance(source, Refusal):
            raise NoEvent(str(source))
        if source.form != "xml":
            raise NoEvent(f"{source.name} is not XML")
        for piece in split(source.portions(), source.name):
            if piece.problem or not _is_whole(piece.origin, piece.data):
                yield _wrapped(preparation.of_xml(piece))
            else:
                yield piece.data


def _is_whole(origin: Origin, document: bytes) -> bool:
    try:
        return bool(make_payload(document).root.tag == ENVELOPE_TAG)
    except Unusable as unusable:
        raise NoEvent(f"{origin.further(unusable.line - 1)}: {unusable}") from None


def _wrapped(publication: Publication | Refusal) -> bytes:
    if isinstance(publication, Refusal):
        raise NoEvent(str(publication))
    return write_event(_EVENT_ID, publication.stream, publication.event_type, publication.payload)
