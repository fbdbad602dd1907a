"""Where the envelope's fields lie in a shape, and how a header is read from its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TypeAlias, TypeVar

import attrs

from broker.dtd.reference import DtdReference
from broker.event.envelope import NAMESPACE, Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.matching.envelope import check_bundles, parse_header
from broker.matching.shape.tree import Node, NodeKind, Value

#: Takes a document's values in the order of slots; raises `BadEnvelope`.
ReadHeader: TypeAlias = Callable[[Sequence[bytes]], Header]

_Field = TypeVar("_Field", str, int)

#: Fields that are remembered as checked; at the bound all are dropped.
MAX_CACHED_FIELDS = 4096
#: So many digits are below 2**63 whatever they are.
_SAFE_DIGITS = 18


@attrs.frozen
class HeaderFields:
    """For each field of the envelope a slot or a constant; attributes after defaults."""

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
    """Whether there is a LatestVersionNum (M29)."""


def locate_header_fields(event: Node) -> HeaderFields:
    """The fields below the node of a valid envelope's root element."""
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
    """The element children of a node."""
    return [child for child in parent.children if child.kind is NodeKind.ELEMENT]


class HeaderReaderFactory:
    """Reads headers by the rules of `checked_header` and `check_bundles`.

    Names and incarnations that passed are remembered as they are written, `MAX_NAMES` of each.
    """

    def __init__(self) -> None:
        self._streams: dict[bytes, str] = {}
        self._clients: dict[bytes, str] = {}
        self._incarnations: dict[bytes, int] = {}

    def make_reader(self, fields: HeaderFields, reference: DtdReference) -> ReadHeader | None:
        """Reads the headers of one shape; None if a field that differs in every event is constant.

        Version, security level and liveness are not read again if they are constants: the document
        that was learnt had them.
        """
        places = (
            fields.stream,
            fields.client_id,
            fields.timestamp,
            fields.sequence_number,
            fields.incarnation,
        )
        slots = tuple(place for place in places if isinstance(place, int))
        version, level, liveness = fields.version_num, fields.security_level, fields.liveness
        if (
            len(slots) != len(places)
            or isinstance(version, int)
            or isinstance(level, int)
            or isinstance(liveness, int)
        ):
            return None
        read = self._make_plain_reader(slots, version, level, liveness, reference)
        return _add_bundle_check(read, fields) if fields.bundle_ids else read

    def _make_plain_reader(
        self,
        slots: tuple[int, ...],
        version: bytes,
        level: bytes,
        liveness: bytes,
        reference: DtdReference,
    ) -> ReadHeader:
        pick = itemgetter(*slots)
        streams, clients, incarnations = self._streams, self._clients, self._incarnations
        type_name, version_num = reference.type, version.decode()
        security_level, alive = SecurityLevel(level.decode()), Liveness(liveness.decode())
        # What a named tuple's own constructor does, without the call in between.
        new = tuple.__new__

        def read(values: Sequence[bytes]) -> Header:
            stream, client, timestamp, number, incarnation = pick(values)
            try:
                at, sequence_number = int(timestamp), int(number)
                if (
                    sequence_number
                    and len(timestamp) <= _SAFE_DIGITS
                    and len(number) <= _SAFE_DIGITS
                    # `int` takes signs, spaces and underscores too.
                    and timestamp.isdigit()
                    and number.isdigit()
                ):
                    identity = (clients[client], at, sequence_number, incarnations[incarnation])
                    return new(
                        Header,
                        (
                            new(EventId, identity),
                            streams[stream],
                            type_name,
                            version_num,
                            security_level,
                            alive,
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
            )
            _cache_field(streams, stream, header.stream)
            _cache_field(clients, client, header.event_id.client_id)
            _cache_field(incarnations, incarnation, header.event_id.incarnation)
            return header

        return read


def _add_bundle_check(read: ReadHeader, fields: HeaderFields) -> ReadHeader:
    def read_both(values: Sequence[bytes]) -> Header:
        header = read(values)
        check_bundles(
            [_text(place, values) for place in fields.bundle_ids],
            [_text(place, values) for place in fields.bundle_numbers],
        )
        return header

    return read_both


def _text(place: Value, values: Sequence[bytes]) -> str:
    return (values[place] if isinstance(place, int) else place).decode()


def _cache_field(known: dict[bytes, _Field], written: bytes, field: _Field) -> None:
    if len(known) >= MAX_CACHED_FIELDS:
        known.clear()
    known[written] = field


def _leaf_value(node: Node) -> Value:
    return node.children[0].value if node.children else b""
