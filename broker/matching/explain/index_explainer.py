"""Explains how the index answers a query, for each known shape (checklist F6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.matching.engine.batch_match import match_batches
from broker.matching.engine.binding import ShapeBatch, bind_formula
from broker.matching.engine.index_conjunction import ConjunctionReader
from broker.matching.engine.query_family import QueryFamily
from broker.matching.engine.shape_bindings import ShapeBindings
from broker.matching.engine.shape_plan import PlanCache, make_evaluation_input
from broker.matching.engine.subscription_registry import SubscriptionRegistry
from broker.matching.explain.access_method import access_method, format_literal, format_operator
from broker.matching.explain.explanation import Alternative, ShapesExplanation
from broker.matching.explain.shape_explainer import ShapeAnswer, ShapeExplainer, ShapeGroup
from broker.matching.explain.xpath_writer import XPathWriter
from broker.matching.index.shared_index import IndexPool
from broker.matching.partial.evaluator import evaluate_template
from broker.matching.partial.template import TemplateInstance, extract_templates
from broker.matching.query.query import Query
from broker.matching.query.tree import Chain
from broker.matching.shape.cache import ShapeCache
from broker.matching.shape.shape import Shape
from broker.matching.undescribed import find_dtd

#: Seconds after which no further shape is examined. The others are counted.
MAX_SECONDS: Final = 0.1


class IndexExplainer:
    """Reads the shapes and the registry of an engine without changing them."""

    def __init__(
        self,
        dtds: IDtdCache,
        shapes: ShapeCache,
        registry: SubscriptionRegistry,
        plans: PlanCache,
        clock: Callable[[], float],
    ) -> None:
        self._dtds = dtds
        self._shapes = shapes
        self._registry = registry
        self._plans = plans
        self._clock = clock

    def explain_alternatives(self, query: Query) -> tuple[Alternative, ...]:
        return tuple(
            Alternative(
                text=text,
                literals=tuple(
                    (format_operator(parameter.operator), format_literal(literal))
                    for parameter, literal in zip(
                        instance.template.parameters, instance.literals, strict=True
                    )
                ),
                access=access_method(instance.template.parameters),
                sharing=self._count_sharing(instance),
            )
            for text, instance in zip(
                _alternative_texts(query), extract_templates(query), strict=True
            )
        )

    def explain_shapes(self, query: Query) -> tuple[tuple[ShapesExplanation, ...], int]:
        """Explain the query on all shapes, grouped by equal answers; return the number of others
        too."""
        parts = extract_templates(query)
        deadline = self._clock() + MAX_SECONDS
        groups: dict[tuple[DtdReference, tuple[ShapeAnswer, ...]], ShapeGroup] = {}
        done = 0
        shapes = list(self._current_shapes())
        for shape in shapes:
            found = []
            explainer = ShapeExplainer(shape, query)
            for part in parts:
                if self._clock() > deadline:
                    break
                found.append(explainer.explain_alternative(part))
            if len(found) < len(parts):
                break
            done += 1
            key = (shape.reference, tuple(found))
            if key not in groups:
                groups[key] = ShapeGroup(shape.reference, parts)
            groups[key].add_shape(found)
        ordered = sorted(groups.items(), key=lambda item: (item[0][0], -item[1].shapes))
        return tuple(group.to_explanation() for _, group in ordered), len(shapes) - done

    def _count_sharing(self, instance: TemplateInstance) -> int:
        family = self._registry.find_family(instance.template)
        return 0 if family is None else len(family.members)

    def find_shape(self, document: bytes) -> tuple[Shape, tuple[bytes, ...]] | None:
        """Return the shape of a document and its values, without counting it."""
        for shape in self._current_shapes():
            values = shape.extract_values(document)
            if values is not None:
                return shape, values
        return None

    def prepare_lookup(
        self, query: Query, shape: Shape, values: tuple[bytes, ...]
    ) -> Callable[[], object]:
        """Return the look-up for one document as a function, to be timed.

        It finds all queries that share a template with this one, or this one alone.
        """
        plan = self._plans.peek(shape)
        bound = ShapeBindings()
        for instance in extract_templates(query):
            family = self._registry.find_family(instance.template)
            binding = None if plan is None or family is None else plan.bindings.get(family)
            if binding is None:
                family = QueryFamily(instance.template, 0, IndexPool())
                family.add_member(instance.literals)
                decision = evaluate_template(instance.template, make_evaluation_input(shape))
                binding = bind_formula(family, decision.formula, ConjunctionReader())
            if binding is not None and bound.get(binding.family) is None:
                binding.prepare_members(len(binding.family.members))
                bound.add_binding(binding)
        return lambda: match_batches([(bound, ShapeBatch([values]))])

    def _current_shapes(self) -> Iterator[Shape]:
        for shape in self._shapes:
            dtd = find_dtd(self._dtds, shape.dtd.reference)
            if dtd is not None and dtd.content_hash == shape.dtd.content_hash:
                yield shape


def _alternative_texts(query: Query) -> list[str]:
    expression, count = query.expression, len(extract_templates(query))
    writer = XPathWriter(query.text, as_written=True)
    if count > 1 and isinstance(expression, Chain):
        return [writer.write(operand) for operand in expression.operands]
    return [query.written]
