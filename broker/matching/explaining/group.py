"""Shapes of one type that answer a query alike, told as one: 70 shapes are few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.dtd.reference import DtdReference
from broker.matching.explaining.access import shown_literal, shown_operator
from broker.matching.explaining.explanation import AlternativeOnShapes, Comparison, How, OnShapes
from broker.matching.explaining.looking import Kind, Looking, OnShape
from broker.matching.partial.template import Instance

#: Paths of one comparison, and comparisons of one alternative, that are told.
MAX_PATHS: Final = 6
MAX_COMPARISONS: Final = 24


class Group:
    """Shapes with equal answers; their paths are put together."""

    def __init__(
        self, reference: DtdReference, parts: tuple[Instance, ...], first: Looking
    ) -> None:
        """`first` looks at the first of the shapes: it tells where constants lie."""
        self.shapes = 0
        self._reference = reference
        self._parts = parts
        self._looking = first
        self._first: Sequence[OnShape] = ()
        self._paths: list[dict[Kind, dict[str, None]]] = [{} for _ in parts]

    def add(self, found: Sequence[OnShape]) -> None:
        """One more shape, with what becomes of each alternative on it."""
        if not self.shapes:
            self._first = found
            for part, answer, paths in zip(self._parts, found, self._paths, strict=True):
                if any(constant for _, constant in answer.kinds):
                    for hole, places in self._looking.constants(part).items():
                        paths[hole, True] = places
        self.shapes += 1
        for answer, paths in zip(found, self._paths, strict=True):
            for kind, places in answer.paths.items():
                paths.setdefault(kind, {}).update(places)

    def told(self) -> OnShapes:
        """As one."""
        alternatives = tuple(
            AlternativeOnShapes(
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
        return OnShapes(
            type=self._reference.type,
            version=self._reference.version,
            shapes=self.shapes,
            how=_overall([each.how for each in alternatives]),
            alternatives=alternatives,
        )


def _overall(hows: Sequence[How]) -> How:
    """What the alternatives make together: one that holds is enough."""
    for how in (How.ALWAYS, How.EVALUATION, How.INDEX):
        if how in hows:
            return how
    return How.NEVER


def _comparison(instance: Instance, kind: Kind, paths: list[str]) -> Comparison:
    hole, constant = kind
    return Comparison(
        operator=shown_operator(instance.template.holes[hole].operator),
        literal=shown_literal(instance.literals[hole]),
        paths=tuple(paths[:MAX_PATHS]),
        more_paths=max(0, len(paths) - MAX_PATHS),
        constant=constant,
    )
