"""Plans of all shapes, made at a shape's first document and completed in later calls."""

from __future__ import annotations

from broker.dtd.interfaces import IDtdCache
from broker.matching.engine.shape_plan import VISITS_A_CALL, ShapePlan
from broker.matching.engine.subscription_registry import SubscriptionRegistry
from broker.matching.shape.cache import ShapeCache
from broker.matching.shape.shape import Shape


class PlanCache:
    def __init__(self, dtds: IDtdCache, shapes: ShapeCache, registry: SubscriptionRegistry) -> None:
        self._dtds = dtds
        self._shapes = shapes
        self._registry = registry
        self._plans: dict[Shape, ShapePlan] = {}
        #: Visits left in this call for binding families.
        self._visits_left = 0

    def __contains__(self, shape: object) -> bool:
        return shape in self._plans

    def reset_visits(self) -> None:
        """Allow the visits of another call."""
        self._visits_left = VISITS_A_CALL

    def get(self, shape: Shape) -> ShapePlan | None:
        """Return the shape's plan; None if its documents must be parsed.

        Binds pending families while visits are left.
        """
        dtd = self._dtds.get(shape.reference)
        if dtd is None or dtd.content_hash != shape.dtd.content_hash:
            self._shapes.drop_shape(shape)
            return None
        plan = self._plans.get(shape)
        if plan is None:
            plan = self._plans[shape] = ShapePlan(shape)
        registry = self._registry
        if (
            plan.pending
            or plan.newest_family != registry.newest_family
            or plan.dead_families != registry.dead_families
        ):
            self._visits_left -= plan.bind_families(registry, self._visits_left)
        return plan

    def peek(self, shape: Shape) -> ShapePlan | None:
        """Return the plan without binding families."""
        return self._plans.get(shape)

    def discard(self, shape: Shape) -> None:
        self._plans.pop(shape, None)

    @property
    def unready_count(self) -> int:
        """The number of shapes with pending families."""
        return sum(bool(plan.pending) for plan in self._plans.values())
