"""Matching archived events against all requests of a job in one pass.

Each distinct triple of stream pattern, query and clearance is one subscription of a `Switch`.

Events are validated by the DTD of their own version (A14). Invalid events, or those without a DTD,
were accepted once: `IMatcher.select` matches them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from broker.archive.table import VALIDATIONS
from broker.dtd.reference import DtdReference
from broker.errors import BadQuery, InvalidEvent, WireError
from broker.event.envelope import HIGHEST_RANK, Liveness, Validation
from broker.event.stream import StreamPattern
from broker.matching.contract import (
    NO_VARIANTS,
    Accepted,
    DtdNeeded,
    TypeMissing,
    Variants,
    Verdict,
)
from broker.matching.document_limits import LIBXML2_MAX_DEPTH, DocumentLimits
from broker.matching.query.query import Query
from broker.matching.switch import Switch
from broker.matching.undescribed import EVERY_TYPE_UNDESCRIBED, without_dtds
from broker.replay.engine.job_dtds import JobDtds
from broker.replay.engine.recovery_query import parse_recovery_query
from broker.replay.engine.request_scope import Flags, RequestScopes, RowPlaces, dictionary_codes
from broker.replay.ordering import Integers
from broker.replay.request import ReplayRequest

#: Archived events were within their node's limits, which are unknown here.
_DOCUMENT_LIMITS: Final = DocumentLimits(1 << 30, LIBXML2_MAX_DEPTH, 1 << 30)
#: Only a single query on one event has a time limit.
_MAX_QUERY_SECONDS: Final = 0.25
_MAX_SHARE: Final = 1.0
_LAST_DESCRIBED: Final = max(n for n, each in VALIDATIONS.items() if each is Validation.DESCRIBED)


@attrs.frozen
class _Rules:
    """Validation of a run of events, by their origin."""

    variants: Variants
    marked: bool = False


@attrs.frozen(eq=False)
class MatchedPairs:
    """Sorted by row and request."""

    rows: Integers
    requests: Integers
    denied: Integers
    """Events above the clearance, whatever the query, by request."""


@attrs.define(eq=False)
class _QueryGroup:
    pattern: StreamPattern
    query: Query
    clearance: int
    requests: list[int] = attrs.field(factory=list)
    number: int = 0
    """Subscription; 0: none yet."""


@attrs.frozen(eq=False)
class _RequestLists:
    """The requests of each subscription, concatenated."""

    requests: Integers
    starts: Integers
    lengths: Integers

    @classmethod
    def from_lists(cls, lists: Mapping[int, Sequence[int]]) -> _RequestLists:
        lengths = np.zeros(max(lists) + 1, dtype=np.int64)
        lengths[list(lists)] = [len(each) for each in lists.values()]
        requests = np.array(list(chain.from_iterable(lists[n] for n in sorted(lists))))
        return cls(requests, np.cumsum(lengths) - lengths, lengths)

    def expand_pairs(self, rows: Integers, numbers: Integers) -> tuple[Integers, Integers]:
        counts = self.lengths[numbers]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(self.starts[numbers], counts) + within
        return np.repeat(rows, counts), self.requests[places]


class RequestMatcher:
    """Learns document shapes, so workers keep it for the whole job."""

    def __init__(
        self,
        requests: Sequence[ReplayRequest],
        origins: Sequence[str],
        texts: Mapping[DtdReference, bytes],
        clock: Callable[[], float],
        variants: Mapping[str, Variants] | None = None,
    ) -> None:
        """`origins` has all origins that rows may have.

        `variants` has references that replace others, by origin.
        """
        self._variants = variants or {}
        self.scope = RequestScopes(requests, origins)
        self.failed: dict[int, WireError] = {}
        """Requests with an invalid or too expensive query."""
        self.unreadable = 0
        """Events that no query could be evaluated on."""
        self.dtds = JobDtds(texts)
        self._size = len(requests)
        self._switch = Switch(
            self.dtds.cache,
            clock,
            _DOCUMENT_LIMITS,
            max_run_time=_MAX_QUERY_SECONDS,
            max_share=_MAX_SHARE,
        )
        self._unfiltered_groups: list[_QueryGroup] = []
        self._query_groups: list[_QueryGroup] = []
        self._by_number: dict[int, _QueryGroup] = {}
        groups: dict[tuple[str, Query, int], _QueryGroup] = {}
        for number, request in enumerate(requests):
            try:
                query = parse_recovery_query(
                    request.query, tuple(sorted(request.namespaces.items()))
                )
            except BadQuery as error:
                self.failed[number] = error.to_wire()
                continue
            key = (request.pattern, query, request.clearance)
            group = groups.get(key)
            if group is None:
                group = groups[key] = _QueryGroup(
                    request.stream_pattern(), query, request.clearance
                )
                (self._unfiltered_groups if query.is_true else self._query_groups).append(group)
            group.requests.append(number)
        self._patterns: dict[tuple[str, str], bool] = {}
        self._lists: _RequestLists | None = None

    def match(self, batch: pa.RecordBatch, requested: Integers) -> MatchedPairs:
        """`batch` has the columns of `EVENT_SCHEMA`, sorted by origin and mark."""
        places = RowPlaces(batch, self.scope.origins)
        is_open = np.zeros(self._size, dtype=np.bool_)
        is_open[requested] = True
        is_open[list(self.failed)] = False
        found = [
            *self._match_unfiltered(batch, places, is_open),
            *self._match_queries(batch, places, is_open),
        ]
        rows, requests = (
            np.concatenate([np.empty(0, dtype=np.int64), *(each[side] for each in found)])
            for side in range(2)
        )
        denied = self._count_denied(batch, places, is_open)
        order = np.lexsort((requests, rows))
        return MatchedPairs(rows[order], requests[order], denied)

    def _count_denied(self, batch: pa.RecordBatch, places: RowPlaces, is_open: Flags) -> Integers:
        """Count the rows of each request that are above its clearance, whatever its query."""
        denied = np.zeros(self._size, dtype=np.int64)
        lowest = self.scope.clearance[is_open].min(initial=HIGHEST_RANK)
        if not (places.level > lowest).any():
            return denied
        for group in (*self._unfiltered_groups, *self._query_groups):
            is_above = places.level > group.clearance
            is_above &= self._rows_on_streams(batch, [group.pattern])
            for number in group.requests if is_above.any() else ():
                if is_open[number]:
                    denied[number] = is_above[self.scope.rows_for(places, number)].sum()
        return denied

    # ---------------------------------------------------------------- requests without a query

    def _match_unfiltered(
        self, batch: pa.RecordBatch, places: RowPlaces, is_open: Flags
    ) -> list[tuple[Integers, Integers]]:
        found = []
        for group in self._unfiltered_groups:
            requests = [number for number in group.requests if is_open[number]]
            if not requests:
                continue
            on_stream = self._rows_on_streams(batch, [group.pattern])
            on_stream &= places.level <= group.clearance
            if not on_stream.any():
                continue
            for number in requests:
                rows = self.scope.rows_for(places, number)
                rows = rows[on_stream[rows]]
                found.append((rows, np.full(len(rows), number)))
        return found

    def _rows_on_streams(self, batch: pa.RecordBatch, patterns: Sequence[StreamPattern]) -> Flags:
        names, codes = dictionary_codes(batch.column("stream"))
        known = [
            any(self._pattern_matches(pattern, name or "") for pattern in patterns)
            for name in names
        ]
        flags: Flags = np.array(known, dtype=np.bool_)[codes]
        return flags

    def _pattern_matches(self, pattern: StreamPattern, stream: str) -> bool:
        key = (pattern.text, stream)
        known = self._patterns.get(key)
        if known is None:
            known = self._patterns[key] = pattern.matches(stream)
        return known

    # ---------------------------------------------------------------- requests with a query

    def _match_queries(
        self, batch: pa.RecordBatch, places: RowPlaces, is_open: Flags
    ) -> list[tuple[Integers, Integers]]:
        groups = [
            group
            for group in self._query_groups
            if any(is_open[number] for number in group.requests)
        ]
        if not groups:
            return []
        requests = np.array([number for group in groups for number in group.requests])
        patterns = list({group.pattern.text: group.pattern for group in groups}.values())
        candidates = self.scope.rows_for_any(places, requests[is_open[requests]])
        candidates &= self._rows_on_streams(batch, patterns)
        candidates &= places.level <= max(group.clearance for group in groups)
        rows = np.flatnonzero(candidates)
        if not len(rows):
            return []
        if len(rows) < batch.num_rows:
            batch = batch.take(pa.array(rows))
        pairs = self._run_switch(batch, groups)
        found_rows, numbers = rows[pairs[0]], pairs[1]
        kept = is_open[numbers]
        found_rows, numbers = found_rows[kept], numbers[kept]
        kept = self.scope.contains_pairs(places, found_rows, numbers)
        return [(found_rows[kept], numbers[kept])]

    def _run_switch(
        self, batch: pa.RecordBatch, groups: Sequence[_QueryGroup]
    ) -> tuple[Integers, Integers]:
        """Return pairs of row and request by pattern and query only."""
        for group in groups:
            if not group.number:
                # Requests usually belong to different clients, so they share no time budget.
                client = f"{group.requests[0]}"
                group.number = self._switch.subscribe(
                    group.pattern, group.query, client, group.clearance
                )
                self._by_number[group.number] = group
                self._lists = None
        self.dtds.check_types(_distinct_values(batch, "type", "version"))
        documents = batch.column("document").to_pylist()
        subscriptions: list[tuple[int, ...]] = []
        for rules, part in self._split_by_rules(batch, documents):
            variants = without_dtds(self.dtds.undescribed, rules.variants)
            verdicts = self._switch.match(part, variants=variants, marked=rules.marked)
            subscriptions += [
                verdict[1]
                if type(verdict) is Accepted
                else self._select_refused(verdict, document, groups, rules)
                for verdict, document in zip(verdicts, part, strict=True)
            ]
        for number, error in self._switch.take_suspended():
            for request in self._by_number[number].requests:
                self.failed[request] = error.to_wire()
        counts = np.fromiter(map(len, subscriptions), np.int64, len(subscriptions))
        rows = np.repeat(np.arange(len(counts)), counts)
        numbers = np.fromiter(chain.from_iterable(subscriptions), np.int64, len(rows))
        return self._expand_to_requests(rows, numbers)

    def _expand_to_requests(self, rows: Integers, numbers: Integers) -> tuple[Integers, Integers]:
        if self._lists is None:
            self._lists = _RequestLists.from_lists(
                {n: group.requests for n, group in self._by_number.items()}
            )
        return self._lists.expand_pairs(rows, numbers)

    def _split_by_rules(
        self, batch: pa.RecordBatch, documents: list[bytes]
    ) -> Iterator[tuple[_Rules, list[bytes]]]:
        states = batch.column("liveness").to_numpy()
        if not self._variants and states.max(initial=0) <= _LAST_DESCRIBED:
            yield _Rules(NO_VARIANTS), documents
            return
        origins = batch.column("origin").to_pylist()
        start = 0
        for (origin, validation), rows in groupby(
            zip(origins, map(VALIDATIONS.__getitem__, states.tolist()), strict=True)
        ):
            end = start + len(list(rows))
            variants = self._variants.get(origin, NO_VARIANTS)
            if validation is Validation.UNDESCRIBED:
                variants = EVERY_TYPE_UNDESCRIBED
            yield _Rules(variants, validation is Validation.MARKED), documents[start:end]
            start = end

    def _select_refused(
        self, verdict: Verdict, document: bytes, groups: Sequence[_QueryGroup], rules: _Rules
    ) -> tuple[int, ...]:
        """Return the subscriptions that select an event which was not accepted."""
        if isinstance(verdict, TypeMissing):
            self.dtds.undescribed.add(verdict.reference)
        try:
            return tuple([g.number for g in groups if self._selects(g, document, rules)])
        except InvalidEvent:
            self.unreadable += 1
            return ()

    def _selects(self, group: _QueryGroup, document: bytes, rules: _Rules) -> bool:
        while True:
            try:
                [selected] = self._switch.select(
                    group.number,
                    [document],
                    Liveness.RECOVERY,
                    variants=without_dtds(self.dtds.undescribed, rules.variants),
                    marked=rules.marked,
                )
            except DtdNeeded as needed:
                self.dtds.undescribed.add(needed.missing.reference)
            else:
                return selected


def _distinct_values(batch: pa.RecordBatch, *columns: str) -> set[tuple[Any, ...]]:
    found = [dictionary_codes(batch.column(name)) for name in columns]
    together = np.unique(np.stack([codes for _, codes in found]), axis=1)
    return {
        tuple(names[code] for (names, _), code in zip(found, codes, strict=True))
        for codes in together.T.tolist()
    }
