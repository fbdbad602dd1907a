"""Cache of common subexpressions for templates that are evaluated on the same trees.

Many templates differ in one condition, or in a number that is no template parameter. Their common
parts are evaluated once. Any entry can be dropped and computed again.
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

#: Limit in units of work that the entries took: five times that of one template. On ordinary events
#: a unit is some 20 bytes, so these are 2 MB.
MAX_CACHED_WORK = 100_000


@attrs.frozen
class CachedResult:
    """Result of a subexpression: a value, or the reason why it is undecidable.

    `reasons` explain unknown parts of the value.
    """

    value: Any
    reasons: tuple[str, ...] = ()
    undecidable_reason: str | None = None


CachedResults: TypeAlias = dict[CommonSubexpression, CachedResult]
_Value = TypeVar("_Value")


class EvaluationCache:
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
        """Count the work of a new entry; clear everything else beyond the limit."""
        self._cached_work += work + 1
        if self._cached_work > MAX_CACHED_WORK:
            self.clear()
            self._cached_work = work + 1

    def clear(self) -> None:
        for results in (self.conjuncts, self.predicates, self.numbers, self.texts, self.node_sets):
            results.clear()
        self.string_values.clear()
        self.number_values.clear()
        self._cached_work = 0


class CachedEvaluation:
    """Access to the cache for the evaluation of one template.

    `subexpressions` are the template's, by the `id` of their expressions. `reasons` are those
    recorded so far.
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
        self.reasons[str(reason)] = None

    def is_cacheable(self, expression: tree.Expression) -> bool:
        return id(expression) in self._subexpressions

    def evaluate_once(
        self,
        results: CachedResults,
        read: Callable[[Any, Context], _Value],
        expression: tree.Expression,
        context: Context,
    ) -> _Value:
        """Return the cached result of `read`; evaluate and cache it if it is missing.

        Raises `Undecidable`. `TooExpensive` is not cached: another template may have more work
        left. One frame only, since expressions nest deeply.
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
