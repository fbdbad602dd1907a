"""Properties of the shipped event types."""

from __future__ import annotations

import re
from typing import Final

import attrs
from lxml import etree

_VOEVENT: Final = "http://www.ivoa.net/xml/VOEvent/v"
_XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"


@attrs.frozen
class DetectedType:
    name: str
    version: str
    stream: str
    """Default stream."""


#: As `--time-from` takes it.
TIMES: Final = {"VOEvent": "Who/Date", "flight": "timestamp", "asdi": "time"}


def detect_type(root: etree._Element) -> DetectedType | None:
    name = etree.QName(root)
    if name.localname == "VOEvent":
        version = _voevent_version(root, name.namespace)
        return DetectedType("VOEvent", version, "voevent") if version else None
    if name.namespace is not None:
        return None
    if name.localname == "flight":
        version = "1.0" if root.find("timestamp") is None else "1.1"
        return DetectedType("flight", version, "flight")
    if name.localname == "asdi":
        return DetectedType("asdi", "1.0", _asdi_stream(root))
    return None


def _voevent_version(root: etree._Element, namespace: str | None) -> str:
    said = (namespace or "").removeprefix(_VOEVENT) if namespace else root.get("version", "")
    return said if said in ("1.1", "2.0") else ""


def _asdi_stream(root: etree._Element) -> str:
    """For a track of the centre KZBW return `asdi.zbw.tz`."""
    centre = (root.findtext("facility") or "").strip().lower()
    kind = root.get("type", "").lower()
    centre = centre[1:] if len(centre) == 4 and centre[0] in "kcp" else centre
    parts = ["asdi", *(part for part in (centre, kind) if re.fullmatch("[a-z0-9]{1,16}", part))]
    return ".".join(parts)
