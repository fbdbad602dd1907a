"""One version of one event type: validates events and supplies default attributes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final, cast

from lxml import etree
from zope.interface import implementer

from broker.dtd.assembly import AssemblyLimits, Resolver, assemble
from broker.dtd.content import parse_contents
from broker.dtd.content_model import MAX_PAIRS_OF_DTD, UnusableModel, count_pairs
from broker.dtd.declaration import DeclaredElement, list_elements
from broker.dtd.declared_names import ENVELOPE, DeclaredNames, written_name
from broker.dtd.defaults import DefaultAttributes
from broker.dtd.interfaces import IDtd
from broker.dtd.prefix_hint import PrefixHint
from broker.dtd.reference import DtdReference
from broker.dtd.renamed_document import RenamedDocuments
from broker.dtd.tokenised import TokenisedAttributes
from broker.dtd.xsd.payload_schema import PayloadSchema
from broker.errors import BadDtd, NotValid
from broker.event.envelope import ENVELOPE_PREFIX

ENVELOPE_NAMESPACE: Final = "urn:xmlbroker:mspaces"
ENVELOPE_TAG: Final = f"{{{ENVELOPE_NAMESPACE}}}Event"

#: Attributes of one element: libxml2 looks at each when it validates one.
MAX_ATTRIBUTES: Final = 256
_MAX_MESSAGE: Final = 400


@implementer(IDtd)
class Dtd:
    """An immutable DTD (Mspaces M12, M17), made by `Dtd.load`."""

    def __init__(
        self,
        reference: DtdReference,
        text: bytes,
        parsed: etree.DTD,
        elements: tuple[DeclaredElement, ...],
        schema: PayloadSchema | None = None,
    ) -> None:
        self.reference = reference
        self.text = text
        self.schema = schema
        self.content_hash = hashlib.sha256(text).hexdigest()
        self.elements = MappingProxyType({each.qualified_name: each for each in elements})
        self.names = frozenset(
            name
            for element in elements
            for name in (
                element.qualified_name,
                *(attribute.qualified_name for attribute in element.attributes),
            )
        )
        self._parsed = parsed
        self.declared_names = DeclaredNames(self.elements)
        self._renamed = RenamedDocuments(self.declared_names, self.elements)
        self._defaults = DefaultAttributes(elements, self.declared_names)
        self._tokenised = TokenisedAttributes(elements, self.declared_names)

    @cached_property
    def _parsed_for_renamed(self) -> etree.DTD:
        return self._renamed.compile_dtd(self.text)

    @classmethod
    def load(
        cls,
        reference: DtdReference,
        text: bytes,
        resolve: Resolver,
        limits: AssemblyLimits | None = None,
    ) -> Dtd:
        """`resolve` returns modules.

        Raises `BadDtd` for a text that is malformed, unresolvable, too expensive, not
        deterministic, or without the envelope, and for a schema that can not be used.
        """
        assembled = assemble(text, resolve, limits)
        _check_models(assembled.text, assembled.element_locations)
        try:
            parsed = etree.DTD(BytesIO(assembled.text))
        except etree.DTDParseError as error:
            raise BadDtd(_describe_parse_error(error, assembled.text)) from error
        elements = list_elements(parsed, parse_contents(assembled.text.decode()))
        _check_elements(elements, assembled.element_locations)
        packed = assembled.schema
        schema = None if packed is None else PayloadSchema(reference, packed)
        return cls(reference, assembled.text, parsed, elements, schema)

    @cached_property
    def _prefix_hint(self) -> PrefixHint:
        return PrefixHint(self.text, self.elements.values())

    def check(self, root: etree._Element) -> NotValid | None:
        """Return the error of an invalid event.

        `root` must be the envelope. The tree is not changed.
        """
        if root.tag != ENVELOPE_TAG:
            return NotValid(f"the root element is {root.tag!r}, not {ENVELOPE}", line=_line(root))
        if self.is_valid_as_written(root):
            return self._check_schema(root)
        parsed, validated = self._parsed, root
        if self.declared_names.namespaces:
            copied = self._renamed.copy(root)
            if self._parsed_for_renamed.validate(copied):
                return self._check_schema(root)
            if self._renamed.is_renamed(root):
                parsed, validated = self._parsed_for_renamed, copied
        return self._describe(root, parsed, validated)

    def is_valid_as_written(self, root: etree._Element) -> bool:
        """Return True if the DTD permits the event with all names as they are written.

        The schema is not asked.
        """
        is_valid = not self._renamed.is_renamed(root) and bool(self._parsed.validate(root))
        if not is_valid:
            self._clear_errors(self._parsed)
        return is_valid

    def _check_schema(self, root: etree._Element) -> NotValid | None:
        return None if self.schema is None else self.schema.check(root)

    def _describe(
        self, root: etree._Element, parsed: etree.DTD, validated: etree._Element
    ) -> NotValid:
        """Return the error of the event `root`, for which `validated` is not valid by `parsed`."""
        parsed.validate(validated)
        # lxml copies the whole log.
        first = next(iter(cast(Any, parsed).error_log), None)
        self._clear_errors(parsed)
        if root.prefix != ENVELOPE_PREFIX:
            return NotValid(
                f"the envelope has the prefix {root.prefix!r}: DTDs compare prefixes as "
                f"written, so it must be {ENVELOPE_PREFIX!r}",
                line=_line(root),
            )
        if (hint := self._prefix_hint.find(root)) is not None:
            return NotValid(f"{hint} (DTD {self.reference})", line=_line(root))
        undeclared = self._renamed.find_undeclared(root) if validated is not root else None
        if undeclared is not None:
            name = written_name(str(undeclared.tag), undeclared.prefix)
            namespace = str(etree.QName(undeclared).namespace or "")
            text = (
                f"No declaration for element {name[:_MAX_MESSAGE]} in the namespace "
                f"{namespace[:_MAX_MESSAGE]!r} (DTD {self.reference})"
            )
            return NotValid(text, line=_line(undeclared))
        message = " ".join(first.message.split()) if first is not None else "it is not valid"
        line = max(first.line, 0) if first is not None else 0
        return NotValid(f"{message[:_MAX_MESSAGE]} (DTD {self.reference})", line=line)

    def _clear_errors(self, parsed: etree.DTD) -> None:
        # lxml keeps the entries until the next event; one event can make 100,000.
        cast(Any, parsed)._clear_error_log()

    @property
    def tokenised_attributes(self) -> Mapping[str, frozenset[str]]:
        return self._tokenised.by_element

    def normalise_attributes(self, root: etree._Element) -> None:
        """Normalise attributes that are not CDATA, before `check` (XML 1.0, section 3.3.3)."""
        self._tokenised.normalise(root)

    def apply_defaults(self, root: etree._Element) -> None:
        """Add missing attributes within `root`, envelope or payload (T21)."""
        self._defaults.apply(root)

    def __repr__(self) -> str:
        return f"<Dtd {self.reference} {self.content_hash[:12]}>"


def _line(root: etree._Element) -> int:
    line = root.sourceline
    return line if isinstance(line, int) else 0


def _check_models(text: bytes, places: dict[str, tuple[int, str]]) -> None:
    pairs = 0
    for declaration in text.decode().split("\n"):
        keyword, _, rest = declaration.partition(" ")
        if keyword == "<!ELEMENT":
            name, _, model = rest[:-1].partition(" ")
            try:
                pairs += count_pairs(model)
                if pairs > MAX_PAIRS_OF_DTD:
                    raise UnusableModel("the content models together are too large")
            except UnusableModel as problem:
                raise _located_error(
                    name, places, f"content model of {name!r}: {problem}"
                ) from problem


def _check_elements(
    elements: tuple[DeclaredElement, ...], places: dict[str, tuple[int, str]]
) -> None:
    for element in elements:
        name = element.qualified_name
        if len(element.attributes) > MAX_ATTRIBUTES:
            raise _located_error(
                name, places, f"element {name!r} has more than {MAX_ATTRIBUTES} attributes"
            )
        for attribute in element.attributes:
            if attribute.values and attribute.default not in (None, *attribute.values):
                raise _located_error(
                    name,
                    places,
                    f"the default {attribute.default!r} of attribute "
                    f"{attribute.qualified_name!r} of {name!r} is not one of its values",
                )
    if ENVELOPE not in places:
        raise BadDtd(
            f"the DTD does not declare {ENVELOPE}: it does not include the envelope; 'New types' "
            "in docs/dtds.md shows the lines, and `xmlbroker dtd infer` writes them"
        )


def _located_error(name: str, places: dict[str, tuple[int, str]], problem: str) -> BadDtd:
    line, label = places.get(name, (0, ""))
    return BadDtd(problem + (f" (in {label})" if label else ""), line=line)


def _describe_parse_error(error: etree.DTDParseError, text: bytes) -> str:
    """Return libxml2's first error and its declaration, in place of the line."""
    first = next(iter(error.error_log), None)
    if first is None:
        return str(error)
    lines = text.decode().split("\n")
    declaration = lines[first.line - 1] if 0 < first.line <= len(lines) else ""
    return f"{first.message}: {declaration[:120]}"
