"""Limits for generated queries: what they would cost does not matter."""

from broker.matching.query.limits import QueryLimits

# The estimate of a path in a predicate of another path is about a thousand times as high.
ANY_COST = QueryLimits(max_cost=10**300)
