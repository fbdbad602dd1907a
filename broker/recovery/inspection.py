"""Answers to clients about recoveries: `recoveries` and `recover-explain`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
from twisted.internet.defer import Deferred

from broker.delivery.feed import Feed, FeedState
from broker.delivery.recovery_contract import MarkRange, RecoveryRequest
from broker.delivery.splice import (
    limit_ranges,
    splice_at_cut,
    splice_at_retention,
    splice_whole_past,
)
from broker.errors import BadPosition, BadQuery, UnknownSubscription
from broker.event.place import Mark, Position
from broker.event.stream import StreamPattern
from broker.identity import Identity
from broker.log.event_log import EventLog
from broker.matching.query.query import Query
from broker.recovery.archive_access import Coverage
from broker.recovery.node_recovery import NodeRecovery
from broker.recovery.plan_explanation import PlanContext, explain_plan
from broker.recovery.planner import OWN_LOG, plan_steps
from broker.subscriptions.durable_subscriptions import DurableSubscription, DurableSubscriptions
from broker.subscriptions.start_position import check_position, rewind_lost_branches
from broker.wire.messages import Ask

_BEFORE_FIRST: Mark = (0, 0)


class RecoveryInspection:
    def __init__(
        self,
        recovery: NodeRecovery,
        log: EventLog,
        durables: DurableSubscriptions,
        parse_query: Callable[[str, Mapping[str, str]], Query],
        feeds: Callable[[str], Iterable[Feed]] = lambda _: (),
    ) -> None:
        self._recovery = recovery
        self._log = log
        self._durables = durables
        self._parse_query = parse_query
        self._feeds = feeds

    def list_recoveries(self, identity: Identity, _: Ask) -> list[dict[str, Any]]:
        """List a client's recoveries, and its subscriptions that catch up from this log."""
        client_id = identity.client_id
        catching_up = [
            {"subscription": feed.number, "sources": [OWN_LOG], "stage": OWN_LOG}
            for feed in self._feeds(client_id)
            if feed.state is FeedState.UNCONFIRMED
            or (feed.state is FeedState.CATCHING_UP and not feed.awaits_commit)
        ]
        return [*self._recovery.active_snapshots(client_id), *catching_up]

    def explain_recovery(self, identity: Identity, ask: Ask) -> Deferred[dict[str, Any]]:
        """Fail with `BadQuery`, `BadName`, `NotAllowed`, `BadPosition` or `UnknownSubscription`."""
        return Deferred.fromCoroutine(self._explain_recovery(identity, ask.arguments))

    async def _explain_recovery(
        self, identity: Identity, arguments: Mapping[str, str]
    ) -> dict[str, Any]:
        name = arguments.get("durable", "")
        durable = self._get_durable(identity.client_id, name) if name else None
        texts = {} if durable is None else {"query": durable.query, "streams": durable.pattern}
        texts = {
            **texts,
            **{key: arguments[key] for key in ("query", "streams") if key in arguments},
        }
        namespaces = _parse_namespaces(arguments.get("namespaces", ""))
        if durable is not None and "query" not in arguments:
            namespaces = dict(durable.namespaces)
        query = self._parse_query(texts.get("query", "true()"), namespaces)
        pattern = StreamPattern.parse(texts.get("streams", ">"))
        identity.check_subscribe(pattern)
        bounds = _ReplayBounds.parse(arguments)
        if durable is None:
            requested, recovered = self._replay_ranges(bounds)
        else:
            bounds = attrs.evolve(bounds, since=durable.position)
            requested, recovered = self._durable_ranges(durable)
        missed = RecoveryRequest(
            *(pattern, query, identity.clearance.rank, recovered),
            all_origins=durable is None and bounds.until is None,
            client_id=identity.client_id,
            durable_name=name,
            previous_address="" if durable is None else durable.previous_address,
        )
        return {
            "query": query.written,
            "streams": pattern.text,
            "namespaces": namespaces,
            "durable": name,
            "position": None if bounds.since is None else str(bounds.since),
            "moved_to": "" if durable is None else durable.moved_to,
            **await self._explain_ranges(requested, missed),
        }

    async def _explain_ranges(
        self, requested: Mapping[str, MarkRange], missed: RecoveryRequest
    ) -> dict[str, Any]:
        context = self._recovery.context
        sources = context.available_sources(missed, len(self._recovery.active))
        covered = Coverage()
        if context.archive is not None and (missed.ranges or missed.all_origins):
            covered = await context.archive.get_coverage(
                {o: r[0] for o, r in missed.ranges.items()}
            )
        plan_context = PlanContext(
            own_origin=self._log.origin,
            log_begins=self._log.begins_after,
            sources=sources,
            origin_nodes=lambda origin: [str(each) for each in context.origin_nodes(origin)],
            archived=covered.intervals,
            is_archive_known=bool(covered.intervals) or not missed.ranges,
        )
        all_origins = missed.all_origins and not (covered.is_known and not covered.other_origins)
        steps = plan_steps(missed.ranges, sources, all_origins=all_origins)
        if not (missed.ranges or missed.all_origins):
            steps = []
        return explain_plan(
            requested, missed.ranges, steps, plan_context, all_origins=missed.all_origins
        )

    def _get_durable(self, client_id: str, name: str) -> DurableSubscription:
        found = self._durables.get(client_id, name)
        if found is None:
            raise UnknownSubscription(
                f"this node has no durable subscription {name[:80]!r} of client {client_id!r}"
            )
        return found

    def _replay_ranges(
        self, bounds: _ReplayBounds
    ) -> tuple[Mapping[str, MarkRange], Mapping[str, MarkRange]]:
        cut = self._log.end_position()
        begun: Mapping[str, Mark] = {}
        if bounds.since is None:
            ranges = splice_whole_past(cut).ranges
        else:
            check_position(self._log, bounds.since)
            begun = rewind_lost_branches(self._log, bounds.since.marks)
            ranges = splice_at_cut(begun, cut, "", {}).ranges
        if bounds.until is not None:
            check_position(self._log, bounds.until)
            ranges = limit_ranges(ranges, bounds.until.marks, begun)
        return ranges, ranges

    def _durable_ranges(
        self, durable: DurableSubscription
    ) -> tuple[Mapping[str, MarkRange], Mapping[str, MarkRange]]:
        """Return the ranges missed so far, and the part that this log lacks."""
        log = self._log
        position = rewind_lost_branches(log, durable.position.marks)
        cut = log.end_position()
        flows_from = durable.active_from
        if durable.moved_to or flows_from is None:
            recovered = splice_at_cut(position, cut, log.origin, log.begins_after).ranges
        else:
            complete = {o: mark for o, mark in flows_from.marks.items() if o != log.origin}
            recovered = splice_at_retention(position, complete, log.begins_after).ranges
        requested: dict[str, MarkRange] = dict(recovered)
        for origin, mark in cut.items():
            begun = position.get(origin, _BEFORE_FIRST)
            if begun[1] < mark[1]:
                requested[origin] = (begun, mark)
        return requested, recovered


@attrs.frozen
class _ReplayBounds:
    since: Position | None
    until: Position | None

    @classmethod
    def parse(cls, arguments: Mapping[str, str]) -> _ReplayBounds:
        return cls(
            *(
                _parse_position(arguments[end]) if end in arguments else None
                for end in ("since", "until")
            )
        )


def _parse_position(text: str) -> Position:
    try:
        return Position.parse(text)
    except (ValueError, TypeError):
        raise BadPosition(f"{text[:80]!r} is not a position") from None


def _parse_namespaces(text: str) -> dict[str, str]:
    try:
        bindings = json.loads(text or "{}")
    except (ValueError, RecursionError):
        bindings = None
    if not isinstance(bindings, dict) or not all(isinstance(u, str) for u in bindings.values()):
        raise BadQuery("the namespaces are not a JSON object of prefix and URI")
    return bindings
