"""Why a query can never match: the part that can not be, in words (X10)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

import attrs

from broker.dtd.reference import DtdReference
from broker.matching.query.tree import Axis, KindTest, NodeTest, Step
from broker.matching.schema.document import Document
from broker.matching.schema.places import NodeKind, Place

#: Names or values that one message lists.
_LISTED = 4
#: Characters of a name in a message.
_NAME = 80
_INSIDE = (Axis.ATTRIBUTE, Axis.CHILD)
_WORDS = {
    Axis.ATTRIBUTE: "on",
    Axis.CHILD: "in",
    Axis.DESCENDANT: "below",
    Axis.DESCENDANT_OR_SELF: "below",
}


@attrs.frozen
class Blame:
    """A part of a query that no valid document fulfils. The words are made when they are wanted."""

    position: int
    #: Offset in the query's text.

    words: Callable[[], str]
    #: What follows "the DTD flight 1.1 ".


@attrs.frozen
class Missing:
    """A step that finds nothing from these places, as a `Blame`."""

    step: Step
    axis: Axis
    #: `//a` is one step along `descendant`.

    starts: frozenset[Place]
    document: Document

    @property
    def position(self) -> int:
        """Offset in the query's text."""
        return self.step.position

    def words(self) -> str:
        """What follows "the DTD flight 1.1 "."""
        return _missing(self.step.test, self.axis, self.starts, self.document)


Why: TypeAlias = Blame | Missing


@attrs.frozen
class Impossible:
    """No valid event of this type and version matches the query."""

    reference: DtdReference
    blame: Why

    @property
    def position(self) -> int:
        """Offset in the query's text of the part that can not be, from 0."""
        return self.blame.position

    @property
    def column(self) -> int:
        """As errors count: from 1."""
        return self.position + 1

    @property
    def is_of_type(self) -> bool:
        """Whether the query names what the documents of this type do not begin with: another type
        may be meant."""
        blame = self.blame
        return isinstance(blame, Missing) and all(
            place.kind is NodeKind.ROOT for place in blame.starts
        )

    @property
    def reason(self) -> str:
        """Without the type: `has no attribute 'statsu' on flightleg; there is 'status'`.

        Made anew each time that it is asked for, at a cost of up to a millisecond.
        """
        return self.blame.words()

    def __str__(self) -> str:
        what, semicolon, nearest = self.reason.partition("; ")
        return f"the DTD {self.reference} {what} (column {self.column}){semicolon}{nearest}"


def deepest(one: Why | None, other: Why | None) -> Why | None:
    """The one that stands further behind in the query: as far as it can be fulfilled."""
    if one is None or other is None:
        return one or other
    if isinstance(one, Missing) and isinstance(other, Missing) and one.step is other.step:
        return Missing(one.step, one.axis, one.starts | other.starts, one.document)
    return other if other.position > one.position else one


def listed(values: Collection[str], *, quoted: bool = True, last: str = "or") -> str:
    """`'a', 'b' or 'c'`; at most four, and how many more there are."""
    shown = [repr(value) if quoted else value for value in sorted(values)[:_LISTED]]
    more = len(values) - len(shown)
    if more:
        shown.append(f"{more} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"


def nearest(name: str, names: Iterable[str]) -> str:
    """The name that was probably meant, or an empty text."""
    close = difflib.get_close_matches(name, sorted(set(names)), 1)
    return close[0] if close else ""


def _missing(test: NodeTest, axis: Axis, starts: Collection[Place], document: Document) -> str:
    """Why a step finds nothing from these places."""
    name = _name(test)
    where = _where(starts)
    if isinstance(test, KindTest) or test.local is None:
        return f"has nothing that is {axis.value}::{name} {where}"
    is_attribute = axis is Axis.ATTRIBUTE
    kind = NodeKind.ATTRIBUTE if is_attribute else NodeKind.ELEMENT
    near = [p for start in starts for p in _inside(start, kind)] if axis in _INSIDE else []
    everywhere = [p for outer in (document.root, *document.elements) for p in _inside(outer, kind)]
    hint = _hint(test.local, near, everywhere)
    at_root = all(place.kind is NodeKind.ROOT for place in starts)
    if axis is Axis.CHILD and at_root:
        return f"has no root element {name!r}{hint}"
    if axis in _WORDS:
        word = "" if at_root else " " + where.replace("from", _WORDS[axis])
        return f"has no {kind.value} {name!r}{word}{hint}"
    return f"has no {name!r} on the axis {axis.value} {where}{hint}"


def _inside(place: Place, kind: NodeKind) -> list[Place]:
    return [inner for inner in (*place.attributes, *place.contents) if inner.kind is kind]


def _hint(local: str, near: Collection[Place], everywhere: Collection[Place]) -> str:
    """What may have been meant: of these places, else of the whole document."""
    for place in near:
        if place.local == local:
            return f"; there is {place.qualified!r} {_in_namespace(place)}".rstrip()
    close = nearest(local, (place.local for place in near))
    if close:
        return f"; there is {next(p.qualified for p in near if p.local == close)!r}"
    elsewhere = {place.label for place in everywhere if place.local == local}
    if elsewhere:
        return f"; there is {listed(elsewhere, quoted=False)}"
    close = nearest(local, (place.local for place in everywhere))
    return f"; there is {close!r}" if close else ""


def _in_namespace(place: Place) -> str:
    if not place.namespaces:
        return ""
    uris = {uri for uri in place.namespaces if uri}
    return f"in the namespace {listed(uris, quoted=False)}" if uris else "in no namespace"


def _where(starts: Collection[Place]) -> str:
    names = {place.qualified or "the document" for place in starts}
    if len(names) > _LISTED:
        return "from any of the elements before it"
    return f"from {listed(names, quoted=False)}"


def _name(test: NodeTest) -> str:
    if isinstance(test, KindTest):
        return f"{test.kind}()"
    prefix = f"{test.prefix}:" if test.prefix else ""
    return (prefix + (test.local or "*"))[:_NAME]
