"""Publications from documents, by options or content."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import attrs
from lxml import etree

from broker.cli.publishing.document_splitter import DocumentSplitter
from broker.cli.publishing.event_time import TimeRule
from broker.cli.publishing.known_types import TIMES, detect_type
from broker.cli.publishing.pace import TimePath, parse_event_time
from broker.cli.publishing.payload import Payload, UnusableDocument, make_payload
from broker.cli.publishing.publication import Publication, RawDocument, Refusal, SourceLocation
from broker.cli.publishing.publication_key import KeyRule
from broker.errors import BrokerError
from broker.event.encoding import is_utf8
from broker.event.envelope import (
    ENVELOPE_TYPE,
    NAMESPACE,
    EventType,
    SecurityLevel,
    event_time_problem,
)
from broker.event.reader import read_event

#: Lines of `sub` that are not events.
_REPORT_KEYS = frozenset({"gap", "missing", "status", "type-changed"})
#: Of an object that is an event; others are ignored.
_EVENT_KEYS = frozenset(
    {"stream", "type", "version", "level", "payload", "summary", "application_types"}
)
_TIME_PATHS = {name: TimePath(path) for name, path in TIMES.items()}


@attrs.frozen
class PublishOptions:
    """Options for every event; None leaves the choice to the documents."""

    stream: str | None = None
    type: tuple[str, str] | None = None
    security_level: SecurityLevel | None = None
    time_from: TimePath | None = None
    time: TimeRule | None = None
    key: KeyRule | None = None
    json_payload: bool = False
    """Each JSON value of a source is a payload."""


@attrs.frozen
class Preparation:
    options: PublishOptions = PublishOptions()

    def prepare_xml(self, raw: RawDocument, *, transcoded: bool = False) -> Publication | Refusal:
        made = _or_refusal(raw.location, lambda: self._prepare_xml(raw, transcoded))
        assert made is not None
        return made

    def prepare_json(self, line: RawDocument) -> Publication | Refusal | None:
        """Return None if the line is not an event.

        Keys are those of `xmlbroker sub --json`: `stream`, `type`, `version`, `level`, `payload`;
        also `summary` and `application_types`. All are optional.
        """
        return _or_refusal(line.location, lambda: self._prepare_json(line))

    def _prepare_xml(self, raw: RawDocument, transcoded: bool) -> Publication:
        if raw.problem:
            raise UnusableDocument(raw.problem)
        payload = make_payload(raw.data, transcoded=transcoded)
        if payload.root.tag == f"{{{NAMESPACE}}}Event":
            return self._prepare_event(raw, payload.root, transcoded)
        return self._make_publication(raw.location, payload, dict(raw.fields))

    def _prepare_event(
        self, raw: RawDocument, root: etree._Element, transcoded: bool
    ) -> Publication:
        """Publish another publisher's event again, under our own EventId."""
        document = raw.data
        found = cast(Any, root.getroottree().docinfo)
        if transcoded or not is_utf8(found.encoding or "UTF-8"):
            # lxml would omit a DOCTYPE with a prefix.
            document = etree.tostring(root, encoding="UTF-8", doctype=found.doctype)
        event = read_event(document)
        fields = {
            "stream": event.stream,
            "type": event.event_type.name,
            "version": event.event_type.version,
            "level": event.event_type.security_level.value,
            "summary": event.summary,
            "application_types": list(event.application_types),
        }
        payload = None if event.payload is None else make_payload(event.payload)
        publication = self._make_publication(raw.location, payload, fields)
        return attrs.evolve(publication, linkage=event.linkage, is_unchanged=False)

    def _prepare_json(self, line: RawDocument) -> Publication | None:
        if line.problem:
            raise UnusableDocument(line.problem)
        try:
            fields = json.loads(line.data)
        except json.JSONDecodeError as error:
            raise UnusableDocument(f"not JSON: {error.msg} at character {error.pos + 1}") from None
        except (UnicodeDecodeError, RecursionError) as error:
            raise UnusableDocument(f"not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise UnusableDocument("not a JSON object; --json-payload publishes any JSON")
        if not _REPORT_KEYS.isdisjoint(fields):
            return None
        if _EVENT_KEYS.isdisjoint(fields):
            raise UnusableDocument(
                f"the object has no key of an event ({', '.join(sorted(_EVENT_KEYS))}); "
                "--json-payload publishes any JSON"
            )
        text = fields.get("payload")
        if text is None:
            payload = None
        elif isinstance(text, str):
            payload = _single_payload(text)
        else:
            raise UnusableDocument("payload is not a text")
        return attrs.evolve(
            self._make_publication(line.location, payload, fields), is_unchanged=False
        )

    def _make_publication(
        self, location: SourceLocation, payload: Payload | None, fields: dict[str, Any]
    ) -> Publication:
        name, version, stream = self._find_type(payload, fields)
        rule = self.options.key
        if rule is not None and payload is None:
            raise UnusableDocument(f"--id {rule.text} has no value: the event has no payload")
        event_time = self._find_event_time(payload, fields)
        level = self.options.security_level or SecurityLevel(fields.get("level") or "med")
        return Publication(
            location=location if payload is None else location.plus_lines(payload.skipped_lines),
            stream=self.options.stream or _text_value(fields, "stream") or stream,
            event_type=EventType(name, version, security_level=level),
            payload=None if payload is None else payload.element,
            application_types=_text_values(fields, "application_types"),
            summary=_text_value(fields, "summary"),
            time=self._find_time(payload, name, event_time),
            event_time=event_time,
            key=None if rule is None or payload is None else rule.find_key(payload.root),
            is_unchanged=payload is not None and payload.is_unchanged,
        )

    def _find_type(self, payload: Payload | None, fields: dict[str, Any]) -> tuple[str, str, str]:
        """Return name, version and default stream: from the options, the line, or the payload."""
        name, version = self.options.type or (
            _text_value(fields, "type"),
            _text_value(fields, "version"),
        )
        if name and version:
            detected = None if payload is None or self.options.stream else detect_type(payload.root)
            return name, version, detected.stream if detected else name.lower().replace(".", "-")
        if name or version:
            raise UnusableDocument("give both type and version: one of them is missing")
        if payload is None:
            return ENVELOPE_TYPE, "1.1", ENVELOPE_TYPE
        detected = detect_type(payload.root)
        if detected is None:
            known = ", ".join(sorted(TIMES))
            raise UnusableDocument(
                f"the type of <{str(payload.root.tag)[:80]}> is not one of {known}: "
                "name it with --type NAME VERSION (`xmlbroker dtd list` lists the node's types)"
            )
        return detected.name, detected.version, detected.stream

    def _find_event_time(self, payload: Payload | None, fields: dict[str, Any]) -> int | None:
        """Return the time for the header: by `--time`, else that of the line of JSON."""
        if self.options.time is not None:
            return None if payload is None else self.options.time.find_time(payload.root)
        time = fields.get("time")
        if isinstance(time, str):
            time = parse_event_time(time)
            if time is None:
                raise UnusableDocument("time is not a time: ISO 8601, or ms since 1970")
        if time is not None and (problem := event_time_problem(time)):
            raise UnusableDocument(problem)
        return time

    def _find_time(
        self, payload: Payload | None, type_name: str, event_time: int | None
    ) -> float | None:
        """Return the time for `--pace`."""
        path = self.options.time_from
        if path is None and event_time is not None:
            return event_time / 1000
        path = path or _TIME_PATHS.get(type_name)
        return None if path is None or payload is None else path.find_time(payload.root)


def _single_payload(text: str) -> Payload:
    splitter = DocumentSplitter("payload")
    data = text.encode("utf-8", "surrogatepass")
    pieces = [*splitter.feed(data), *splitter.close()]
    if len(pieces) != 1:
        raise UnusableDocument(f"payload is {len(pieces)} XML documents, not one")
    if pieces[0].problem:
        raise UnusableDocument(f"payload: {pieces[0].problem}")
    return make_payload(pieces[0].data, transcoded=True)


def _or_refusal(
    location: SourceLocation, make: Callable[[], Publication | None]
) -> Publication | Refusal | None:
    try:
        return make()
    except UnusableDocument as error:
        return Refusal(location.plus_lines(error.line - 1), str(error))
    except BrokerError as error:
        return Refusal(location.plus_lines(max(error.line - 1, 0)), error.text)
    except ValueError as error:
        return Refusal(location, str(error))


def _text_value(fields: dict[str, Any], key: str) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise UnusableDocument(f"{key} is not a text")
    return value or None


def _text_values(fields: dict[str, Any], key: str) -> tuple[str, ...]:
    value = fields.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UnusableDocument(f"{key} is not a list of texts")
    return tuple(value)
