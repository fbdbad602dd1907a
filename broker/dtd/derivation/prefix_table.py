"""Choice of the prefixes of a derived DTD.

A DTD has names with prefixes, and binds a prefix by a `#FIXED` attribute `xmlns:prefix`. Names are
in Clark's notation, `{URI}name`, until the DTD is written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs

from broker.event.envelope import ENVELOPE_PREFIX, NAMESPACE, XML_NAMESPACE

#: Distinct prefixes that are counted for one name, and namespaces for one prefix.
MAX_FORMS: Final = 16

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
#: Parts of a URI that do not name a format.
_GENERAL_WORDS: Final = frozenset({"http", "https", "www", "xsd", "xml", "schema", "schemas", "ns"})
_RESERVED: Final = frozenset({ENVELOPE_PREFIX, "xml", "xmlns", ""})


def split_name(name: str) -> tuple[str, str]:
    """Return namespace (empty: none) and local name of a name in Clark's notation."""
    uri, brace, local = name[1:].rpartition("}") if name.startswith("{") else ("", "", name)
    return uri, local if brace else name


@attrs.frozen
class PrefixTable:
    prefixes: Mapping[str, str]
    """Prefix by namespace, for elements; "" is the default namespace."""
    attribute_prefixes: Mapping[str, str]
    """Prefix by namespace, for attributes."""
    bindings: Mapping[str, str]
    """Namespace by prefix, to be declared."""
    written_names: Mapping[str, str]
    """Names whose form in the samples is kept."""

    def qualify(self, name: str) -> str:
        if name in self.written_names:
            return self.written_names[name]
        uri, local = split_name(name)
        return _join(self.prefixes.get(uri, ""), local)

    def qualify_attribute(self, name: str) -> str:
        uri, local = split_name(name)
        if uri == XML_NAMESPACE:
            return _join("xml", local)
        return _join(self.attribute_prefixes[uri] if uri else "", local)


class PrefixUse:
    """Count of prefixes in documents or schemas, by name and by namespace."""

    def __init__(self) -> None:
        self._elements: dict[str, Counter[str]] = {}
        self._attributes: dict[str, Counter[str]] = {}
        self._bound: dict[str, set[str]] = {}
        self._is_uncounted = False

    def add_element(self, name: str, prefix: str) -> None:
        self._count(self._elements, name, prefix)

    def add_attribute(self, name: str, prefix: str) -> None:
        self._count(self._attributes, split_name(name)[0], prefix)

    def add_binding(self, prefix: str, uri: str) -> None:
        uris = self._bound.setdefault(prefix, set())
        if len(uris) < MAX_FORMS:
            uris.add(uri)

    def choose(self, roots: Collection[str]) -> PrefixTable:
        """Keep the prefixes of the samples where they agree, else one prefix a namespace.

        A DTD has a default namespace only if all payloads without prefix have it.
        """
        namespaces = {split_name(root)[0] for root in roots}
        written = set().union(*(self._elements[root] for root in roots))
        has_default = len(namespaces) == 1 and written == {""}
        default = namespaces.pop() if has_default else ""
        return self._keep_forms(default) or self._choose_one_each(default)

    def _count(self, forms: dict[str, Counter[str]], key: str, prefix: str) -> None:
        counter = forms.setdefault(key, Counter())
        if prefix in counter or len(counter) < MAX_FORMS:
            counter[prefix] += 1
        else:
            self._is_uncounted = True

    def _keep_forms(self, default: str) -> PrefixTable | None:
        """Return None if a name has several prefixes, or a prefix several namespaces."""
        bindings: dict[str, str] = {}
        forms = [(split_name(name)[0], found) for name, found in self._elements.items()]
        for uri, counter in (*forms, *self._attributes.items()):
            if len(counter) > 1 or self._is_uncounted:
                return None
            for prefix in counter:
                if bindings.setdefault(prefix, uri) != uri or prefix == ENVELOPE_PREFIX:
                    return None
        if bindings.get("", default) != default:
            return None
        written = {
            name: _join(next(iter(counter)), split_name(name)[1])
            for name, counter in self._elements.items()
        }
        for_attributes = {uri: next(iter(found)) for uri, found in self._attributes.items()}
        return self._make_table({}, for_attributes, bindings, written)

    def _choose_one_each(self, default: str) -> PrefixTable:
        wanted: dict[str, Counter[str]] = {}
        unprefixed: set[str] = set()
        for name, counter in self._elements.items():
            uri = split_name(name)[0]
            wanted.setdefault(uri, Counter()).update(counter)
            unprefixed |= {uri} if "" in counter else set()
        for uri, counter in self._attributes.items():
            wanted.setdefault(uri, Counter()).update(counter)
        # Names without prefix have no namespace, or all of them have the payloads'.
        is_plain = unprefixed == {default} and set(wanted[default]) == {""}
        plain = {default} if is_plain else set()
        taken = {XML_NAMESPACE: "xml", "": "", **dict.fromkeys(plain, "")}
        for uri in sorted(wanted, key=lambda each: (-wanted[each].total(), each)):
            if uri not in taken:
                taken[uri] = _free_prefix(uri, self._known_forms(uri, wanted), set(taken.values()))
        bindings = {prefix: uri for uri, prefix in taken.items()}
        for_attributes = {uri: taken[uri] for uri in self._attributes}
        return self._make_table(taken, for_attributes, bindings, {})

    def _known_forms(self, uri: str, used: Mapping[str, Counter[str]]) -> Counter[str]:
        """Return the prefixes of a namespace; those that no name has count least."""
        return used[uri] + Counter(
            {prefix: 1 for prefix, uris in self._bound.items() if prefix and uri in uris}
        )

    def _make_table(
        self,
        prefixes: Mapping[str, str],
        attribute_prefixes: Mapping[str, str],
        bindings: dict[str, str],
        written: Mapping[str, str],
    ) -> PrefixTable:
        unused = {
            prefix: next(iter(uris))
            for prefix, uris in self._bound.items()
            if len(uris) == 1 and prefix not in ("", ENVELOPE_PREFIX)
        }
        declared = {
            prefix: uri
            for prefix, uri in {**unused, **bindings}.items()
            if uri and prefix != "xml" and uri != NAMESPACE
        }
        return PrefixTable(prefixes, attribute_prefixes, declared, written)


def _free_prefix(uri: str, forms: Counter[str], taken: set[str]) -> str:
    reserved = taken | _RESERVED
    found = sorted(forms, key=lambda prefix: (-forms[prefix], prefix))
    for prefix in (each for each in found if each not in reserved):
        return prefix
    base = next((each for each in found if each not in _RESERVED), "") or name_from_uri(uri)
    number = 1
    while (prefix := base if number == 1 else f"{base}{number}") in reserved:
        number += 1
    return prefix


def name_from_uri(uri: str) -> str:
    """Return a prefix from the last word of a namespace that may name a format."""
    words: Iterable[str] = (word for word in _WORD.findall(uri) if len(word) <= 12)
    usable = [word.lower() for word in words if word.lower() not in _GENERAL_WORDS]
    return next((word for word in reversed(usable) if not re.fullmatch(r"v?\d+", word)), "ns")


def _join(prefix: str, local: str) -> str:
    return f"{prefix}:{local}" if prefix else local
