"""Random documents as nested tuples, and the check that a derived DTD accepts documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

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

NAMES = st.sampled_from(["a", "b", "c", "p:a", "p:b", "p:d", "q:b", "é"])
COMMENT = "<!-- -->"
TEXTS = st.sampled_from([" \n", "text", " 7 ", "\u00a0", COMMENT])
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["x", "y", "p:x", "q:x", "xml:lang"]),
    st.sampled_from(["", "1", "<&\"'%--"]),
    max_size=3,
)
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.tuples(NAMES, ATTRIBUTES, st.lists(TEXTS, max_size=1)),
    lambda inner: st.tuples(NAMES, ATTRIBUTES, st.lists(TEXTS | inner | inner, max_size=5)),
    max_leaves=12,
)


#: Namespaces by the prefixes of trees.
_NAMESPACES = {"p": "urn:p", "q": "urn:q?a&b=1", "xml": "http://www.w3.org/XML/1998/namespace"}


def build(tree: Tree, bindings: dict[str, str]) -> etree._Element:
    """Return the document, in which `bindings` are the namespaces by prefix."""
    name, attributes, contents = tree
    nsmap: Any = {prefix or None: uri for prefix, uri in bindings.items()}
    element = etree.Element(_expand(name), None, nsmap)
    for key, value in attributes.items():
        element.set(_expand(key), value)
    for content in contents:
        if isinstance(content, tuple):
            element.append(build(content, bindings))
        elif content == COMMENT:
            element.append(etree.Comment(" "))
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + content
        else:
            element.text = (element.text or "") + content
    return element


def read_back(root: etree._Element) -> etree._Element:
    """Return the document as its text has it: lxml gives names the default namespace."""
    return etree.fromstring(etree.tostring(root, encoding="UTF-8"))


def _expand(name: str) -> str:
    prefix, colon, local = name.rpartition(":")
    return f"{{{_NAMESPACES[prefix]}}}{local}" if colon else name


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
