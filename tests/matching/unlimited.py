"""Query limits for generated queries of any cost."""

from broker.matching.query.limits import QueryLimits

# The estimate of a path in a predicate of a path is about a thousand times as high.
ANY_COST = QueryLimits(max_cost=10**300)
