"""Subscriptions and their distinct queries, in families that share a template."""

from __future__ import annotations

from collections.abc import Iterator

from broker.errors import UnknownSubscription
from broker.event.envelope import HIGHEST_RANK
from broker.event.stream import StreamPattern
from broker.matching.engine.distinct_query import (
    DistinctQuery,
    attach_query,
    detach_query,
    find_query,
)
from broker.matching.engine.query_family import QueryFamily
from broker.matching.engine.stream_patterns import StreamPatterns
from broker.matching.index.shared_index import IndexPool
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.template import Template, TemplateInstance, extract_templates
from broker.matching.paths.index import PathIndex
from broker.matching.paths.label_path import LabelPath
from broker.matching.paths.pattern import DocumentRole, LabelKind
from broker.matching.paths.requirement_derivation import abstract_literals, derive_from_expression
from broker.matching.query.query import Query
from broker.matching.readable_streams import ReadableStreams
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


class SubscriptionRegistry:
    """Subscriptions by number, and the families of their queries.

    Plans read `families_after` and `dead_families` at the next document of their shape.
    """

    def __init__(self) -> None:
        self.stream_patterns = StreamPatterns()
        self.structure_index = StructureIndex()
        self.distinct_queries = 0
        self.dead_families = 0
        self.last_number = 0
        self.newest_family = 0
        self._by_number: dict[int, DistinctQuery | None] = {}
        self._families: dict[object, QueryFamily] = {}
        self._pool = IndexPool()

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def family_count(self) -> int:
        return len(self._families)

    def add_subscription(
        self, pattern: StreamPattern, query: Query, clearance: int = HIGHEST_RANK
    ) -> int:
        self.last_number += 1
        number = self.last_number
        pattern_number = self.stream_patterns.acquire_pattern(pattern, clearance)
        if query.is_true:
            self._by_number[number] = None
            self.stream_patterns.add_unfiltered(number, pattern_number)
            return number
        distinct_query = self._get_query(query)
        distinct_query.add_subscription(number, pattern_number)
        self._by_number[number] = distinct_query
        return number

    def remove_subscription(self, number: int) -> DistinctQuery | None:
        """Remove a subscription; return its query if that has no other. Raises
        `UnknownSubscription`."""
        distinct_query = self.query_of(number)
        del self._by_number[number]
        if distinct_query is None:
            pattern_number = self.stream_patterns.remove_unfiltered(number)
            assert pattern_number is not None
            self.stream_patterns.release_pattern(pattern_number)
            return None
        self.stream_patterns.release_pattern(distinct_query.remove_subscription(number))
        if distinct_query.pattern_by_subscription:
            return None
        if not distinct_query.is_suspended:
            self._remove_query(distinct_query)
        return distinct_query

    def query_of(self, number: int) -> DistinctQuery | None:
        """Return a subscription's query, None for `true()`. Raises `UnknownSubscription`."""
        try:
            return self._by_number[number]
        except KeyError:
            raise UnknownSubscription(f"there is no subscription {number}") from None

    def readable_streams_of(self, number: int) -> ReadableStreams:
        distinct_query = self.query_of(number)
        if distinct_query is None:
            pattern_number = self.stream_patterns.unfiltered_pattern(number)
            assert pattern_number is not None
        else:
            pattern_number = distinct_query.pattern_of(number)
        return self.stream_patterns.get_readable(pattern_number)

    def suspend_query(self, query: DistinctQuery, patterns: frozenset[int]) -> DistinctQuery:
        """Stop matching a query for its subscriptions with these patterns, which remain known.

        Return the suspended query, with these subscriptions. Others keep the query, since an event
        that they may not read must not end them.
        """
        concerned = query.select_subscriptions(patterns)
        if query.is_suspended or len(concerned) == len(query.pattern_by_subscription):
            if not query.is_suspended:
                query.is_suspended = True
                self._remove_query(query)
            return query
        suspended = query.split_off(concerned)
        self._by_number.update(dict.fromkeys(concerned, suspended))
        return suspended

    def find_family(self, template: Template) -> QueryFamily | None:
        return self._families.get(template.key)

    def families_after(self, sequence: int) -> Iterator[QueryFamily]:
        """Yield the families with a higher sequence number, newest first."""
        for family in reversed(self._families.values()):
            if family.sequence <= sequence:
                return
            yield family

    def _get_query(self, query: Query) -> DistinctQuery:
        parts = extract_templates(query)
        families = tuple([self._get_family(part) for part in parts])
        members = tuple([f.add_member(p.literals) for f, p in zip(families, parts, strict=True)])
        known = find_query(members)
        if known is not None:
            return known
        new = DistinctQuery(query, families, members)
        for member in dict.fromkeys(members):
            attach_query(member, new)
        self.distinct_queries += 1
        return new

    def _get_family(self, part: TemplateInstance) -> QueryFamily:
        key = part.template.key
        family = self._families.get(key)
        if family is None:
            self.newest_family += 1
            family = self._families[key] = QueryFamily(
                part.template, self.newest_family, self._pool
            )
            self.structure_index.add_family(family)
        return family

    def _remove_query(self, query: DistinctQuery) -> None:
        self.distinct_queries -= 1
        for member, family in dict(zip(query.members, query.families, strict=True)).items():
            if detach_query(member, query):
                family.remove_member(member)
                if not family.members:
                    family.is_dead = True
                    self.dead_families += 1
                    del self._families[family.template.key]
                    self.structure_index.remove_family(family)
