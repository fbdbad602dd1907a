"""Translation of an XML Schema into a DTD that accepts every document that the schema accepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import attrs
import xmlschema
from xmlschema.validators import XsdElement, XsdType

from broker.dtd.derivation.chain import infer_chain
from broker.dtd.derivation.driver import (
    Derivation,
    DerivedAttribute,
    DerivedElement,
    Model,
    WrittenDtd,
    any_model,
    children_models,
    mixed_model,
    text_model,
    write_driver,
)
from broker.dtd.derivation.expression_sequences import ExpressionSequences
from broker.dtd.derivation.prefix_table import PrefixTable, PrefixUse, name_from_uri, split_name
from broker.dtd.derivation.schema_attributes import (
    attribute_wildcard,
    attributes_of,
    join_attributes,
)
from broker.dtd.derivation.schema_content import declarations_of_element, with_occurrence
from broker.dtd.derivation.schema_elements import (
    XSD_NAMESPACE,
    XSI_NAMESPACE,
    ReachableElements,
    SchemaElement,
    is_any_type,
)
from broker.dtd.dtd import MAX_ATTRIBUTES
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd
from broker.event.envelope import XML_NAMESPACE

_XSI_ATTRIBUTES: Final = ("type", "nil", "schemaLocation", "noNamespaceSchemaLocation")
#: Work for the chain of an element: names, times names in its content models. It takes 0.2 s.
_MAX_CHAIN: Final = 200_000
#: Prefixes of schemas that do not name a format.
_GENERAL_PREFIXES: Final = frozenset({"tns", "this", "target", ""})


def find_roots(schema: xmlschema.XMLSchemaBase, names: Sequence[str]) -> tuple[XsdElement, ...]:
    """Return global elements by local name, or by name in Clark's notation.

    Without names it is the only one. Raises `BadDtd` for an unknown or ambiguous name.
    """
    known = [
        each
        for key, each in sorted(schema.maps.elements.items())
        if split_name(key)[0] not in (XSD_NAMESPACE, XSI_NAMESPACE, XML_NAMESPACE)
    ]
    if not known:
        raise BadDtd("the schema has no global element: no document is valid")
    if not names and len(known) > 1:
        raise BadDtd(f"the schema has several roots: give --root, one of {_list(known)}")
    return tuple(_find_root(known, name) for name in names or [known[0].name])


def _find_root(known: list[XsdElement], name: str) -> XsdElement:
    found = [each for each in known if name in (each.name, each.local_name)]
    if not found:
        raise BadDtd(f"the schema has no global element {name[:120]!r}: it has {_list(known)}")
    if len(found) > 1:
        names = " or ".join(str(each.name) for each in found)
        raise BadDtd(f"several elements are named {name!r}: give --root {names}")
    if not declarations_of_element(found[0]):
        raise BadDtd(f"element {name!r} is abstract, and nothing may stand in its place")
    return found[0]


def _list(elements: list[XsdElement]) -> str:
    counts = Counter(each.local_name for each in elements)
    names = [
        str(each.local_name if counts[each.local_name] == 1 else each.name) for each in elements
    ]
    return ", ".join(names[:30]) + (" ..." if len(names) > 30 else "")


def translate_schema(
    schema: xmlschema.XMLSchemaBase, roots: Sequence[XsdElement], reference: DtdReference
) -> tuple[Derivation, WrittenDtd]:
    """Raises `BadDtd` for a schema that is beyond a DTD."""
    names = dict.fromkeys(each.name for root in roots for each in declarations_of_element(root))
    for attempt in _ATTEMPTS:
        try:
            reachable = ReachableElements(schema, roots, with_wildcards=attempt.with_wildcards)
            translation = _Translation(schema, reachable, attempt)
            derivation = translation.derive(tuple(names), reference)
            return derivation, write_driver(derivation, keep_models=attempt.keeps_models)
        except BadDtd:
            if attempt is _ATTEMPTS[-1]:
                raise
    raise AssertionError("the last attempt returns or raises")


@attrs.frozen
class _Attempt:
    """Choices for a schema that is too large for a DTD of a node."""

    has_xsi_everywhere: bool = True
    keeps_models: bool = True
    with_wildcards: bool = True

    def remarks(self) -> list[str]:
        lines = []
        if not self.has_xsi_everywhere:
            lines.append(
                "The schema is large: xsi:type is accepted only where it can name another type, "
                "xsi:nil where the element may be nil, schema locations at the root."
            )
        if not self.with_wildcards:
            lines.append(
                "The elements that wildcards (xs:any) accept are too many for a DTD: they are "
                "refused, unless the schema has them elsewhere."
            )
        return lines


#: Documents stay valid as long as possible: `ANY` for all elements comes before a refusal.
_ATTEMPTS: Final = (
    _Attempt(),
    _Attempt(has_xsi_everywhere=False),
    _Attempt(has_xsi_everywhere=False, keeps_models=False),
    _Attempt(has_xsi_everywhere=False, keeps_models=False, with_wildcards=False),
)


class _Translation:
    def __init__(
        self, schema: xmlschema.XMLSchemaBase, reachable: ReachableElements, attempt: _Attempt
    ) -> None:
        self._schema = schema
        self._reachable = reachable
        self._attempt = attempt
        namespaces = {split_name(name)[0] for name in reachable.elements}
        room = MAX_ATTRIBUTES - len(_XSI_ATTRIBUTES) - 2 - len(namespaces)
        self._attributes = {
            name: join_attributes(element, schema.maps.attributes, room)
            for name, element in reachable.elements.items()
        }

    def derive(self, roots: tuple[str, ...], reference: DtdReference) -> Derivation:
        table = self._choose_prefixes(roots)
        xsi = table.attribute_prefixes[XSI_NAMESPACE]
        common = [
            f'xmlns:{xsi} CDATA #FIXED "{XSI_NAMESPACE}"',
            *(f"{xsi}:{name} CDATA #IMPLIED" for name in _XSI_ATTRIBUTES),
        ]
        return Derivation(
            reference=reference,
            roots=roots,
            elements=tuple(
                self._derive_element(element, table, is_root=name in roots)
                for name, element in self._reachable.elements.items()
            ),
            table=table,
            head=(f"Event type {reference}, translated from an XML Schema.", *self._limitations()),
            common_attributes="\n          ".join(common)
            if self._attempt.has_xsi_everywhere
            else "",
        )

    def _limitations(self) -> list[str]:
        """Return the rules of the schema that the DTD does not have, beside those of elements."""
        lines = [
            "The DTD accepts each document that the schema accepts, and others: it has no types of "
            "texts and attributes (numbers, dates, patterns, lengths, enumerations)."
        ]
        if self._reachable.identities:
            names = ", ".join(sorted(self._reachable.identities))
            lines.append(f"Not checked: the keys {names}.")
        if self._reachable.assertions:
            lines.append("Not checked: assertions.")
        return lines + self._attempt.remarks()

    def _choose_prefixes(self, roots: tuple[str, ...]) -> PrefixTable:
        known: dict[str, Counter[str]] = {}
        use = PrefixUse()
        for schema in self._schema.maps.schemas:
            for prefix, uri in schema.namespaces.items():
                if prefix not in _GENERAL_PREFIXES and uri:
                    known.setdefault(uri, Counter())[prefix] += 1

        def prefix_of(name: str) -> str:
            uri, _ = split_name(name)
            forms = known.get(uri)
            if not uri:
                return ""
            if not forms:
                return name_from_uri(uri)
            return min(forms, key=lambda prefix: (-forms[prefix], prefix))

        # Documents of a schema without names outside of namespaces seldom have a prefix for it.
        namespaces = {split_name(name)[0] for name in roots}
        has_default = len(namespaces) == 1 and all(
            name.startswith("{") for name in self._attributes
        )
        default = namespaces.pop() if has_default else None
        for name, attributes in self._attributes.items():
            use.add_element(name, "" if split_name(name)[0] == default else prefix_of(name))
            for attribute in attributes:
                if attribute.name.startswith("{"):
                    use.add_attribute(attribute.name, prefix_of(attribute.name))
        use.add_attribute(f"{{{XSI_NAMESPACE}}}type", "xsi")
        return use.choose(roots)

    def _derive_element(
        self, element: SchemaElement, table: PrefixTable, *, is_root: bool
    ) -> DerivedElement:
        models, notes = self._join_models(element)
        variants = {self._variant_of(type_) for type_ in element.types}
        if len(variants) > 1:
            notes.append(
                f"{len(variants)} different types of this name, or of xsi:type, are joined"
            )
        if element.has_value:
            notes.append("its default or fixed text is not supplied or checked")
        if any(attribute_wildcard(type_) is not None for type_ in element.types):
            notes.append("a wildcard accepts declared attributes only")
        bindings: dict[str, str | None] = dict(table.bindings) if is_root else {}
        attributes = self._attributes[element.name]
        if self._attempt.has_xsi_everywhere:
            bindings.pop(table.attribute_prefixes[XSI_NAMESPACE], None)
        else:
            needed = (
                *(["type"] if len(element.types) > 1 else []),
                *(["nil"] if element.is_nillable else []),
                *(["schemaLocation", "noNamespaceSchemaLocation"] if is_root else []),
            )
            attributes += tuple(DerivedAttribute(f"{{{XSI_NAMESPACE}}}{name}") for name in needed)
        return DerivedElement(element.name, models, attributes, bindings, "; ".join(notes))

    def _variant_of(self, type_: XsdType) -> tuple[object, ...]:
        content = self._reachable.content_of(type_)
        return _has_text(type_), content.expression, frozenset(attributes_of(type_))

    def _join_models(self, element: SchemaElement) -> tuple[tuple[Model, ...], list[str]]:
        contents = [self._reachable.content_of(type_) for type_ in element.types]
        expressions = list(dict.fromkeys(c.expression for c in contents if c.expression))
        names = ExpressionSequences(expressions).names
        bounded = sorted({each for content in contents for each in content.bounded})
        notes = [f"numbers that are not checked: {', '.join(bounded[:20])}"] if bounded else []
        if any(content.has_all_group for content in contents):
            notes.append("an xs:all group accepts any number")
        if any(content.wildcards for content in contents):
            notes.append("a wildcard accepts declared elements only")
        if any(content.is_open for content in contents) or any(map(is_any_type, element.types)):
            return (any_model,), notes
        if any(_has_text(type_) for type_ in element.types):
            if names:
                notes.append("text between elements: any order accepted")
            return (mixed_model(names), any_model), notes
        if not expressions:
            # EMPTY would refuse comments, which a schema accepts.
            return (text_model,), [*notes, "empty in the schema: text is accepted"]
        is_nullable = element.is_nillable or any(not content.expression for content in contents)
        if is_nullable:
            expressions = [with_occurrence(each, is_optional=True) for each in expressions]
        narrow = expressions if len(expressions) == 1 else []
        sequences = ExpressionSequences(expressions)
        if len(names) * sequences.size <= _MAX_CHAIN:
            narrow = [*narrow, infer_chain(sequences)]
        return children_models(narrow, names), notes


def _has_text(type_: XsdType) -> bool:
    return bool(type_.is_simple() or type_.has_simple_content() or type_.has_mixed_content())
