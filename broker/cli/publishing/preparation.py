"""Documents made publications: type, stream, security level and time, from options or contents."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import attrs
from lxml import etree

from broker.cli.publishing.known_types import PREFIXES, TIMES, detect
from broker.cli.publishing.pace import TimePath
from broker.cli.publishing.payload import Payload, Unusable, make_payload
from broker.cli.publishing.publication import Origin, Piece, Publication, Refusal
from broker.cli.publishing.splitting import DocumentSplitter
from broker.errors import BrokerError
from broker.event.encoding import is_utf8
from broker.event.envelope import ENVELOPE_TYPE, NAMESPACE, EventType, SecurityLevel
from broker.event.reading import read_event

#: Keys of the lines of `sub` that tell of something else than an event.
_NO_EVENTS = frozenset({"gap", "missing", "type-changed"})
_TIMES = {name: TimePath(path) for name, path in TIMES.items()}


@attrs.frozen
class Wishes:
    """What the command line says of every event; None where it leaves that to the documents."""

    stream: str | None = None
    type: tuple[str, str] | None = None
    security_level: SecurityLevel | None = None
    time_from: TimePath | None = None


@attrs.frozen
class Preparation:
    """Turns what was found into what is published, or says why not."""

    wishes: Wishes = Wishes()

    def of_xml(self, piece: Piece, *, transcoded: bool = False) -> Publication | Refusal:
        """The publication that an XML document is: a payload, or an event with its envelope."""
        made = _refusing(piece.origin, lambda: self._of_xml(piece, transcoded))
        assert made is not None
        return made

    def of_json(self, line: Piece) -> Publication | Refusal | None:
        """The publication that a line of JSON describes; None if it reports something else.

        Its keys are those that `xmlbroker sub --json` prints: `stream`, `type`, `version`, `level`,
        `payload`; also `summary` and `application_types`. All may be left out, others are ignored.
        """
        return _refusing(line.origin, lambda: self._of_json(line))

    def _of_xml(self, piece: Piece, transcoded: bool) -> Publication:
        if piece.problem:
            raise Unusable(piece.problem)
        payload = make_payload(piece.data, transcoded=transcoded)
        if payload.root.tag == f"{{{NAMESPACE}}}Event":
            return self._of_event(piece, payload.root, transcoded)
        return self._publication(piece.origin, payload, {})

    def _of_event(self, piece: Piece, root: etree._Element, transcoded: bool) -> Publication:
        """What another publisher's event says goes out again, under an EventId of our own."""
        document = piece.data
        found = cast(Any, root.getroottree().docinfo)
        if transcoded or not is_utf8(found.encoding or "UTF-8"):
            # lxml would leave a DOCTYPE out that names a root element with a prefix.
            document = etree.tostring(root, encoding="UTF-8", doctype=found.doctype)
        event = read_event(document)
        said = {
            "stream": event.stream,
            "type": event.event_type.name,
            "version": event.event_type.version,
            "level": event.event_type.security_level.value,
            "summary": event.summary,
            "application_types": list(event.application_types),
        }
        payload = None if event.payload is None else make_payload(event.payload)
        publication = self._publication(piece.origin, payload, said)
        return attrs.evolve(publication, linkage=event.linkage, as_found=False)

    def _of_json(self, line: Piece) -> Publication | None:
        if line.problem:
            raise Unusable(line.problem)
        try:
            said = json.loads(line.data)
        except json.JSONDecodeError as error:
            raise Unusable(f"not JSON: {error.msg} at character {error.pos + 1}") from None
        except (UnicodeDecodeError, RecursionError) as error:
            raise Unusable(f"not JSON: {error}") from None
        if not isinstance(said, dict):
            raise Unusable("not a JSON object")
        if not _NO_EVENTS.isdisjoint(said):
            return None
        text = said.get("payload")
        if text is None:
            payload = None
        elif isinstance(text, str):
            payload = _single_payload(text)
        else:
            raise Unusable("payload is not a text")
        return attrs.evolve(self._publication(line.origin, payload, said), as_found=False)

    def _publication(
        self, origin: Origin, payload: Payload | None, said: dict[str, Any]
    ) -> Publication:
        name, version, stream = self._type(payload, said)
        level = self.wishes.security_level or SecurityLevel(said.get("level") or "med")
        return Publication(
            origin=origin if payload is None else origin.further(payload.skipped),
            stream=self.wishes.stream or _text(said, "stream") or stream,
            event_type=EventType(name, version, security_level=level),
            payload=None if payload is None else payload.element,
            application_types=_texts(said, "application_types"),
            summary=_text(said, "summary"),
            time=None if payload is None else self._time(payload, name),
            as_found=payload is not None and payload.as_found,
        )

    def _type(self, payload: Payload | None, said: dict[str, Any]) -> tuple[str, str, str]:
        """Name, version and default stream: as the user says, else the line, else the payload."""
        name, version = self.wishes.type or (_text(said, "type"), _text(said, "version"))
        if name and version:
            detected = None if payload is None or self.wishes.stream else detect(payload.root)
            return name, version, detected.stream if detected else name.lower().replace(".", "-")
        if name or version:
            raise Unusable("type and version go together: one of them is missing")
        if payload is None:
            return ENVELOPE_TYPE, "1.1", ENVELOPE_TYPE
        detected = detect(payload.root)
        if detected is None:
            known = ", ".join(sorted({*PREFIXES, *TIMES}))
            raise Unusable(
                f"the type of <{str(payload.root.tag)[:80]}> is not one of {known}: "
                "name it with --type NAME VERSION"
            )
        return detected.name, detected.version, detected.stream

    def _time(self, payload: Payload, type_name: str) -> float | None:
        path = self.wishes.time_from or _TIMES.get(type_name)
        return None if path is None else path.seconds(payload.root)


def _single_payload(text: str) -> Payload:
    splitter = DocumentSplitter("payload")
    data = text.encode("utf-8", "surrogatepass")
    pieces = [*splitter.feed(data), *splitter.close()]
    if len(pieces) != 1:
        raise Unusable(f"payload is {len(pieces)} XML documents, not one")
    if pieces[0].problem:
        raise Unusable(f"payload: {pieces[0].problem}")
    return make_payload(pieces[0].data, transcoded=True)


def _refusing(
    origin: Origin, make: Callable[[], Publication | None]
) -> Publication | Refusal | None:
    try:
        return make()
    except Unusable as error:
        return Refusal(origin.further(error.line - 1), str(error))
    except BrokerError as error:
        return Refusal(origin.further(max(error.line - 1, 0)), error.text)
    except ValueError as error:
        return Refusal(origin, str(error))


def _text(said: dict[str, Any], key: str) -> str | None:
    value = said.get(key)
    if value is not None and not isinstance(value, str):
        raise Unusable(f"{key} is not a text")
    return value or None


def _texts(said: dict[str, Any], key: str) -> tuple[str, ...]:
    value = said.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Unusable(f"{key} is not a list of texts")
    return tuple(value)
