"""The envelope's fields in a shape, and readers of headers from slot values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TypeAlias, TypeVar

import attrs

from broker.dtd.reference import DtdReference
from broker.event.envelope import NAMESPACE, Header, Liveness, SecurityLevel, Validation
from broker.event.event_id import EventId
from broker.matching.envelope import check_bundles, parse_header
from broker.matching.shape.tree import Node, NodeKind, Value

#: Reads the header from slot values in order. Raises `BadEnvelope`.
ReadHeader: TypeAlias = Callable[[Sequence[bytes]], Header]

_Field = TypeVar("_Field", str, int)

#: Maximum number of verified values per field; beyond it all are dropped.
MAX_CACHED_FIELDS = 4096
#: A number with so many digits is below 2**63.
_SAFE_DIGITS = 18


@attrs.frozen
class HeaderFields:
    """A slot or a constant for each field of the envelope, with default attributes."""

    stream: Value
    client_id: Value
    timestamp: Value
    sequence_number: Value
    incarnation: Value
    version_num: Value
    security_level: Value
    liveness: Value
    bundle_ids: tuple[Value, ...] = ()
    bundle_numbers: tuple[Value, ...] = ()
    names_latest: bool = False
    """True if there is a LatestVersionNum (M29)."""


def locate_header_fields(event: Node) -> HeaderFields:
    stream, event_id, kind, linkage, *_ = element_children(event)
    client_id, timestamp, sequence_number, incarnation = element_children(event_id)
    attributes = {node.local: node.value for node in kind.attributes if node.namespace is None}
    bundles = [node for node in element_children(linkage) if node.namespace == NAMESPACE]
    return HeaderFields(
        _leaf_value(stream),
        _leaf_value(client_id),
        _leaf_value(timestamp),
        _leaf_value(sequence_number),
        _leaf_value(incarnation),
        _leaf_value(element_children(kind)[0]),
        attributes.get("Securitylevel", b"med"),
        attributes.get("Liveness", b"live"),
        tuple(_leaf_value(node) for node in bundles if node.local == "BundleId"),
        tuple(_leaf_value(node) for node in bundles if node.local == "BundleNumber"),
        any(node.local == "LatestVersionNum" for node in element_children(kind)),
    )


def element_children(parent: Node) -> list[Node]:
    return [child for child in parent.children if child.kind is NodeKind.ELEMENT]


class HeaderReaderFactory:
    """Makes readers of headers, with the rules of `parse_header` and `check_bundles`."""

    def __init__(self) -> None:
        self._streams: dict[bytes, str] = {}
        self._clients: dict[bytes, str] = {}
        self._incarnations: dict[bytes, int] = {}

    def make_reader(
        self, fields: HeaderFields, reference: DtdReference, validation: Validation
    ) -> ReadHeader | None:
        """Return the reader of one shape; None if a field that differs in every event is a
        constant."""
        required_fields = (
            fields.stream,
            fields.client_id,
            fields.timestamp,
            fields.sequence_number,
            fields.incarnation,
        )
        slots = tuple(field for field in required_fields if isinstance(field, int))
        version, level, liveness = fields.version_num, fields.security_level, fields.liveness
        if (
            len(slots) != len(required_fields)
            or isinstance(version, int)
            or isinstance(level, int)
            or isinstance(liveness, int)
        ):
            return None
        read = self._make_plain_reader(*(slots, version, level, liveness, reference, validation))
        return _add_bundle_check(read, fields) if fields.bundle_ids else read

    def _make_plain_reader(
        self,
        slots: tuple[int, ...],
        version: bytes,
        level: bytes,
        liveness: bytes,
        reference: DtdReference,
        validation: Validation,
    ) -> ReadHeader:
        pick = itemgetter(*slots)
        streams, clients, incarnations = self._streams, self._clients, self._incarnations
        type_name, version_num = reference.type, version.decode()
        security_level, alive = SecurityLevel(level.decode()), Liveness(liveness.decode())
        # Equals the named tuple's constructor, with one call less.
        new = tuple.__new__

        def read(values: Sequence[bytes]) -> Header:
            stream, client, timestamp, number, incarnation = pick(values)
            try:
                timestamp_number, sequence_number = int(timestamp), int(number)
                if (
                    sequence_number
                    and len(timestamp) <= _SAFE_DIGITS
                    and len(number) <= _SAFE_DIGITS
                    # `int` accepts signs, spaces and underscores too.
                    and timestamp.isdigit()
                    and number.isdigit()
                ):
                    identity = (
                        clients[client],
                        timestamp_number,
                        sequence_number,
                        incarnations[incarnation],
                    )
                    return new(
                        Header,
                        (
                            new(EventId, identity),
                            streams[stream],
                            type_name,
                            version_num,
                            security_level,
                            alive,
                            validation,
                            None,
                        ),
                    )
            except (KeyError, ValueError):
                pass
            header = parse_header(
                stream.decode(),
                client.decode(),
                timestamp.decode(),
                number.decode(),
                incarnation.decode(),
                version_num,
                security_level.value,
                alive.value,
                reference,
            )._replace(validation=validation)
            _cache_field(streams, stream, header.stream)
            _cache_field(clients, client, header.event_id.client_id)
            _cache_field(incarnations, incarnation, header.event_id.incarnation)
            return header

        return read


def _add_bundle_check(read: ReadHeader, fields: HeaderFields) -> ReadHeader:
    def read_both(values: Sequence[bytes]) -> Header:
        header = read(values)
        check_bundles(
            [_text(field, values) for field in fields.bundle_ids],
            [_text(field, values) for field in fields.bundle_numbers],
        )
        return header

    return read_both


def _text(field: Value, values: Sequence[bytes]) -> str:
    return (values[field] if isinstance(field, int) else field).decode()


def _cache_field(known: dict[bytes, _Field], written: bytes, field: _Field) -> None:
    if len(known) >= MAX_CACHED_FIELDS:
        known.clear()
    known[written] = field


def _leaf_value(node: Node) -> Value:
    return node.children[0].value if node.children else b""
