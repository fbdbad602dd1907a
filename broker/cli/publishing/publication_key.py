"""Key of an event by which `pub` recognises that it published the event before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, cast

import attrs
from lxml import etree

from broker.cli.publishing.payload import UnusableDocument
from broker.cli.publishing.published_table import table_key
from broker.errors import BadQuery
from broker.matching.payload_key import compile_value
from broker.matching.query.limits import QueryLimits
from broker.matching.query.namespaces import PREDEFINED_PREFIXES
from broker.matching.query.parser import parse_expression
from broker.matching.query.query import parse_query

#: Characters of an id.
MAX_ID: Final = 4_096


@attrs.frozen
class KeyRule:
    """The option `--id`, with `--changed`."""

    text: str
    read_id: Callable[[etree._Element], str] = attrs.field(eq=False, repr=False)
    with_content: bool = False

    def find_key(self, payload: etree._Element) -> bytes:
        """Raises `UnusableDocument` for an element without an id."""
        found = self.read_id(payload).strip()
        if not found or len(found) > MAX_ID:
            reason = f"has more than {MAX_ID} characters" if found else "has no value in this event"
            raise UnusableDocument(f"--id {self.text} {reason}")
        if not self.with_content:
            return table_key("id", found)
        return table_key("content", found, sha256(_canonical_form(payload)).digest())


def parse_key_rule(text: str, namespaces: Mapping[str, str], *, with_content: bool) -> KeyRule:
    """Raises `BadQuery`."""
    return KeyRule(text, compile_payload_value(text, namespaces), with_content)


def compile_payload_value(
    text: str, namespaces: Mapping[str, str]
) -> Callable[[etree._Element], str]:
    """Return a function from a payload to the value of an expression. Raises `BadQuery`."""
    for prefix in parse_expression(text, QueryLimits())[1].prefixes:
        if prefix not in namespaces and prefix not in PREDEFINED_PREFIXES:
            raise BadQuery(f"the prefix {prefix} is not bound: give --namespace {prefix}=URI")
    query = parse_query(text, namespaces)
    if query.variables or query.uses_envelope:
        raise BadQuery("it sees only the payload, not the envelope")
    return compile_value(query.text, dict(query.namespaces))


def _canonical_form(payload: etree._Element) -> bytes:
    # Not the bytes: prefixes and blanks in tags may differ from fetch to fetch.
    try:
        made = cast(Any, etree.tostring)(
            payload, method="c14n", exclusive=True, with_comments=False, with_tail=False
        )
        return cast(bytes, made)
    except etree.C14NError:
        # A namespace is a relative URI, which only the slower form of lxml takes.
        return str(etree.canonicalize(payload)).encode("utf-8", "surrogatepass")
