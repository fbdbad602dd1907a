"""Announcement of one event type by a node or unit, and its table entry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, TypeAlias

import attrs
from msgspec import Meta

from broker.cluster.messages import Value
from broker.dtd.reference import DtdReference
from broker.errors import BadName, ProtocolError
from broker.wire.codec import Schema

#: Of a node, for its cluster; of a unit, for the unit above.
TYPES: Final = "types"
UNIT_TYPES: Final = "unit-types"
ORIGIN_KEY: Final = ""
#: Further entries of an author are ignored.
MAX_OF_NODE: Final = 1000
MAX_OF_UNIT: Final = 2000
MAX_ORIGINS: Final = 64

_Origins: TypeAlias = Annotated[
    tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=MAX_ORIGINS)
]
_ORIGINS: Final = Schema[_Origins](_Origins, "origins of a text")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


@attrs.frozen
class Announcement:
    """A DTD text under a type and version, by a node or unit."""

    reference: DtdReference
    content_hash: str
    origins: tuple[str, ...] = ()
    """Empty: all of the author's node or unit."""


def node_entry(reference: DtdReference, content_hash: str) -> tuple[str, Value]:
    return f"{reference.type} {reference.version}", content_hash


def other_entry(variant: DtdReference, origins: Sequence[str]) -> tuple[str, Value]:
    """Return the entry of a text that other origins use under its name."""
    return f"{variant.type} {variant.version} {variant.variant}", tuple(origins[:MAX_ORIGINS])


def unit_entry(announcement: Announcement) -> tuple[str, Value]:
    reference = announcement.reference
    key = f"{reference.type} {reference.version} {announcement.content_hash}"
    return key, announcement.origins[:MAX_ORIGINS]


def origins_of(table: Mapping[str, Value]) -> tuple[str, ...]:
    origin = table.get(ORIGIN_KEY)
    return (origin,) if isinstance(origin, str) and 0 < len(origin) <= 64 else ()


def read_node_table(table: Mapping[str, Value]) -> tuple[list[Announcement], int]:
    """Also return the number of ignored entries."""
    origins = origins_of(table)
    found: list[Announcement] = []
    bad = 0
    for key, value in table.items():
        if key == ORIGIN_KEY:
            continue
        announcement = _of_node(key, value, origins)
        if announcement is None or len(found) >= MAX_OF_NODE:
            bad += 1
        else:
            found.append(announcement)
    return found, bad


def _of_node(key: str, value: Value, origins: tuple[str, ...]) -> Announcement | None:
    if key.count(" ") == 2:
        # Text of other origins.
        of_others = _of_unit(key, value)
        return of_others if of_others is not None and of_others.origins else None
    reference = _reference(key)
    if reference is None or not _is_hash(value):
        return None
    return Announcement(reference, str(value), origins)


def read_unit_table(table: Mapping[str, Value]) -> tuple[list[Announcement], int]:
    """Also return the number of ignored entries."""
    found: list[Announcement] = []
    bad = 0
    for key, value in table.items():
        announcement = _of_unit(key, value)
        if announcement is None or len(found) >= MAX_OF_UNIT:
            bad += 1
        else:
            found.append(announcement)
    return found, bad


def _of_unit(key: str, value: Value) -> Announcement | None:
    name, _, content_hash = key.rpartition(" ")
    reference = _reference(name)
    if reference is None or not _is_hash(content_hash):
        return None
    try:
        return Announcement(reference, content_hash, _ORIGINS.convert(value))
    except ProtocolError:
        return None


def _reference(key: str) -> DtdReference | None:
    name, _, version = key.partition(" ")
    try:
        return DtdReference(name, version)
    except BadName:
        return None


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None
