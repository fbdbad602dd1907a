"""Answers about event types: list, show, compare, register."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import Deferred

from broker.dtd.cache import DtdCache
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtd
from broker.dtd.owner import of_account
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, LogUnavailable, UnknownType
from broker.identity import Identity
from broker.ingest.unsaved_dtds import NO_UNSAVED_DTDS, UnsavedDtds
from broker.matching.query.query import Query
from broker.matching.schema.known_types import KnownTypes
from broker.matching.schema.schema_difference import (
    Effect,
    QueryEffect,
    SchemaDifference,
    compare_versions,
    find_effect,
    sort_labels,
)
from broker.sessions.session import Session
from broker.subscriptions.durable_subscriptions import DurableSubscriptions
from broker.transport.clock import IClock
from broker.transport.sleep import sleep
from broker.wire.messages import Ask

#: Distinct queries of one report.
MAX_QUERIES: Final = 5000
#: Seconds of one time slice; a long query takes 15 ms.
SLICE_SECONDS: Final = 0.005
#: Affected subscriptions named in a report; others are counted.
MAX_NAMED: Final = 200
#: In each list of a report.
MAX_PATHS: Final = 200


@attrs.frozen
class Subscriber:
    """A subscription whose query a new version may affect."""

    client: str
    """ClientId; for another node or unit its address."""
    name: str
    query: Query | None
    """None: not parsed, since too many others are."""


class RemoteQueries(Protocol):
    """Queries of other nodes and units."""

    def queries(self) -> Iterable[tuple[str, Query]]:
        """Yield (address, query)."""


def find_subscribers(
    sessions: Iterable[Session],
    durables: DurableSubscriptions,
    others: RemoteQueries | None,
    parse_query: Callable[[str, Mapping[str, str]], Query],
) -> Iterator[Subscriber]:
    """Yield those of this moment. Stored queries are parsed one by one."""
    live = [
        Subscriber(session.identity.client_id, str(feed.number), feed.query)
        for session in sessions
        for feed in session.delivery.feeds
        if feed.query is not None and not feed.is_durable
    ]
    stored = list(durables.all())
    remote = (
        [] if others is None else [Subscriber(each, "", query) for each, query in others.queries()]
    )
    yield from live
    parsed: dict[tuple[object, ...], Query | None] = {}
    for client_id, name, durable in stored:
        key = (durable.query, *sorted(durable.namespaces.items()))
        if key not in parsed and len(parsed) < MAX_QUERIES:
            parsed[key] = None
            with contextlib.suppress(BrokerError):
                parsed[key] = parse_query(durable.query, durable.namespaces)
        yield Subscriber(client_id, name, parsed.get(key))
    yield from remote


@attrs.frozen
class TypeAnswers:
    dtds: DtdCache
    known_types: KnownTypes
    find_subscribers: Callable[[], Iterator[Subscriber]]
    """Of sessions, durable ones, and those of other nodes."""
    clock: IClock
    unsaved_dtds: UnsavedDtds = NO_UNSAVED_DTDS

    def answer_list(self, _: Identity, __: Ask) -> Any:
        named = {(each.type, each.version): None for each in self.dtds.references()}
        return list(named)

    def answer_show(self, _: Identity, ask: Ask) -> Any:
        dtd = self.dtds.lookup(_asked_reference(ask), FetchHint(""))
        return dtd.addCallback(lambda found: found.text.decode())

    def answer_check(self, identity: Identity, ask: Ask) -> Any:
        """Report the changes from a known version to a text."""
        reference = _asked_reference(ask)
        identity.check_register(reference.type)
        new = self.dtds.compile_text(reference, ask.document)
        return Deferred.fromCoroutine(
            self._build_report(identity, new, ask.arguments.get("against", ""))
        )

    def answer_add(self, identity: Identity, ask: Ask) -> Any:
        """Register a text before its first event."""
        reference = _asked_reference(ask)
        identity.check_register(reference.type)
        new = self.dtds.compile_text(reference, ask.document)
        against = ask.arguments.get("against", "")
        if against:
            self._find_version(reference, against)
        known = self.dtds.known_hash(reference)

        async def register() -> dict[str, Any]:
            report = await self._build_report(identity, new, against)
            self.dtds.add(reference, ask.document, of_account(identity.account))
            await self.unsaved_dtds.when_write_settled(reference)
            if self.unsaved_dtds.is_unsaved(reference):
                raise LogUnavailable(f"the DTD of {reference} can not be written at the moment")
            return {**report, "registered": known is None}

        return Deferred.fromCoroutine(register())

    # ------------------------------------------------------------------ the report

    async def _build_report(self, identity: Identity, new: IDtd, against: str) -> dict[str, Any]:
        reference = new.reference
        report: dict[str, Any] = {
            "type": reference.type,
            "version": reference.version,
            "content_hash": new.content_hash,
            "known": self.dtds.known_hash(reference),
            "against": "",
        }
        before = self._find_previous(reference, against)
        if before is None:
            return report
        between = compare_versions(before, new)
        changed = [f"{label}: {between.changed[label]}" for label in sort_labels(between.changed)]
        if _schema_hash(before) != _schema_hash(new):
            changed.insert(0, "the XML Schema: it may accept other documents")
        affected = await self._find_affected(between, named=identity.administer)
        return {
            **report,
            "against": before.reference.version,
            "came": sort_labels(between.added)[:MAX_PATHS],
            "went": sort_labels(between.removed)[:MAX_PATHS],
            "changed": changed[:MAX_PATHS],
            **affected,
        }

    async def _find_affected(self, between: SchemaDifference, *, named: bool) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        affected: list[dict[str, Any]] = []
        effects: dict[Query, QueryEffect] = {}
        began = self.clock.seconds()
        for each in self.find_subscribers():
            took = self.clock.seconds() - began
            if took >= SLICE_SECONDS:
                # Others have as much time.
                await sleep(self.clock, took)
                began = self.clock.seconds()
            if each.query is None:
                counts["not-looked-at"] += 1
                continue
            effect = effects.get(each.query)
            if effect is None:
                if len(effects) >= MAX_QUERIES:
                    counts["not-looked-at"] += 1
                    continue
                effect = effects[each.query] = find_effect(each.query, between)
            counts[effect.effect.value] += 1
            if named and effect.effect is not Effect.UNAFFECTED and len(affected) < MAX_NAMED:
                affected.append(
                    {
                        "client": each.client,
                        "name": each.name,
                        "query": each.query.written[:400],
                        "effect": effect.effect.value,
                        "reason": effect.reason[:400],
                        "paths": list(effect.paths[:20]),
                    }
                )
        return {"subscriptions": dict(counts), "affected": affected}

    def _find_previous(self, reference: DtdReference, against: str) -> IDtd | None:
        if against:
            return self._find_version(reference, against)
        older = self.known_types.previous_version(reference)
        return None if older is None else self.known_types.get_dtd(older)

    def _find_version(self, reference: DtdReference, version: str) -> IDtd:
        named = DtdReference(reference.type, version)
        found = self.known_types.get_dtd(named)
        if found is None:
            raise UnknownType(f"no DTD is known here for {named}")
        return found


def _schema_hash(dtd: IDtd) -> str:
    return "" if dtd.schema is None else dtd.schema.content_hash


def _asked_reference(ask: Ask) -> DtdReference:
    return DtdReference(ask.arguments.get("type", ""), ask.arguments.get("version", ""))
