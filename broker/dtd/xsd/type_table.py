"""The table of a schema's simple types, read with the library `xmlschema`.

A value has a check only where the type of its element is certain. It has none if several
declarations or a wildcard could be meant, and for types whose valid values are not recognised.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import xmlschema
from xmlschema.validators import (
    XsdAnyElement,
    XsdAtomicBuiltin,
    XsdAtomicRestriction,
    XsdElement,
    XsdGroup,
)

from broker.dtd.xsd.bundle import SchemaBundle, parse_schema_file
from broker.dtd.xsd.slot_check import SlotCheck
from broker.dtd.xsd.slot_pattern import NotTranslatable, translate_pattern
from broker.dtd.xsd.slot_types import FREE, ElementSlots, SlotTypes

MAX_DECLARATIONS: Final = 20_000
_XSD: Final = "{http://www.w3.org/2001/XMLSchema}"
#: Values of other elements decide on these, or libxml2 may read them differently.
_UNSUPPORTED: Final = tuple(
    f"{_XSD}{name}" for name in ("key", "unique", "keyref", "redefine", "override")
)
_MAX_LENGTH: Final = 65_535
_MAX_VALUES: Final = 10_000
#: Fraction digits of a decimal number.
_FRACTION: Final = 9

_YEAR: Final = "[1-9][0-9]{3}"
_DATE: Final = (
    f"{_YEAR}-(?>(?>0[1-9]|1[0-2])-(?>0[1-9]|1[0-9]|2[0-8])"
    "|(?>0[13-9]|1[0-2])-(?>29|30)|(?>0[13578]|1[02])-31)"
)
_TIME: Final = r"(?>[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6}+)?+"
_ZONE: Final = "(?>Z|[+-](?>0[0-9]|1[0-3]):[0-5][0-9])?+"
_LETTER: Final = "[A-Za-z_]"
_NAME_SIGN: Final = r"[A-Za-z0-9_.\-]"
_COLLAPSED: Final = "(?:[^ \t\n]++(?: [^ \t\n]++)*+)?+"
_URI_SIGN: Final = "[A-Za-z0-9._~-]"
#: Values that need no more checks, by builtin type.
_LEXICAL: Final = {
    "boolean": "(?>true|false|1|0)",
    "dateTime": f"{_DATE}T{_TIME}{_ZONE}",
    "date": f"{_DATE}{_ZONE}",
    "time": f"{_TIME}{_ZONE}",
    "language": "[A-Za-z]{1,8}+(?:-[A-Za-z0-9]{1,8}+)*+",
    "NMTOKEN": f"(?:{_NAME_SIGN}|:)++",
    "Name": f"(?:{_LETTER}|:)(?:{_NAME_SIGN}|:)*+",
    "NCName": f"{_LETTER}{_NAME_SIGN}*+",
    "anyURI": (
        rf"https?+://[A-Za-z0-9][A-Za-z0-9.-]*+(?::[0-9]{{1,4}}+)?+"
        rf"(?:/{_URI_SIGN}*+)*+(?:\?(?:{_URI_SIGN}|[=/])*+)?+"
    ),
}
_TEXTS: Final = frozenset({"string", "normalizedString", "token"})
_ANY: Final = frozenset({"anySimpleType", "anyAtomicType"})
_FLOATS: Final = frozenset({"float", "double"})
_INTEGERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "integer": (None, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    **{
        name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        for name, bits in {"long": 64, "int": 32, "short": 16, "byte": 8}.items()
    },
    **{
        f"unsigned{name}": (0, 2**bits - 1)
        for name, bits in {"Long": 64, "Int": 32, "Short": 16, "Byte": 8}.items()
    },
}
#: At most 18 digits, and neither zeros in front nor a negative zero.
_INTEGER: Final = "(?>0|-?+[1-9][0-9]{0,17}+)"


class _NoCheck(Exception):
    """Values of the type are not checked: they stay as they are in a valid document."""


def build_slot_types(bundle: SchemaBundle, folder: Path) -> SlotTypes:
    """Return the table of a schema that libxml2 accepts, with its files in `folder`.

    It is empty if no value may vary.
    """
    for _, content in bundle.files:
        if next(parse_schema_file(content).iter(*_UNSUPPORTED), None) is not None:
            return SlotTypes()
    names = [name for name, _ in bundle.files]

    def locate(uri: str) -> str:
        # Files of the library are those of XML's own namespaces.
        if uri.startswith(Path(xmlschema.__file__).parent.as_uri()):
            return uri
        base = folder.as_uri() + "/"
        name = bundle.find("", uri.removeprefix(base))
        return (folder / (name or "absent.xsd")).as_uri()

    schema = xmlschema.XMLSchema10(
        (folder / names[0]).as_uri(), allow="local", uri_mapper=locate, use_fallback=False
    )
    return _TableBuilder(schema).build()


class _TableBuilder:
    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._numbers: dict[int, int] = {}
        self._declarations: list[ElementSlots] = []
        self._waiting: list[tuple[XsdElement, ElementSlots]] = []
        self._checks: dict[int, SlotCheck | None] = {}
        self._kept: list[Any] = []
        """Objects whose ids are keys."""

    def build(self) -> SlotTypes:
        roots = {
            str(name): self._number_of(element)
            for name, element in self._schema.maps.elements.items()
            if not str(name).startswith(_XSD)
        }
        while self._waiting:
            element, slots = self._waiting.pop()
            self._fill(element, slots)
        return SlotTypes(roots, self._declarations)

    def _number_of(self, element: Any) -> int:
        declared = element if element.ref is None else element.ref
        number = self._numbers.get(id(declared))
        if number is None:
            if len(self._declarations) >= MAX_DECLARATIONS:
                raise ValueError("too many declarations of elements")
            number = self._numbers[id(declared)] = len(self._declarations)
            self._kept.append(declared)
            slots = ElementSlots(None, {}, {})
            self._declarations.append(slots)
            self._waiting.append((declared, slots))
        return number

    def _fill(self, element: Any, slots: ElementSlots) -> None:
        type_ = element.type
        if type_.is_simple():
            slots.text = None if element.fixed is not None else self._check_of(type_)
            return
        for name, attribute in type_.attributes.items():
            if name is None or attribute.fixed is not None or attribute.use == "prohibited":
                continue
            check = self._check_of(attribute.type)
            if check is not None:
                slots.attributes[str(name)] = check
        content = type_.content
        if not isinstance(content, XsdGroup):
            slots.text = None if element.fixed is not None else self._check_of(content)
            return
        if type_.mixed and element.fixed is None:
            slots.text = FREE
        self._fill_children(content, slots)

    def _fill_children(self, content: XsdGroup, slots: ElementSlots) -> None:
        particles: list[Any] = list(content.iter_elements())
        wildcards = [each for each in particles if isinstance(each, XsdAnyElement)]
        found: dict[str, set[int]] = {}
        for particle in particles:
            if isinstance(particle, XsdElement):
                self._add_child(particle, found, set())
        for name, numbers in found.items():
            namespace = name[1:].partition("}")[0] if name[0] == "{" else ""
            if len(numbers) == 1 and not any(
                each.is_namespace_allowed(namespace) or each.is_matching(name) for each in wildcards
            ):
                slots.children[name] = numbers.pop()

    def _add_child(self, element: Any, found: dict[str, set[int]], known: set[int]) -> None:
        """Add an element, and all that may be in its place."""
        if id(element) in known:
            return
        known.add(id(element))
        found.setdefault(str(element.name), set()).add(self._number_of(element))
        if element.ref is not None or element.is_global():
            for member in self._schema.maps.substitution_groups.get(element.name, ()):
                self._add_child(member, found, known)

    # ------------------------------------------------------------------ simple types

    def _check_of(self, type_: Any) -> SlotCheck | None:
        if id(type_) not in self._checks:
            self._kept.append(type_)
            try:
                self._checks[id(type_)] = _make_check(type_)
            except _NoCheck:
                self._checks[id(type_)] = None
        return self._checks[id(type_)]


def _make_check(type_: Any) -> SlotCheck:
    chain = []
    while isinstance(type_, XsdAtomicRestriction) and not isinstance(type_, XsdAtomicBuiltin):
        chain.append(type_)
        type_ = type_.base_type
    name = str(getattr(type_, "name", "")).removeprefix(_XSD)
    if not str(getattr(type_, "name", "")).startswith(_XSD):
        raise _NoCheck
    facets = _Facets()
    for each in chain:
        facets.add(each)
    if name in _ANY:
        if chain:
            raise _NoCheck
        return FREE
    if name in _TEXTS:
        return facets.check_of_text(name)
    if name in _LEXICAL:
        return facets.check_of_lexical(name)
    if name in _INTEGERS or name == "decimal" or name in _FLOATS:
        return facets.check_of_number(name)
    raise _NoCheck


class _Facets:
    """All facets of a type and its base types."""

    def __init__(self) -> None:
        self._patterns: list[tuple[str, ...]] = []
        self._values: frozenset[str] | None = None
        self._least_length, self._most_length = 0, _MAX_LENGTH + 1
        self._bounds: list[tuple[str, Decimal]] = []
        self._total, self._fraction = 0, _FRACTION
        self._collapses = False

    def add(self, type_: Any) -> None:
        """Raises `_NoCheck` for a facet without check."""
        for tag, facet in type_.facets.items():
            name = str(tag).removeprefix(_XSD) if tag is not None else ""
            if name == "pattern":
                self._add_patterns(facet)
            elif name == "enumeration":
                values = frozenset(str(each.attrib["value"]) for each in facet)
                if len(values) > _MAX_VALUES:
                    raise _NoCheck
                self._values = values if self._values is None else self._values & values
            elif name == "whiteSpace":
                self._collapses |= facet.elem is None or facet.elem.get("value") != "preserve"
            elif name in ("length", "minLength", "maxLength"):
                length = _integer_of(facet)
                if name != "maxLength":
                    self._least_length = max(self._least_length, length)
                if name != "minLength":
                    self._most_length = min(self._most_length, length)
            elif name in ("minInclusive", "minExclusive", "maxInclusive", "maxExclusive"):
                self._bounds.append((name, _number_of(facet)))
            elif name == "totalDigits":
                digits = _integer_of(facet)
                self._total = min(self._total or digits, digits)
            elif name == "fractionDigits":
                self._fraction = min(self._fraction, _integer_of(facet))
            else:
                raise _NoCheck

    def _add_patterns(self, facet: Any) -> None:
        translated = []
        for written in facet.regexps:
            try:
                translated.append(translate_pattern(written))
            except NotTranslatable:
                # The other patterns may accept a value.
                continue
        if not translated:
            raise _NoCheck
        self._patterns.append(tuple(translated))

    @property
    def _has_lengths(self) -> bool:
        return self._least_length > 0 or self._most_length <= _MAX_LENGTH

    def _values_of(self, *, collapsed: bool = True) -> tuple[str, ...] | None:
        if self._values is None:
            return None
        values = {" ".join(each.split()) if collapsed else each for each in self._values}
        return tuple(sorted(values))

    def _length_pattern(self) -> tuple[tuple[str, ...], ...]:
        if not self._has_lengths:
            return ()
        most = "" if self._most_length > _MAX_LENGTH else str(self._most_length)
        return ((f"[\t\n -~]{{{self._least_length},{most}}}+",),)

    def check_of_text(self, name: str) -> SlotCheck:
        if self._bounds or self._total or self._fraction != _FRACTION:
            raise _NoCheck
        patterns = (*self._patterns, *self._length_pattern())
        collapses = self._collapses or name != "string"
        if collapses and (patterns or self._values is not None):
            # White space would be normalised first.
            patterns = ((_COLLAPSED,), *patterns)
        return SlotCheck(patterns, self._values_of(collapsed=name == "token"))

    def check_of_lexical(self, name: str) -> SlotCheck:
        if self._bounds or self._total or self._fraction != _FRACTION:
            raise _NoCheck
        if self._has_lengths and name in ("boolean", "dateTime", "date", "time"):
            raise _NoCheck
        patterns = ((_LEXICAL[name],), *self._patterns, *self._length_pattern())
        return SlotCheck(patterns, self._values_of())

    def check_of_number(self, name: str) -> SlotCheck:
        if self._has_lengths:
            raise _NoCheck
        is_float, low, high = name in _FLOATS, None, None
        if name in _INTEGERS:
            lexical, step = _INTEGER, Decimal(1)
            least, most = _INTEGERS[name]
            bounds = [("minInclusive", Decimal(least))] if least is not None else []
            bounds += [("maxInclusive", Decimal(most))] if most is not None else []
        else:
            if is_float and (self._total or self._fraction != _FRACTION):
                raise _NoCheck
            fraction = rf"(?:\.[0-9]{{1,{self._fraction}}}+)?+" if self._fraction else ""
            lexical = rf"(?!-[0.]++\Z)-?+(?>0|[1-9][0-9]{{0,8}}+){fraction}"
            step, bounds = Decimal(10) ** -_FRACTION, []
        for kind, bound in [*bounds, *self._bounds]:
            shift = Decimal(0) if kind.endswith("Inclusive") else step
            if is_float and bound:
                # The nearest number of the type may be beyond the bound.
                shift += abs(bound) / 1_000_000
            if kind.startswith("min"):
                low = bound + shift if low is None else max(low, bound + shift)
            else:
                high = bound - shift if high is None else min(high, bound - shift)
        return SlotCheck(
            ((lexical,), *self._patterns),
            self._values_of(),
            None if low is None else f"{low:f}",
            None if high is None else f"{high:f}",
            self._total,
        )


def _integer_of(facet: Any) -> int:
    written = str(facet.elem.attrib["value"]).strip()
    if not written.isdecimal() or len(written) > 6 or int(written) > _MAX_LENGTH:
        raise _NoCheck
    return int(written)


def _number_of(facet: Any) -> Decimal:
    written = str(facet.elem.attrib["value"]).strip()
    whole, _, fraction = written.removeprefix("-").partition(".")
    if not whole.isdecimal() or not whole.isascii() or len(whole) > 24:
        raise _NoCheck
    if fraction and not (fraction.isdecimal() and fraction.isascii() and len(fraction) <= 9):
        raise _NoCheck
    return Decimal(written)
