"""The driver DTD of a derived event type, within the limits of a node."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

import attrs

from broker.dtd.assembly import AssemblyLimits, assemble
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.content_model import (
    MAX_MIXED,
    MAX_PAIRS_OF_DTD,
    UnusableModel,
    count_pairs,
)
from broker.dtd.derivation.expression import Expression, choice, name_of
from broker.dtd.derivation.prefix_table import PrefixTable
from broker.dtd.dtd import MAX_ATTRIBUTES, Dtd
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd

#: The envelope has fewer pairs of names in its own content models.
_PAIRS_OF_ENVELOPE: Final = 1_000
_WIDTH: Final = 100
_ANY: Final = "ANY"
_HEAD: Final = """\
<!ENTITY % Mspaces.content ", {content}">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
"""
_CONTROL = re.compile("[\t\n\r]")

Model = Callable[[PrefixTable], str]


def empty_model(_table: PrefixTable) -> str:
    return "EMPTY"


def any_model(_table: PrefixTable) -> str:
    return _ANY


def text_model(_table: PrefixTable) -> str:
    return "(#PCDATA)"


def mixed_model(names: Iterable[str]) -> Model:
    """Return a model of text between any of the elements, or `ANY` if they are too many."""
    kept = tuple(names)
    if len(kept) > MAX_MIXED:
        return any_model
    if not kept:
        return text_model
    return lambda table: f"(#PCDATA | {' | '.join(map(table.qualify, kept))})*"


def children_models(expressions: Iterable[Expression], names: Sequence[str]) -> tuple[Model, ...]:
    """Return models of elements only, then wider ones, for the limits of a node."""
    any_order = choice(map(name_of, names), "*")
    return (
        *(_elements_model(each) for each in (*expressions, any_order)),
        mixed_model(names),
        any_model,
    )


def _elements_model(expression: Expression) -> Model:
    group = expression if expression.parts else Expression(separator=",", parts=(expression,))
    return lambda table: group.write(table.qualify)


@attrs.frozen
class DerivedAttribute:
    name: str
    is_required: bool = False
    default: str | None = None
    is_fixed: bool = False


@attrs.frozen
class DerivedElement:
    name: str
    models: tuple[Model, ...]
    """The narrowest first."""
    attributes: tuple[DerivedAttribute, ...] = ()
    bindings: Mapping[str, str | None] = attrs.field(factory=dict)
    """Prefixes that it may declare, with their namespaces; None: any."""
    note: str = ""


@attrs.frozen
class Derivation:
    """Content of a derived DTD; names are in Clark's notation."""

    reference: DtdReference
    roots: tuple[str, ...]
    elements: tuple[DerivedElement, ...]
    table: PrefixTable
    head: tuple[str, ...]
    """Paragraphs of the first comment."""
    common_attributes: str = ""
    """Declarations of attributes of all elements."""


@attrs.frozen
class WrittenDtd:
    text: str
    widened: tuple[str, ...]
    """Elements with a wider model than the narrowest, as the DTD names them."""


def write_driver(derivation: Derivation, *, keep_models: bool = False) -> WrittenDtd:
    """Return the DTD. If it is too long, it has no comments, then `ANY` for the longest models.

    `keep_models` forbids the latter. Raises `BadDtd` if no DTD within the limits of a node can be
    written.
    """
    _check_attributes(derivation)
    models, widened = _fit_models(derivation)
    text = _write(derivation, models, with_notes=True)
    if _excess(text) > 0:
        text = _write(derivation, models, with_notes=False)
    longest = sorted(models, key=lambda name: len(models[name]))
    while (excess := _excess(text)) > 0:
        if keep_models or not longest:
            raise BadDtd(f"the DTD would be longer than {AssemblyLimits().max_text:,} bytes")
        while excess > 0 and longest:
            name = longest.pop()
            excess -= len(models[name]) - len(_ANY)
            models[name] = _ANY
            widened.add(name)
        text = _write(derivation, models, with_notes=False)
    Dtd.load(derivation.reference, text.encode(), _resolve)
    return WrittenDtd(text, tuple(derivation.table.qualify(n) for n in models if n in widened))


def _excess(text: str) -> int:
    """Return the bytes beyond a node's limit, also with all entities expanded, as nodes send it."""
    unlimited = AssemblyLimits(max_text=1 << 30, max_expanded=1 << 30, max_expansions=1 << 30)
    expanded = assemble(text.encode(), _resolve, unlimited).text
    return max(len(text.encode()), len(expanded)) - AssemblyLimits().max_text


