"""Publications from sources, with at most one in memory."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import IO, Final

from broker.cli.publishing.collection_splitter import CollectionSplitter, Split
from broker.cli.publishing.document_splitter import MAX_DOCUMENT, DocumentSplitter
from broker.cli.publishing.json_reader import read_json_values
from broker.cli.publishing.preparation import Preparation
from broker.cli.publishing.publication import Publication, RawDocument, Refusal, SourceLocation
from broker.cli.publishing.source import (
    READ_ERRORS,
    OpenedSource,
    describe_error,
    open_sources,
)

Item = Publication | Refusal


def read_all(
    arguments: tuple[str, ...],
    stdin: Callable[[], IO[bytes]],
    preparation: Preparation,
    split: Split | None = None,
) -> Generator[Item, None, None]:
    return read_opened(open_sources(arguments, stdin), preparation, split)


def read_opened(
    sources: Iterable[OpenedSource | Refusal],
    preparation: Preparation,
    split: Split | None,
) -> Generator[Item, None, None]:
    """With `split`, each document is a collection of events."""
    for source in sources:
        if isinstance(source, Refusal):
            yield source
            continue
        last = SourceLocation(source.name, 1)
        try:
            for item in _read_items(source, preparation, split):
                last = item.location
                yield item
        except READ_ERRORS as error:
            yield Refusal(last, f"reading stopped after this: {describe_error(error)}")


def _read_items(
    source: OpenedSource, preparation: Preparation, split: Split | None
) -> Iterator[Item]:
    if preparation.options.json_payload:
        for raw in read_json_values(json_lines(source.read_portions(), source.name), source.name):
            yield preparation.prepare_xml(raw)
        return
    if source.form == "json":
        if split is not None:
            yield Refusal(SourceLocation(source.name, 1), "--split cuts XML, and this is JSON")
            return
        for line in json_lines(source.read_portions(), source.name):
            item = preparation.prepare_json(line)
            if item is not None:
                yield item
        return
    for raw in read_xml(source, split):
        yield preparation.prepare_xml(raw, transcoded=is_transcoded(source, split))


def read_xml(source: OpenedSource, split: Split | None = None) -> Iterator[RawDocument]:
    """Yield the documents, or the events of collections."""
    portions = _read_portions(source)
    if split is None:
        yield from split_documents(portions, source.name)
    else:
        transcoded = source.form == "utf-16"
        yield from split_collections(portions, source.name, split, transcoded=transcoded)


def is_transcoded(source: OpenedSource, split: Split | None) -> bool:
    """Return True if the documents that are read are in UTF-8, whatever they declare."""
    return source.form == "utf-16" and split is None


def _read_portions(source: OpenedSource) -> Iterator[bytes]:
    return _decode_utf_16(source) if source.form == "utf-16" else source.read_portions()


def split_documents(portions: Iterable[bytes], name: str) -> Iterator[RawDocument]:
    splitter = DocumentSplitter(name)
    for portion in portions:
        yield from splitter.feed(portion)
    yield from splitter.close()


def split_collections(
    portions: Iterable[bytes], name: str, split: Split, *, transcoded: bool = False
) -> Iterator[RawDocument]:
    splitter = CollectionSplitter(name, split, transcoded=transcoded)
    for portion in portions:
        yield from splitter.feed(portion)
        if splitter.is_over:
            return
    yield from splitter.close()


def json_lines(
    portions: Iterable[bytes], name: str, max_line: int = MAX_DOCUMENT
) -> Iterator[RawDocument]:
    """Yield non-blank lines; one over `max_line` bytes is a problem."""
    number = 1
    rest: list[bytes] = []
    length = 0
    for portion in portions:
        *ended, last = portion.split(b"\n")
        for end in ended:
            yield from _check_line(name, number, [*rest, end], length + len(end), max_line)
            rest, length, number = [], 0, number + 1
        length += len(last)
        # A line that is too long is counted, not stored.
        rest = [*rest, last] if length <= max_line else []
    yield from _check_line(name, number, rest, length, max_line)


def _check_line(
    name: str, number: int, parts: list[bytes], length: int, max_line: int
) -> Iterator[RawDocument]:
    location = SourceLocation(name, number)
    if length > max_line:
        yield RawDocument(location, b"", f"the line is longer than {max_line} bytes")
    elif line := b"".join(parts).removeprefix(codecs.BOM_UTF8).strip():
        yield RawDocument(location, line)


#: Byte orders of UTF-16 without a byte order mark.
_BYTE_ORDERS: Final = {b"\x00<": "utf-16-be", b"<\x00": "utf-16-le"}


def _decode_utf_16(source: OpenedSource) -> Iterator[bytes]:
    decoder: codecs.IncrementalDecoder | None = None
    for portion in source.read_portions():
        if decoder is None:
            decoder = codecs.getincrementaldecoder(_BYTE_ORDERS.get(portion[:2], "utf-16"))(
                "replace"
            )
        yield decoder.decode(portion).encode()
    if decoder is not None:
        yield decoder.decode(b"", final=True).encode()
