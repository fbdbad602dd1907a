"""The string-value of an expression on a payload, which identifies the event's subject (Q3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lxml import etree

from broker.errors import BadQuery


def compile_key(text: str, namespaces: Mapping[str, str]) -> Callable[[bytes], str]:
    """Return a function that evaluates the XPath expression `text` on a payload.

    Both raise `BadQuery`. DTD defaults and variables are not available.
    """
    try:
        xpath = etree.XPath(
            f"string({text})", namespaces=dict(namespaces), regexp=False, smart_strings=False
        )
    except etree.XPathSyntaxError as error:
        raise BadQuery(f"the key {text[:80]!r} is no XPath expression: {error}") from None

    def key(payload: bytes) -> str:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
        try:
            return str(xpath(etree.fromstring(payload, parser)))
        except etree.LxmlError as error:
            raise BadQuery(f"the key {text[:80]!r} can not be evaluated: {error}") from None

    return key
