"""Families that may match a document, by its structure (F2)."""

from __future__ import annotations

from broker.matching.engine.query_family import QueryFamily
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.paths.index import PathIndex
from broker.matching.paths.label_path import LabelPath
from broker.matching.paths.pattern import DocumentRole, LabelKind
from broker.matching.paths.requirement_derivation import abstract_literals, derive_from_expression
from broker.matching.xpath_evaluation import ParsedEvent


class StructureIndex:
    def __init__(self) -> None:
        self._index: PathIndex[QueryFamily] = PathIndex()

    def add_family(self, family: QueryFamily) -> None:
        template = family.template
        expression = abstract_literals(template.expression, template.parameter_at)
        self._index.add_item(derive_from_expression(expression, template.namespaces), family)

    def remove_family(self, family: QueryFamily) -> None:
        self._index.remove_item(family)

    def match_event(self, event: ParsedEvent) -> tuple[list[QueryFamily], list[QueryFamily]]:
        """Return the families that may match a parsed event, and those that do."""
        labels = self._index.label_paths
        attributes = self._index.uses_label_kind(LabelKind.ATTRIBUTE)
        texts = self._index.uses_label_kind(LabelKind.TEXT)
        paths: set[LabelPath] = set()
        for root, document in (
            (event.document(), DocumentRole.PAYLOAD),
            (event.envelope, DocumentRole.ENVELOPE),
        ):
            paths |= labels.collect_from_tree(root, document, attributes=attributes, texts=texts)
        candidates = self._index.find_candidates(paths)
        possible = candidates.possible & ~candidates.certain
        return self._index.items_in(possible), self._index.items_in(candidates.certain)

    def match_shape(self, evaluation_input: EvaluationInput) -> list[QueryFamily]:
        labels = self._index.label_paths
        paths = labels.collect_from_shape(evaluation_input.payload, DocumentRole.PAYLOAD)
        paths |= labels.collect_from_shape(evaluation_input.envelope, DocumentRole.ENVELOPE)
        return self._index.items_in(self._index.find_candidates(paths).possible)