def _resolve(public_id: str | None, system_id: str) -> bytes | None:
    return _catalogue().read(public_id, system_id)


@functools.cache
def _catalogue() -> Catalogue:
    return Catalogue.load(shipped_folder())


def _check_attributes(derivation: Derivation) -> None:
    common = derivation.common_attributes.count("#")
    for element in derivation.elements:
        if len(element.attributes) + len(element.bindings) + common > MAX_ATTRIBUTES:
            raise BadDtd(
                f"element {derivation.table.qualify(element.name)!r} needs more than "
                f"{MAX_ATTRIBUTES} attributes: no DTD of a node may have as many"
            )


def _fit_models(derivation: Derivation) -> tuple[dict[str, str], set[str]]:
    """Return the model of each element, and the names of those that were widened."""
    table = derivation.table
    rungs: dict[str, int] = {}
    pairs: dict[str, int] = {}

    def widen(element: DerivedElement, rung: int) -> None:
        for at in range(rung, len(element.models)):
            try:
                pairs[element.name] = count_pairs(element.models[at](table).replace(" ", ""))
            except UnusableModel:
                continue
            rungs[element.name] = at
            return

    for element in derivation.elements:
        widen(element, 0)
    by_name = {element.name: element for element in derivation.elements}
    total = sum(pairs.values())
    while total > MAX_PAIRS_OF_DTD - _PAIRS_OF_ENVELOPE:
        largest = max(pairs, key=lambda name: pairs[name])
        total -= pairs[largest]
        widen(by_name[largest], rungs[largest] + 1)
        total += pairs[largest]
    models = {name: by_name[name].models[rung](table) for name, rung in rungs.items()}
    return models, {name for name, rung in rungs.items() if rung}


def _write(derivation: Derivation, models: Mapping[str, str], *, with_notes: bool) -> str:
    table = derivation.table
    roots = " | ".join(map(table.qualify, derivation.roots))
    reference = derivation.reference
    identifiers = f'PUBLIC "{reference.public_id}" "{reference.system_id}"'
    parts = [
        _comment("\n".join((*derivation.head, identifiers))),
        _HEAD.format(content=f"({roots})" if len(derivation.roots) > 1 else roots),
    ]
    if derivation.common_attributes:
        parts.append(f"<!ENTITY % Common.attributes '{derivation.common_attributes}'>\n")
    for element in derivation.elements:
        name = table.qualify(element.name)
        parts.append("\n")
        if with_notes and element.note:
            parts.append(_comment(f"{name}: {element.note}"))
        parts.append(_declaration(f"<!ELEMENT {name} {models[element.name]}>"))
        lines = [_write_attribute(each, table) for each in element.attributes]
        lines += [_write_binding(*each) for each in sorted(element.bindings.items())]
        if derivation.common_attributes:
            lines.append("%Common.attributes;")
        if lines:
            parts.append("\n          ".join([f"<!ATTLIST {name}", *lines]) + ">\n")
    return "".join(parts)


def _write_attribute(attribute: DerivedAttribute, table: PrefixTable) -> str:
    name = table.qualify_attribute(attribute.name)
    if attribute.default is not None:
        fixed = "#FIXED " if attribute.is_fixed else ""
        return f"{name} CDATA {fixed}{_literal(attribute.default)}"
    return f"{name} CDATA {'#REQUIRED' if attribute.is_required else '#IMPLIED'}"


def _write_binding(prefix: str, uri: str | None) -> str:
    name = f"xmlns:{prefix}" if prefix else "xmlns"
    return f"{name} CDATA {'#IMPLIED' if uri is None else f'#FIXED {_literal(uri)}'}"


def _literal(text: str) -> str:
    escaped = escape(text, {'"': "&quot;", "'": "&#39;"})
    return f'"{_CONTROL.sub(lambda found: f"&#{ord(found[0])};", escaped)}"'


def _comment(text: str) -> str:
    # A comment can not contain two hyphens, nor end with one.
    lines = (re.sub(r"-(?=-)", "- ", line) for line in text.split("\n"))
    wrapped = (
        textwrap.fill(
            line, _WIDTH - 5, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        for line in lines
    )
    return f"<!-- {textwrap.indent(chr(10).join(wrapped), '     ').strip()} -->\n"


def _declaration(text: str) -> str:
    return (
        textwrap.fill(
            text,
            _WIDTH,
            subsequent_indent="          ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )
