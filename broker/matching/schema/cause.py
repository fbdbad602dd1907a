"""Causes of unsatisfiable queries: the part that can not be true, in words (X10)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

import attrs

from broker.dtd.reference import DtdReference
from broker.matching.query.query import Query
from broker.matching.query.tree import Axis, KindTest, NodeTest, Step
from broker.matching.schema.document_graph import DocumentGraph
from broker.matching.schema.schema_node import NodeKind, SchemaNode

#: Names or values in one message.
_MAX_LISTED = 4
#: Characters of a name in a message.
_MAX_NAME = 80
_INSIDE = (Axis.ATTRIBUTE, Axis.CHILD)
_WORDS = {
    Axis.ATTRIBUTE: "on",
    Axis.CHILD: "in",
    Axis.DESCENDANT: "below",
    Axis.DESCENDANT_OR_SELF: "below",
}


@attrs.frozen
class FailedPart:
    """A part of a query that is true of no valid document."""

    position: int
    #: Offset in the query's text.

    describe: Callable[[], str]
    #: Returns the text that follows "the DTD flight 1.1 ". Called only when it is needed.


@attrs.frozen
class EmptyStep:
    """A step that finds nothing from its start nodes. It has the members of `FailedPart`."""

    step: Step
    axis: Axis
    #: `//a` is one step along `descendant`.

    starts: frozenset[SchemaNode]
    document: DocumentGraph

    @property
    def position(self) -> int:
        return self.step.position

    def describe(self) -> str:
        return _describe_empty_step(self.step.test, self.axis, self.starts, self.document)


Cause: TypeAlias = FailedPart | EmptyStep


@attrs.frozen
class Unsatisfiable:
    reference: DtdReference
    cause: Cause
    query: Query

    @property
    def position(self) -> int:
        """Offset of the failing part in the query's text, from 0."""
        return self.cause.position

    @property
    def column(self) -> int:
        """Position of the failing part, from 1 as in errors."""
        return self.query.written_column(self.position)

    @property
    def is_root_mismatch(self) -> bool:
        """True if only the root element differs, so the query may be about another type."""
        cause = self.cause
        return isinstance(cause, EmptyStep) and all(
            node.kind is NodeKind.ROOT for node in cause.starts
        )

    @property
    def reason(self) -> str:
        """The cause without the type: `has no attribute 'statsu' on flightleg; ...`."""
        return self.cause.describe()

    def __str__(self) -> str:
        failure, separator, suggestion = self.reason.partition("; ")
        return f"the DTD {self.reference} {failure} (column {self.column}){separator}{suggestion}"


def deeper_cause(one: Cause | None, other: Cause | None) -> Cause | None:
    if one is None or other is None:
        return one or other
    if isinstance(one, EmptyStep) and isinstance(other, EmptyStep) and one.step is other.step:
        return EmptyStep(one.step, one.axis, one.starts | other.starts, one.document)
    return other if other.position > one.position else one


def format_list(values: Collection[str], *, quoted: bool = True, last: str = "or") -> str:
    """Return `'a', 'b' or 'c'`: at most four values and the number of others."""
    shown = [repr(value) if quoted else value for value in sorted(values)[:_MAX_LISTED]]
    more = len(values) - len(shown)
    if more:
        shown.append(f"{more} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"


def closest_name(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(set(names)), 1)
    return close[0] if close else ""


def _describe_empty_step(
    test: NodeTest, axis: Axis, starts: Collection[SchemaNode], document: DocumentGraph
) -> str:
    name = _format_test(test)
    where = _describe_starts(starts)
    if isinstance(test, KindTest) or test.local is None:
        return f"has nothing that is {axis.value}::{name} {where}"
    is_attribute = axis is Axis.ATTRIBUTE
    kind = NodeKind.ATTRIBUTE if is_attribute else NodeKind.ELEMENT
    near = [p for start in starts for p in _inside(start, kind)] if axis in _INSIDE else []
    everywhere = [p for outer in (document.root, *document.elements) for p in _inside(outer, kind)]
    hint = _suggest(test.local, near, everywhere)
    at_root = all(node.kind is NodeKind.ROOT for node in starts)
    if axis is Axis.CHILD and at_root:
        return f"has no root element {name!r}{hint}"
    if axis in _WORDS:
        word = "" if at_root else " " + where.replace("from", _WORDS[axis])
        return f"has no {kind.value} {name!r}{word}{hint}"
    return f"has no {name!r} on the axis {axis.value} {where}{hint}"


def _inside(node: SchemaNode, kind: NodeKind) -> list[SchemaNode]:
    return [inner for inner in (*node.attributes, *node.children) if inner.kind is kind]


def _suggest(local: str, near: Collection[SchemaNode], everywhere: Collection[SchemaNode]) -> str:
    for node in near:
        if node.local == local:
            return f"; there is {node.qualified!r} {_in_namespace(node)}".rstrip()
    close = closest_name(local, (node.local for node in near))
    if close:
        return f"; there is {next(p.qualified for p in near if p.local == close)!r}"
    elsewhere = {node.label for node in everywhere if node.local == local}
    if elsewhere:
        return f"; there is {format_list(elsewhere, quoted=False)}"
    close = closest_name(local, (node.local for node in everywhere))
    return f"; there is {close!r}" if close else ""


def _in_namespace(node: SchemaNode) -> str:
    if not node.namespaces:
        return ""
    uris = {uri for uri in node.namespaces if uri}
    return f"in the namespace {format_list(uris, quoted=False)}" if uris else "in no namespace"


def _describe_starts(starts: Collection[SchemaNode]) -> str:
    names = {node.qualified or "the document" for node in starts}
    if len(names) > _MAX_LISTED:
        return "from any of the elements before it"
    return f"from {format_list(names, quoted=False)}"


def _format_test(test: NodeTest) -> str:
    if isinstance(test, KindTest):
        return f"{test.kind}()"
    return test.written[:_MAX_NAME]
