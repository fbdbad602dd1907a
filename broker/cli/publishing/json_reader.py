"""Events from sources of JSON, mapped to XML: one for each value, or feature of a collection.

If the first line is the beginning of a value only, the source is one text, which may hold several
values, and is read at once. Else each line is a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from broker.cli.publishing.publication import RawDocument, SourceLocation
from broker.event.json_payload import (
    MAX_JSON,
    TYPE,
    JsonObject,
    JsonValue,
    NotMapped,
    json_to_xml,
    parse_json,
)

_FIELDS = dict(zip(("type", "version"), TYPE, strict=True))


def read_json_values(lines: Iterator[RawDocument], source: str) -> Iterator[RawDocument]:
    """Yield the payloads of a source with these lines, which have no blanks around them."""
    first = next(lines, None)
    if first is None:
        return
    if first.problem or _is_whole(first.data):
        for line in chain((first,), lines):
            yield from [line] if line.problem else _map_text(line.data, line.location)
        return
    text = bytearray()
    at = 1
    for line in chain((first,), lines):
        text += b"\n" * (line.location.line - at) + line.data
        at = line.location.line
        if line.problem or len(text) > MAX_JSON:
            problem = line.problem or f"the source is larger than {MAX_JSON} bytes"
            yield RawDocument(line.location, b"", f"{problem}; give large ones as JSON lines")
            return
    yield from _map_text(bytes(text), SourceLocation(source, 1))


def _is_whole(data: bytes) -> bool:
    """Return True unless a line is the beginning of a longer JSON text."""
    try:
        list(parse_json(data.decode()))
    except UnicodeDecodeError:
        return True
    except NotMapped as error:
        return not error.is_cut
    return True


def _map_text(data: bytes, location: SourceLocation) -> Iterator[RawDocument]:
    """Yield the payloads of a text with values; none of it if one is malformed."""
    try:
        values = list(parse_json(data.decode()))
    except NotMapped as error:
        yield RawDocument(location.plus_lines(error.line - 1), b"", str(error))
        return
    except UnicodeDecodeError as error:
        yield RawDocument(location, b"", f"not JSON in UTF-8: {error.reason}")
        return
    for value, line in values:
        yield from _map_value(value, location.plus_lines(line - 1))


def _map_value(value: JsonValue, location: SourceLocation) -> Iterator[RawDocument]:
    features = _features_of(value)
    for number, each in enumerate([value] if features is None else features, 1):
        try:
            if features is not None and not isinstance(each, JsonObject):
                raise NotMapped("it is no object")
            yield RawDocument(location, json_to_xml(each), fields=_FIELDS)
        except NotMapped as error:
            which = "" if features is None else f"feature {number}: "
            yield RawDocument(location, b"", f"{which}{error}")


def _features_of(value: JsonValue) -> list[JsonValue] | None:
    """Return the features of a GeoJSON collection, whose other members are left out."""
    if not isinstance(value, JsonObject) or value.find("type") != "FeatureCollection":
        return None
    features = value.find("features")
    return features if isinstance(features, list) else None
