"""What templates that are evaluated on the same trees have in common.

Very many templates differ in one condition, or in a number that is no literal of a comparison; the
rest of them is evaluated once. All of it can be forgotten at any time, and be found again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import attrs

from broker.matching.partial.guarded_value import Cases
from broker.matching.partial.node_set import Context
from broker.matching.partial.template import Part
from broker.matching.partial.undecidable import Undecidable
from broker.matching.partial.work_budget import Work
from broker.matching.query import tree
from broker.matching.shape.tree import Node

#: What is kept at most, in units of work that it took: five times what one template may take. On
#: ordinary events a unit is some 20 bytes, so these are 2 MB.
MOST_KEPT = 100_000


@attrs.frozen
class Outcome:
    """What evaluating a part came to: a value, or why there is none (`refusal`).

    `reasons` say why parts of the value are unknown.
    """

    value: Any
    reasons: tuple[str, ...] = ()
    refusal: str | None = None


Outcomes: TypeAlias = dict[Part, Outcome]
_Value = TypeVar("_Value")


class Sharing:
    """Outcomes by what was asked of a part, and values of nodes."""

    def __init__(self) -> None:
        self.conjuncts: Outcomes = {}
        self.predicates: Outcomes = {}
        self.numbers: Outcomes = {}
        self.texts: Outcomes = {}
        self.nodes: Outcomes = {}
        self.text_of: dict[Node, Cases] = {}
        self.number_of: dict[Node, Cases] = {}
        self._kept = 0

    def weigh(self, work: int) -> None:
        """Something is about to be kept that took so much work; all else goes if it is too much."""
        self._kept += work + 1
        if self._kept > MOST_KEPT:
            self.forget()
            self._kept = work + 1

    def forget(self) -> None:
        """Give all of it back."""
        for outcomes in (self.conjuncts, self.predicates, self.numbers, self.texts, self.nodes):
            outcomes.clear()
        self.text_of.clear()
        self.number_of.clear()
        self._kept = 0


class Recall:
    """What the evaluation of one template takes from `Sharing`, and adds to it.

    `parts` are the template's, by the `id` of their expressions. `reasons` are those noted so far.
    """

    def __init__(self, parts: Mapping[int, Part], sharing: Sharing, work: Work) -> None:
        self.reasons: dict[str, None] = {}
        self._parts = parts
        self._sharing = sharing
        self._work = work

    def note(self, reason: object) -> None:
        """Why something is unknown."""
        self.reasons[str(reason)] = None

    def is_shared(self, expression: tree.Expression) -> bool:
        """Whether the expression is a part, so that it is evaluated once."""
        return id(expression) in self._parts

    def once(
        self,
        known: Outcomes,
        read: Callable[[Any, Context], _Value],
        expression: tree.Expression,
        context: Context,
    ) -> _Value:
        """What `read` makes of an expression: found once for all templates if it is a part.

        Raises `Undecidable`, and `TooDear`, which is never kept: another template may have more
        left. In one frame, for expressions are nested deeply.
        """
        part = self._parts.get(id(expression))
        if part is None:
            return read(expression, context)
        outcome = known.get(part)
        if outcome is None:
            before, self.reasons = self.reasons, {}
            done = self._work.done
            value, refusal = None, None
            try:
                value = read(expression, context)
            except Undecidable as reason:
                refusal = str(reason)
            finally:
                reasons, self.reasons = self.reasons, before
                before.update(reasons)
            self._sharing.weigh(self._work.done - done)
            outcome = known[part] = Outcome(value, tuple(reasons), refusal)
        else:
            self._work.spend()
            self.reasons.update(dict.fromkeys(outcome.reasons))
        if outcome.refusal is not None:
            raise Undecidable(outcome.refusal)
        found: _Value = outcome.value
        return found
