"""Random documents as nested tuples, and the check that a derived DTD accepts documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from hypothesis import strategies as st
from lxml import etree

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.derivation.driver import Derivation, write_driver
from broker.dtd.derivation.inference import infer_dtd
from broker.dtd.derivation.sample_statistics import SampleStatistics
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from tests.dtd.conftest import read_event, write_event

REFERENCE = DtdReference("sample", "1.0")
#: Name, attributes, and contents: texts and further trees.
Tree: TypeAlias = tuple[str, dict[str, str], list["Tree | str"]]

NAMES = st.sampled_from(["a", "b", "c", "d", "p:a", "p:e", "é"])
COMMENT = "<!-- -->"
TEXTS = st.sampled_from([" \n", "text", " 7 ", "\u00a0", COMMENT])
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["x", "y", "p:x", "xml:lang"]),
    st.sampled_from(["", "1", "<&\"'%--"]),
    max_size=3,
)
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.tuples(NAMES, ATTRIBUTES, st.lists(TEXTS, max_size=1)),
    lambda inner: st.tuples(NAMES, ATTRIBUTES, st.lists(TEXTS | inner | inner, max_size=5)),
    max_leaves=12,
)


def build(tree: Tree, namespaces: dict[str, str]) -> etree._Element:
    name, attributes, contents = tree
    element = etree.Element(_expand(name, namespaces), None, namespaces)
    for key, value in attributes.items():
        element.set(_expand(key, namespaces), value)
    for content in contents:
        if isinstance(content, tuple):
            element.append(build(content, namespaces))
        elif content == COMMENT:
            element.append(etree.Comment(" "))
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + content
        else:
            element.text = (element.text or "") + content
    return element


def _expand(name: str, namespaces: dict[str, str]) -> str:
    prefix, colon, local = name.rpartition(":")
    uri = {"xml": "http://www.w3.org/XML/1998/namespace", **namespaces}.get(prefix)
    return f"{{{uri}}}{local}" if colon else name


def infer(documents: Iterable[etree._Element]) -> Derivation:
    statistics = SampleStatistics()
    for document in documents:
        statistics.add_payload(document)
    return infer_dtd(statistics, REFERENCE)


def load(derivation: Derivation) -> Dtd:
    text = write_driver(derivation).text.encode()
    return Dtd.load(derivation.reference, text, Catalogue.load(shipped_folder()).read)


def find_problem(dtd: Dtd, document: etree._Element | bytes) -> str | None:
    """Return the error of an event with the document, or None if it is valid."""
    payload = (
        document if isinstance(document, bytes) else etree.tostring(document, encoding="UTF-8")
    )
    event = write_event(payload, dtd.reference.type, dtd.reference.version)
    invalid = dtd.check(read_event(event))
    return None if invalid is None else invalid.text
