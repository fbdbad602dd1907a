"""NITF, the news industry's format."""

from __future__ import annotations

import math
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import attrs
from lxml import etree

from benchmarks.workloads.voevent_packets import SHARED_DATA, NoData
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType

NITF: Final = EventType("nitf", "3.0")
ROOT: Final = "nitf"
_FILE: Final = "nitf-3-0.dtd"
#: Makes the DTD an event's DTD (DESIGN 5).
_AS_PAYLOAD: Final = (
    b'<!ENTITY % Mspaces.content ", nitf">'
    b'<!ENTITY % m PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">%m;'
)


@attrs.frozen
class Attribute:
    """`kind` is lxml's name (cdata, nmtoken, id, enumeration...)."""

    name: str
    kind: str
    required: bool
    values: tuple[str, ...]


@attrs.frozen
class Element:
    """`content` is lxml's tree of its model, None if it is empty."""

    name: str
    content: Any
    children: tuple[str, ...]
    """Sorted."""
    attributes: tuple[Attribute, ...]


@attrs.frozen
class Grammar:
    elements: dict[str, Element]
    heights: dict[str, float]
    """Levels below each element that its content model requires."""


def nitf_dtd() -> tuple[DtdReference, bytes]:
    """Return the DTD with the envelope, for a node's cache. Raises `NoData`."""
    return DtdReference(NITF.name, NITF.version), _AS_PAYLOAD + _file().read_bytes()


def nitf_grammar() -> Grammar:
    """Raises `NoData`."""
    parsed: Any = etree.DTD(BytesIO(_file().read_bytes()))
    elements = {each.name: _element(each) for each in parsed.iterelements()}
    heights = dict.fromkeys(elements, math.inf)
    for _ in elements:
        heights = {name: 1 + height(each.content, heights) for name, each in elements.items()}
    return Grammar(elements, heights)


def height(content: Any, heights: dict[str, float]) -> float:
    """Return the levels that a content model requires."""
    if content is None or content.type == "pcdata" or content.occur in ("opt", "mult"):
        return 0
    if content.type == "element":
        return heights.get(content.name, math.inf)
    sides = height(content.left, heights), height(content.right, heights)
    return min(sides) if content.type == "or" else max(sides)


def _file() -> Path:
    file = SHARED_DATA / "nitf-benchmark" / _FILE
    if not file.is_file():
        raise NoData(
            "the NITF DTD (../shared/data/nitf-benchmark) is missing next to this checkout"
        )
    return file


def _element(declared: Any) -> Element:
    return Element(
        declared.name,
        declared.content,
        tuple(sorted(_names(declared.content))),
        tuple(
            Attribute(each.name, each.type, each.default == "required", tuple(each.values()))
            for each in declared.iterattributes()
            # The DTD supplies fixed attributes.
            if each.default != "fixed"
        ),
    )


def _names(content: Any) -> set[str]:
    if content is None or content.type == "pcdata":
        return set()
    if content.type == "element":
        return {content.name}
    return _names(content.left) | _names(content.right)
