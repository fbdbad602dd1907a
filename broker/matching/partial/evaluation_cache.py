"""What templates that are evaluated on the same trees have in common.

Very many templates differ in one condition, or in a number that is no literal of a comparison; the
rest of them is evaluated once. All of it can be forgotten at any time, and be found again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import attrs

from broker.matching.partial.guarded_value import GuardedValue
from broker.matching.partial.node_set import Context
from broker.matching.partial.template import CommonSubexpression
from broker.matching.partial.undecidable import Undecidable
from broker.matching.partial.work_budget import WorkBudget
from broker.matching.query import tree
from broker.matching.shape.tree import Node

#: What is kept at most, in units of work that it took: five times what one template may take. On
#: ordinary events a unit is some 20 bytes, so these are 2 MB.
MAX_CACHED_WORK = 100_000


@attrs.frozen
class CachedResult:
    """What evaluating a part came to: a value, or why there is none (`undecidable_reason`).

    `reasons` say why parts of the value are unknown.
    """

    value: Any
    reasons: tuple[str, ...] = ()
    undecidable_reason: str | None = None


CachedResults: TypeAlias = dict[CommonSubexpression, CachedResult]
_Value = TypeVar("_Value")


class EvaluationCache:
    """Outcomes by what was asked of a part, and values of nodes."""

    def __init__(self) -> None:
        self.conjuncts: CachedResults = {}
        self.predicates: CachedResults = {}
        self.numbers: CachedResults = {}
        self.texts: CachedResults = {}
        self.node_sets: CachedResults = {}
        self.string_values: dict[Node, GuardedValue] = {}
        self.number_values: dict[Node, GuardedValue] = {}
        self._cached_work = 0

    def charge(self, work: int) -> None:
        """Something is about to be kept that took so much work; all else goes if it is too much."""
        self._cached_work += work + 1
        if self._cached_work > MAX_CACHED_WORK:
            self.clear()
            self._cached_work = work + 1

    def clear(self) -> None:
        """Give all of it back."""
        for results in (self.conjuncts, self.predicates, self.numbers, self.texts, self.node_sets):
            results.clear()
        self.string_values.clear()
        self.number_values.clear()
        self._cached_work = 0


class CachedEvaluation:
    """What the evaluation of one template takes from `EvaluationCache`, and adds to it.

    `frames_by_hop` are the template's, by the `id` of their expressions. `reasons` are those noted so far.
    """

    def __init__(
        self,
        subexpressions: Mapping[int, CommonSubexpression],
        cache: EvaluationCache,
        work: WorkBudget,
    ) -> None:
        self.reasons: dict[str, None] = {}
        self._subexpressions = subexpressions
        self._cache = cache
        self._work = work

    def record_reason(self, reason: object) -> None:
        """Why something is unknown."""
        self.reasons[str(reason)] = None

    def is_cacheable(self, expression: tree.Expression) -> bool:
        """Whether the expression is a part, so that it is evaluated once."""
        return id(expression) in self._subexpressions

    def evaluate_once(
        self,
        results: CachedResults,
        read: Callable[[Any, Context], _Value],
        expression: tree.Expression,
        context: Context,
    ) -> _Value:
        """What `decode_interest` makes of an expression: found once for all templates if it is a part.

        Raises `Undecidable`, and `TooExpensive`, which is never kept: another template may have more
        left. In one frame, for expressions are nested deeply.
        """
        subexpression = self._subexpressions.get(id(expression))
        if subexpression is None:
            return read(expression, context)
        result = results.get(subexpression)
        if result is None:
            before, self.reasons = self.reasons, {}
            done = self._work.spent
            value, undecidable_reason = None, None
            try:
                value = read(expression, context)
            except Undecidable as reason:
                undecidable_reason = str(reason)
            finally:
                reasons, self.reasons = self.reasons, before
                before.update(reasons)
            self._cache.charge(self._work.spent - done)
            result = results[subexpression] = CachedResult(
                value, tuple(reasons), undecidable_reason
            )
        else:
            self._work.spend()
            self.reasons.update(dict.fromkeys(result.reasons))
        if result.undecidable_reason is not None:
            raise Undecidable(result.undecidable_reason)
        found: _Value = result.value
        return found
