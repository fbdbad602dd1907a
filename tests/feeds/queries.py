"""Queries about feeds, with prefixes of their own, and their oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

import attrs
from lxml import etree

from tests.feeds.rebinding import XSI_TYPE

#: The first prefixes are bound otherwise in many documents.
_PREFIXES: Final = ("ns2", "ns4", "ns5", "gml", *(f"q{number}" for number in range(20)))


@attrs.frozen
class FeedQuery:
    text: str
    namespaces: Mapping[str, str]

    def matches(self, payload: bytes) -> bool:
        """Return lxml's answer, which sees expanded names only."""
        root = etree.fromstring(payload)
        return bool(etree.XPath(f"boolean({self.text})", namespaces=dict(self.namespaces))(root))


def make_queries(payloads: Sequence[bytes], count: int, chance: Random) -> list[FeedQuery]:
    """Return distinct queries about values of the payloads."""
    found: dict[str, FeedQuery] = {}
    roots = [etree.fromstring(each) for each in payloads]
    uris: list[str] = []
    for _ in range(8 * count):
        root = chance.choice(roots)
        query = _draw(root, chance, uris)
        found.setdefault(query, FeedQuery(query, {}))
        if len(found) == count:
            break
    namespaces = dict(zip(_PREFIXES, uris, strict=False))
    return [FeedQuery(text, namespaces) for text in found]


def _draw(root: Any, chance: Random, uris: list[str]) -> str:
    element = chance.choice(list(root.iter("*")))
    steps = [each.tag for each in reversed([element, *element.iterancestors()])]
    names = [_name(tag, uris) for tag in steps]
    path = "/" + "/".join(names) if chance.random() < 0.5 else f"//{names[-1]}"
    value = (element.text or "").strip()
    forms = [f"count({path}) > {chance.randrange(1, 4)}", f"not({path})"]
    if value and len(value) < 40 and '"' not in value:
        forms += 3 * [f'{path} = "{value}"', f'{path}[. = "{value}"]']
        forms += [f'starts-with({path}, "{value[:3]}")', f'contains({path}, "{value[-2:]}")']
        if value.replace(".", "").isdigit():
            forms += 3 * [f"{path} > {value}", f"{path}[. >= {value}]"]
    for name, text in element.attrib.items():
        # The value of xsi:type has a prefix of the document.
        if '"' not in text and len(text) < 60 and name != XSI_TYPE:
            forms += 2 * [f'{path}/@{_name(name, uris)} = "{text}"']
    return chance.choice(forms)


def _name(tag: str, uris: list[str]) -> str:
    """Return a name with the query's prefix of its namespace."""
    uri, _, local = tag[1:].rpartition("}") if tag[:1] == "{" else ("", "", tag)
    if not uri:
        return local
    if uri == "http://www.w3.org/XML/1998/namespace":
        return f"xml:{local}"
    if uri not in uris:
        uris.append(uri)
    return f"{_PREFIXES[uris.index(uri)]}:{local}"
