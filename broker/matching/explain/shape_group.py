"""Groups shapes of one type with equal answers, so that 70 shapes are a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.dtd.reference import DtdReference
from broker.matching.explain.access_method import format_literal, format_operator
from broker.matching.explain.explanation import (
    AlternativeAnswer,
    AnswerMethod,
    Comparison,
    ShapesExplanation,
)
from broker.matching.explain.shape_explainer import ComparisonKind, ShapeAnswer, ShapeExplainer
from broker.matching.partial.template import TemplateInstance

#: Paths shown of one comparison, and comparisons shown of one alternative.
MAX_PATHS: Final = 6
MAX_COMPARISONS: Final = 24


class ShapeGroup:
    """Shapes with equal answers and the union of their paths."""

    def __init__(
        self, reference: DtdReference, parts: tuple[TemplateInstance, ...], first: ShapeExplainer
    ) -> None:
        self.shapes = 0
        self._reference = reference
        self._parts = parts
        self._explainer = first
        self._first: Sequence[ShapeAnswer] = ()
        self._paths: list[dict[ComparisonKind, dict[str, None]]] = [{} for _ in parts]

    def add_shape(self, found: Sequence[ShapeAnswer]) -> None:
        if not self.shapes:
            self._first = found
            for part, answer, paths in zip(self._parts, found, self._paths, strict=True):
                if any(constant for _, constant in answer.kinds):
                    for parameter, places in self._explainer.find_constant_paths(part).items():
                        paths[parameter, True] = places
        self.shapes += 1
        for answer, paths in zip(found, self._paths, strict=True):
            for kind, places in answer.paths.items():
                paths.setdefault(kind, {}).update(places)

    def to_explanation(self) -> ShapesExplanation:
        alternatives = tuple(
            AlternativeAnswer(
                how=answer.how,
                access=answer.access,
                reasons=answer.reasons,
                comparisons=tuple(
                    _comparison(part, kind, list(paths[kind]))
                    for kind in answer.kinds[:MAX_COMPARISONS]
                ),
                more_comparisons=max(0, len(answer.kinds) - MAX_COMPARISONS),
            )
            for part, answer, paths in zip(self._parts, self._first, self._paths, strict=True)
        )
        return ShapesExplanation(
            type=self._reference.type,
            version=self._reference.version,
            shapes=self.shapes,
            how=_overall_method([each.how for each in alternatives]),
            alternatives=alternatives,
        )


def _overall_method(hows: Sequence[AnswerMethod]) -> AnswerMethod:
    """Combine the methods of the alternatives: one that matches is enough."""
    for how in (AnswerMethod.ALWAYS, AnswerMethod.EVALUATION, AnswerMethod.INDEX):
        if how in hows:
            return how
    return AnswerMethod.NEVER


def _comparison(instance: TemplateInstance, kind: ComparisonKind, paths: list[str]) -> Comparison:
    parameter, constant = kind
    return Comparison(
        operator=format_operator(instance.template.parameters[parameter].operator),
        literal=format_literal(instance.literals[parameter]),
        paths=tuple(paths[:MAX_PATHS]),
        more_paths=max(0, len(paths) - MAX_PATHS),
        constant=constant,
    )
