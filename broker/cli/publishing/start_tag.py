"""Start tags of a collection with their namespace bindings. Sans-I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from xml.sax.saxutils import quoteattr

from broker.event.envelope import XML_NAMESPACE

#: A document with more bindings in scope is refused.
MAX_BINDINGS: Final = 256

#: Names occur in values and texts too, with any punctuation before them. A colon is none: no prefix
#: is in a namespace such as urn:cap:1.
_BEFORE_PREFIX: Final = rb"(?<![\w.:\x80-\xff-])"
_BEHIND_PREFIX: Final = rb":(?=[A-Za-z_\x80-\xff])"
_ANY_NAME = re.compile(_BEFORE_PREFIX + rb"([A-Za-z_\x80-\xff][\w.\x80-\xff-]*+)" + _BEHIND_PREFIX)
#: So many prefixes are searched one by one.
_FEW: Final = 8

#: Prefix -> URI; the prefix of the default namespace is empty.
Scope = Mapping[str, str]
NO_BINDINGS: Final[Scope] = {}


class BadNamespace(Exception):
    """A prefix without a binding, or too many bindings."""


class OpenedTag:
    """A start tag; implementation of `StartTag`."""

    def __init__(self, name: str, attributes: Mapping[str, str], scope: Scope) -> None:
        """`name` and the names of `attributes` have their prefixes."""
        self._attributes = attributes
        self._scope = scope
        prefix, _, self.local = name.rpartition(":")
        self.uri = self._resolve(prefix)

    def find_attribute(self, uri: str, local: str) -> str | None:
        if not uri:
            return self._attributes.get(local)
        for name, value in self._attributes.items():
            prefix, colon, rest = name.partition(":")
            if colon and rest == local and prefix != "xmlns" and self._resolve(prefix) == uri:
                return value
        return None

    def _resolve(self, prefix: str) -> str:
        if prefix == "xml":
            return XML_NAMESPACE
        uri = self._scope.get(prefix, "")
        if prefix and not uri:
            raise BadNamespace(f"the prefix {prefix[:80]} is not bound to a namespace")
        return uri


def declared_bindings(attributes: Mapping[str, str]) -> dict[str, str]:
    return {
        name[6:]: uri
        for name, uri in attributes.items()
        if name == "xmlns" or name.startswith("xmlns:")
    }


def extend_scope(scope: Scope, attributes: Mapping[str, str]) -> Scope:
    """Raises `BadNamespace` beyond `MAX_BINDINGS`."""
    declared = declared_bindings(attributes)
    if not declared:
        return scope
    extended = {**scope, **declared}
    if len(extended) > MAX_BINDINGS:
        raise BadNamespace(f"more than {MAX_BINDINGS} namespace prefixes are bound")
    return extended


def write_declarations(bindings: Mapping[str, str]) -> bytes:
    """Return attributes for a start tag, each with a blank before it."""
    return "".join(
        f" {f'xmlns:{prefix}' if prefix else 'xmlns'}={quoteattr(uri)}"
        for prefix, uri in bindings.items()
    ).encode()


def find_used_prefixes(prefixes: Iterable[str], element: bytes) -> set[str]:
    """Return the prefixes of names in an element's markup, values and texts, and maybe more."""
    candidates = [each for each in prefixes if f"{each}:".encode() in element]
    if len(candidates) <= _FEW:
        return {each for each in candidates if _name_with(each).search(element)}
    # One pass for all of them.
    return {found[1].decode() for found in _ANY_NAME.finditer(element)}.intersection(candidates)


@lru_cache(MAX_BINDINGS)
def _name_with(prefix: str) -> re.Pattern[bytes]:
    return re.compile(_BEFORE_PREFIX + re.escape(prefix.encode()) + _BEHIND_PREFIX)
