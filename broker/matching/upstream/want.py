"""A query on the streams of a pattern: what is wanted, and what is sent upstream."""

from __future__ import annotations

import attrs

from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.matching.upstream.bounds import Bounds, needed_bounds, offered_bounds, reaches
from broker.matching.upstream.feature import (
    Feature,
    may_follow,
    needed,
    needed_atoms,
    needed_of,
    offered,
    offered_atoms,
    offered_of,
)
from broker.matching.upstream.formula import Atom, Formula
from broker.matching.upstream.implication import implies
from broker.matching.upstream.normal import form_of


@attrs.frozen(slots=True, cache_hash=True)
class Want:
    """Events of the streams that match the query."""

    pattern: StreamPattern
    query: Query

    @property
    def rank(self) -> tuple[str, str, tuple[tuple[str, str], ...]]:
        """What decides among equivalent ones: the smallest is sent."""
        return (self.pattern.text, self.query.text, self.query.namespaces)


class Node:
    """A want in the cover forest: under the `above` that covers it, over those it covers."""

    __slots__ = (
        *("above", "below", "form", "needed", "needed_atoms", "needed_bounds"),
        *("offered", "offered_atoms", "offered_bounds", "rank", "want"),
    )

    def __init__(self, want: Want) -> None:
        pattern, form = want.pattern, form_of(want.query)
        self.want = want
        self.rank = want.rank
        self.form: Formula = form
        self.needed: frozenset[Feature] = needed(form) | needed_of(pattern)
        self.offered: frozenset[Feature] = offered(form) | offered_of(pattern)
        self.needed_atoms: tuple[Atom, ...] = needed_atoms(form)
        self.offered_atoms: tuple[Atom, ...] = offered_atoms(form)
        self.needed_bounds: Bounds = needed_bounds(form)
        self.offered_bounds: Bounds = offered_bounds(form)
        self.above: Node | None = None
        self.below: dict[Node, None] = {}

    def covers(self, other: Node) -> bool:
        """Whether all that `other` wants is wanted here; what is ruled out cheaply goes first."""
        return (
            reaches(other.offered_bounds, self.needed_bounds)
            and self.needed <= other.offered
            and may_follow(other.offered_atoms, self.needed_atoms)
            and self.want.pattern.covers(other.want.pattern)
            and implies(other.form, self.form)
        )

    def adopt(self, other: Node) -> None:
        """Put another node under this one, which covers it."""
        other.above = self
        self.below[other] = None
