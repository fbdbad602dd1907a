"""A recognised document with undecided queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.matching.contract import Accepted
from broker.matching.engine.distinct_query import DistinctQuery
from broker.matching.engine.shape_plan import ShapePlan
from broker.matching.shape.shape import Shape


class UndecidedDocument(NamedTuple):
    """A recognised document with queries that its shape's plan does not decide."""

    shape: Shape
    values: Sequence[bytes]
    plan: ShapePlan
    queries: Sequence[DistinctQuery]
    verdict: Accepted
