"""Validation of the envelope of events without a DTD, by its latest version (Mspaces M19-M42).

They have at most one payload element of any kind.
"""

from __future__ import annotations

import re

from lxml import etree

from broker.errors import NotValid
from broker.event.envelope import ENVELOPE_PREFIX, NAMESPACE
from broker.matching.envelope import element_line

_Q = f"{{{NAMESPACE}}}"
#: Content models as expressions over the children's names, each followed by a blank. `?` is an
#: element outside the envelope.
_MODELS = {
    "Event": re.compile(
        r"StreamId EventId EventType EventLinkage (ApplicationType )*(Summary )?(\? )?"
    ),
    "EventId": re.compile(r"ClientId TimeStamp SequenceNumber Incarnation "),
    "EventType": re.compile(r"VersionNum (LatestVersionNum )?"),
    "EventLinkage": re.compile(r"(BundleId BundleNumber )*BundleLinkage BundleOrder "),
    "BundleLinkage": re.compile(r"(TimeConstraint )?(MergeScheme )?"),
    "BundleOrder": re.compile(r"((StreamId|BundleId) )+"),
}
_LEAVES = frozenset(
    "StreamId ClientId TimeStamp SequenceNumber Incarnation VersionNum LatestVersionNum BundleId "
    "BundleNumber TimeConstraint MergeScheme ApplicationType Summary".split()
)
_ATTRIBUTES = {
    "EventType": {"Securitylevel": ("low", "med", "high"), "Liveness": ("live", "recovery")}
}
_DEFAULTS = {"Securitylevel": "med", "Liveness": "live"}


def check_envelope_structure(root: etree._Element) -> None:
    """Raise `NotValid` with the line for an invalid envelope."""
    if root.tag != f"{_Q}Event":
        raise _invalid(root, f"the root element is {str(root.tag)!r}, not Mspaces:Event")
    if root.prefix != ENVELOPE_PREFIX:
        raise _invalid(root, f"the envelope has the prefix {root.prefix!r}, not 'Mspaces'")
    _check_element(root)


def apply_envelope_defaults(root: etree._Element) -> None:
    for kind in root.iterchildren(f"{_Q}EventType"):
        for name, value in _DEFAULTS.items():
            if kind.get(name) is None:
                kind.set(name, value)


def _check_element(element: etree._Element) -> None:
    name = etree.QName(element).localname
    allowed = _ATTRIBUTES.get(name, {})
    for attribute in map(str, element.keys()):
        value = str(element.get(attribute))
        if value not in allowed.get(attribute, ()):
            raise _invalid(element, f"Mspaces:{name} has {attribute}={value[:40]!r}")
    children = list(element.iterchildren("*"))
    model = _MODELS.get(name)
    if model is None:
        if name not in _LEAVES or children:
            raise _invalid(element, f"Mspaces:{name} is not an element of text")
        return
    if not model.fullmatch("".join(f"{_envelope_name(child)} " for child in children)):
        raise _invalid(element, f"Mspaces:{name} has not the children that the envelope's DTD says")
    if any(
        (text or "").strip(" \t\r\n") for text in (element.text, *(child.tail for child in element))
    ):
        raise _invalid(element, f"Mspaces:{name} has text between its elements")
    for child in children:
        if _envelope_name(child) != "?":
            _check_element(child)


def _envelope_name(element: etree._Element) -> str:
    tag = str(element.tag)
    if tag.startswith(_Q) and element.prefix == ENVELOPE_PREFIX:
        return tag[len(_Q) :]
    return "?"


def _invalid(element: etree._Element, text: str) -> NotValid:
    return NotValid(f"{text} (no DTD describes this type)", line=element_line(element))
