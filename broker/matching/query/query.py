"""Query of a subscription: parsed, checked and limited once."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from typing import Final

import attrs
from lxml import etree

from broker.errors import BadQuery, QueryTooExpensive
from broker.event.envelope import ENVELOPE_PREFIX, NAMESPACE
from broker.matching.query.cost import estimate_cost
from broker.matching.query.cursor import ParseInfo
from broker.matching.query.lexer import NAME, bad_query_at
from broker.matching.query.limits import QueryLimits
from broker.matching.query.namespaces import DEFAULT, PREDEFINED_PREFIXES, unused_prefix
from broker.matching.query.parser import parse_expression
from broker.matching.query.tree import Expression, FunctionCall

#: Characters of all prefixes and URIs of a query.
MAX_NAMESPACES: Final = 16 * 1024
_PREFIX = re.compile(NAME)
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Prefix of the default namespace in the rewritten text, if the query binds no such one.
_DEFAULT_PREFIX: Final = "d"
_FORBIDDEN_PREFIXES = frozenset({"xml", "xmlns"})


@attrs.frozen
class Query:
    """An XPath 1.0 expression; an event matches if its boolean value is true (F12).

    `namespaces` holds the used prefixes, sorted, without `Mspaces`. `compilable` is the text for
    lxml. `uses_payload` and `uses_envelope` count no variables. Create queries with `parse_query`
    only.

    With a default namespace `text` has a prefix before each element name that `written`, the text
    of its author, has without one. So nothing else distinguishes such a query.
    """

    text: str
    namespaces: tuple[tuple[str, str], ...]
    expression: Expression = attrs.field(eq=False, repr=False)
    compilable: str = attrs.field(eq=False, repr=False)
    estimated_cost: int = attrs.field(eq=False)
    uses_payload: bool = attrs.field(eq=False)
    uses_envelope: bool = attrs.field(eq=False)
    variables: frozenset[str] = attrs.field(eq=False)
    uses_extension_functions: bool = attrs.field(eq=False)
    written: str = attrs.field(eq=False, repr=False)
    default_prefix: str | None = attrs.field(default=None, eq=False, repr=False)
    inserted: tuple[int, ...] = attrs.field(default=(), eq=False, repr=False)
    """Offsets of the inserted characters in `text`."""

    def written_column(self, position: int) -> int:
        """Return the column in `written`, from 1, of an offset in `text`."""
        return position - bisect.bisect_left(self.inserted, position) + 1

    @property
    def is_true(self) -> bool:
        """True for the query `true()`, which matches every event of its streams."""
        return isinstance(self.expression, FunctionCall) and self.expression.name == "true"


def parse_query(
    text: str,
    namespaces: Mapping[str, str] | None = None,
    limits: QueryLimits = QueryLimits(),
) -> Query:
    """Parse `text`, with `namespaces` from prefix to URI.

    The prefix "" binds element names without prefix, as the default element namespace of XPath 2.0:
    neither attributes nor `*`.

    Raises `BadQuery` with the position: line 1, columns from 1; `QueryTooExpensive` beyond `limits`
    (T11, F13).
    """
    if len(text) > limits.max_length:
        raise QueryTooExpensive(
            f"the query has {len(text)} characters, at most {limits.max_length} are allowed",
            line=1,
            column=limits.max_length + 1,
        )
    if (character := _NOT_XML.search(text)) is not None:
        raise bad_query_at(
            f"the character {character.group()!a} is not allowed in XML", character.start()
        )
    bindings = dict(namespaces or {})
    default = bindings.pop(DEFAULT, None)
    query, info = _parse(text, bindings, limits)
    if default is None:
        return query
    if not default or _NOT_XML.search(default):
        raise BadQuery("the default namespace needs a namespace URI")
    prefix = unused_prefix(_DEFAULT_PREFIX, {*bindings, *PREDEFINED_PREFIXES})
    bindings[prefix] = default
    _check_bindings(bindings)
    if not info.unprefixed:
        return query
    rewritten, inserted = _insert_prefix(text, f"{prefix}:", info.unprefixed)
    if len(rewritten) > limits.max_length:
        raise QueryTooExpensive(
            f"the query has {len(rewritten)} characters with a prefix for each name in the default "
            f"namespace, at most {limits.max_length} are allowed"
        )
    query, _ = _parse(rewritten, bindings, limits, prefix)
    return attrs.evolve(query, written=text, default_prefix=prefix, inserted=inserted)


def _parse(
    text: str, namespaces: Mapping[str, str], limits: QueryLimits, default_prefix: str | None = None
) -> tuple[Query, ParseInfo]:
    bindings = _check_bindings(namespaces)
    expression, info = parse_expression(text, limits, default_prefix)
    used = _select_used_bindings(info, bindings)
    compilable = _rewrite_for_lxml(text, info)
    _check_with_libxml2(compilable, text)
    query = Query(
        text=text,
        namespaces=tuple(sorted(used.items())),
        expression=expression,
        compilable=compilable,
        estimated_cost=_check_cost(text, expression, limits),
        uses_payload=info.reads_outer_context or bool(info.document_replacements),
        uses_envelope=bool(info.envelope_replacements),
        variables=frozenset(info.variables),
        uses_extension_functions=bool(info.call_replacements),
        written=text,
    )
    return query, info


def _insert_prefix(text: str, prefix: str, offsets: list[int]) -> tuple[str, tuple[int, ...]]:
    """Return the text with a prefix at each offset, and the offsets of the added characters."""
    parts = []
    inserted: list[int] = []
    done = 0
    for offset in sorted(offsets):
        parts += [text[done:offset], prefix]
        inserted += range(offset + len(inserted), offset + len(inserted) + len(prefix))
        done = offset
    return "".join([*parts, text[done:]]), tuple(inserted)


def _check_bindings(namespaces: Mapping[str, str]) -> dict[str, str]:
    # A subscription keeps them all.
    if sum(len(prefix) + len(uri) for prefix, uri in namespaces.items()) > MAX_NAMESPACES:
        raise BadQuery(f"the namespaces have more than {MAX_NAMESPACES} characters")
    for prefix, uri in namespaces.items():
        if prefix == ENVELOPE_PREFIX and uri != NAMESPACE:
            raise BadQuery(f"the prefix {prefix!r} is bound to the envelope's namespace already")
        if prefix in _FORBIDDEN_PREFIXES or not _PREFIX.fullmatch(prefix):
            raise BadQuery(f"{prefix[:40]!r} can not be bound as a namespace prefix")
        if not uri or _NOT_XML.search(uri):
            raise BadQuery(f"the prefix {prefix[:40]!r} needs a namespace URI")
    return {**namespaces, **PREDEFINED_PREFIXES}


def _select_used_bindings(info: ParseInfo, bindings: dict[str, str]) -> dict[str, str]:
    for prefix, position in info.prefixes.items():
        if prefix not in bindings:
            raise bad_query_at(
                f"the prefix {prefix[:40]!r} is not bound: bind it in the subscription", position
            )
    return {p: bindings[p] for p in info.prefixes if p not in PREDEFINED_PREFIXES}


def _rewrite_for_lxml(text: str, info: ParseInfo) -> str:
    """Return the text for lxml, which evaluates it on the payload; see `ParseInfo`.

    With a path into the envelope, every absolute path starts at a variable, since libxml2 resolves
    `/` in a predicate by the context node.
    """
    replacements = list(info.call_replacements)
    if info.envelope_replacements:
        replacements += (*info.envelope_replacements, *info.document_replacements)
    if not replacements:
        return text
    parts = []
    done = 0
    for replacement in sorted(replacements, key=lambda r: r.start):
        parts += [text[done : replacement.start], replacement.text]
        done = replacement.end
    return "".join([*parts, text[done:]])


def _check_with_libxml2(compilable: str, text: str) -> None:
    """Reject names beyond ASCII that libxml2 does not accept; all else the parser has checked."""
    try:
        etree.XPath(compilable, regexp=False)
    except etree.XPathSyntaxError as error:
        beyond_ascii = re.search("[^\x00-\x7f]", text)
        if beyond_ascii is None:
            raise bad_query_at(f"libxml2 does not accept this expression: {error}", 0) from None
        raise bad_query_at(
            f"libxml2 does not accept this expression: maybe {beyond_ascii.group()!r} can not "
            "stand in a name",
            beyond_ascii.start(),
        ) from None


def _check_cost(text: str, expression: Expression, limits: QueryLimits) -> int:
    result = estimate_cost(expression)
    if result.cost <= limits.max_cost:
        return int(result.cost)
    if result.costliest_step is None:
        raise QueryTooExpensive(_cost_message(result.cost, limits), line=1, column=1)
    step = result.costliest_step
    raise QueryTooExpensive(
        f"{_cost_message(result.cost, limits)}; "
        f"its most expensive step is {text[step.position : step.end][:60]!r}",
        line=1,
        column=step.position + 1,
    )


def _cost_message(cost: float, limits: QueryLimits) -> str:
    return (
        f"the query would visit about {cost:.3g} nodes of a document of a thousand, "
        f"at most {limits.max_cost} are allowed"
    )
