"""Answers of a node to its clients' questions, by what is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from twisted.internet.defer import Deferred

from broker.cluster.event_routes import EventRoutes
from broker.dtd.interfaces import IDtdCache
from broker.identity import Identity
from broker.matching.query.query import Query
from broker.node.event_types import EventTypes
from broker.node.status import Inspected, status
from broker.node.type_answers import Subscriber, subscribers
from broker.recovery.inspection import RecoveryInspection
from broker.sessions.session import Answerer
from broker.subscriptions.durable_answers import DurableAnswers
from broker.tracing.deliverability import Deliverability
from broker.tracing.event_fate import EventFate, Nobody, Others
from broker.tracing.explaining import Explaining
from broker.tracing.tracing import TRACE, NodeTrace, NoWays
from broker.wire.messages import Ask

#: Parses a query with these namespaces.
ParseQuery: TypeAlias = Callable[[str, Mapping[str, str]], Query]


class Explained(Inspected, Protocol):
    """The parts of a node that an explanation is about."""

    @property
    def dtds(self) -> IDtdCache: ...


class Asked(Explained, Protocol):
    """The parts of a node that answer."""

    @property
    def explaining(self) -> Explaining: ...
    @property
    def types(self) -> EventTypes: ...


def build_explaining(
    node: Explained,
    parse_query: ParseQuery,
    advise: Callable[[Query, bool], tuple[str, ...]],
    reactor: Any,
) -> Explaining:
    """What answers `explain`, and what other nodes ask of an event."""
    deliverability = Deliverability(
        sessions=lambda: node.reception.sessions,
        durables=node.durables,
        deduplication=node.event_log.deduplication,
        parse_query=parse_query,
        stopwatch=time.perf_counter,
    )
    trace = NodeTrace(
        log=node.event_log,
        matcher=node.matcher,
        dtds=node.dtds,
        deliverability=deliverability,
        ways=NoWays() if node.network is None else EventRoutes(node.network),
    )
    others: Others = Nobody()
    if node.recovery.questions is not None:
        others = node.recovery.questions
        others.register_answerer(TRACE, lambda asked: Deferred.fromCoroutine(trace.answer(asked)))
    return Explaining(
        matcher=node.matcher,
        dtds=node.dtds,
        parse_query=parse_query,
        advise=advise,
        deliverability=deliverability,
        fate=EventFate(trace, others, node.settings.node.name),
        reactor=reactor,
        stopwatch=time.perf_counter,
        accept_undescribed=node.settings.types.undescribed == "accept",
    )


def node_answers(node: Asked, parse_query: ParseQuery) -> Mapping[str, Answerer]:
    """Who answers which question."""
    recovering = RecoveryInspection(
        *(node.recovery, node.event_log, node.durables, parse_query),
        lambda client_id: [
            feed
            for session in node.reception.sessions
            if session.identity.client_id == client_id
            for feed in session.link.feeds
        ],
    )
    durable = DurableAnswers(
        durables=node.durables,
        log=node.event_log,
        sessions=lambda: node.reception.sessions,
        others=node.recovery.questions,
    )

    def answer_status(identity: Identity, _: Ask) -> Any:
        identity.check_administer()
        return status(node)

    def everybody() -> Iterator[Subscriber]:
        wants = None if node.network is None else node.network.remote_interest
        return subscribers(node.reception.sessions, node.durables, wants, parse_query)

    types = node.types.answers(everybody)
    return {
        "status": answer_status,
        "dtd-list": types.list,
        "dtd-show": types.show,
        "dtd-check": types.check,
        "dtd-add": types.add,
        "explain": lambda identity, ask: node.explaining.answer(identity, ask),
        "recoveries": recovering.list_recoveries,
        "recover-explain": recovering.explain_recovery,
        **durable.by_name(),
    }
