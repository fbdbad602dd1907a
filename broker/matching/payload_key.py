"""The string-value of an expression on a payload, which identifies the event's subject (Q3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lxml import etree

from broker.errors import BadQuery, BrokerError
from broker.event.payload import find_payload_element
from broker.event.reader import make_parser, parse_document
from broker.matching.query.limits import NO_LIMITS
from broker.matching.query.namespaces import DEFAULT
from broker.matching.query.query import Query, parse_query
from broker.matching.query.tree import Axis, Path, PathStart
from broker.matching.separate_names import call_separately


def compile_value(text: str, namespaces: Mapping[str, str]) -> Callable[[etree._Element], str]:
    """Return a function that evaluates the XPath expression `text` on a payload's element.

    Both raise `BadQuery`. DTD defaults and variables are not available.
    """
    if DEFAULT in namespaces:
        query = parse_query(text, namespaces, NO_LIMITS)
        text, namespaces = query.text, dict(query.namespaces)
    try:
        xpath = etree.XPath(
            f"string({text})", namespaces=dict(namespaces), regexp=False, smart_strings=False
        )
    except etree.XPathSyntaxError as error:
        raise BadQuery(f"the key {text[:80]!r} is no XPath expression: {error}") from None

    def value(payload: etree._Element) -> str:
        try:
            return str(xpath(payload))
        except etree.LxmlError as error:
            raise BadQuery(f"the key {text[:80]!r} can not be evaluated: {error}") from None

    return value


def compile_key(text: str, namespaces: Mapping[str, str]) -> Callable[[bytes], str]:
    """Return a function that evaluates the XPath expression `text` on a payload.

    Both raise `BadQuery`. DTD defaults and variables are not available.
    """
    value = compile_value(text, namespaces)

    def key(payload: bytes) -> str:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
        try:
            return value(etree.fromstring(payload, parser))
        except etree.LxmlError as error:
            raise BadQuery(f"the key {text[:80]!r} can not be evaluated: {error}") from None

    return key


def check_key_path(query: Query) -> tuple[tuple[str, str], ...]:
    """Check a path of elements and attributes, such as `/flight/@id`; return its prefixes.

    Its evaluation visits a node at most once. Raises `BadQuery` for another expression.
    """
    text, path = query.text, query.expression
    if (
        not isinstance(path, Path)
        or path.start is not PathStart.DOCUMENT
        or not path.steps
        or not text.startswith("/")
        or "::" in text
        or any(step.axis not in (Axis.CHILD, Axis.ATTRIBUTE) for step in path.steps)
        or any(step.predicates for step in path.steps)
    ):
        raise BadQuery(
            f"{query.written[:80]!r} is no path of elements and attributes from the payload's "
            "root, such as /flight/@id"
        )
    return query.namespaces


def compile_key_path(text: str, namespaces: Mapping[str, str]) -> Callable[[bytes], str]:
    """Return a function that evaluates a checked path on a document; "" without a value.

    It adds no names of documents to those of the process.
    """
    xpath = etree.XPath(
        f"string(self::{text[1:]})", namespaces=dict(namespaces), regexp=False, smart_strings=False
    )

    def key(document: bytes) -> str:
        try:
            payload = call_separately(
                lambda: find_payload_element(parse_document(document, make_parser()))
            )
            return "" if payload is None else str(xpath(payload))
        except (BrokerError, etree.LxmlError):
            return ""

    return key
