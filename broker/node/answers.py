"""A node's answers to questions of its clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from twisted.internet.defer import Deferred

from broker.cluster.event_routes import EventRoutes
from broker.dtd.interfaces import IDtdCache
from broker.errors import ConfigurationError
from broker.event.stream import check_client_id
from broker.identity import Identity
from broker.ingest.validation_policy import ValidationPolicy
from broker.matching.query.query import Query
from broker.node.event_types import EventTypes
from broker.node.gone_answers import give_up_origin
from broker.node.mesh_answers import MeshAnswers
from broker.node.operation_answers import OperationAnswers
from broker.node.order_answers import OrderAnswers
from broker.node.reload import Reload
from broker.node.status import InspectedNode, build_status
from broker.node.type_answers import Subscriber, find_subscribers
from broker.recovery.inspection import RecoveryInspection
from broker.sessions.question_turns import QuestionTurns
from broker.sessions.session import Answerer
from broker.streams.ticket import TICKET_REQUEST
from broker.subscriptions.client_owner import NO_OWNER
from broker.subscriptions.durable_answers import DurableAnswers
from broker.tracing.deliverability import DeliveryFates
from broker.tracing.event_fate import NetworkTrace, NoOtherNodes, OtherNodes
from broker.tracing.event_paths import PATHS_QUESTION, EventPaths
from broker.tracing.explanation_answers import ExplanationAnswers
from broker.tracing.node_trace import TRACE_QUESTION, NodeTrace, NoRoutes
from broker.transport.clock import IClock
from broker.wire.messages import Ask

ParseQuery: TypeAlias = Callable[[str, Mapping[str, str]], Query]


class ExplainedNode(InspectedNode, Protocol):
    @property
    def dtds(self) -> IDtdCache: ...


class AnsweringNode(ExplainedNode, Protocol):
    @property
    def explanation_answers(self) -> ExplanationAnswers: ...
    @property
    def types(self) -> EventTypes: ...
    @property
    def reload(self) -> Reload | None: ...


def build_explanation_answers(
    node: ExplainedNode,
    parse_query: ParseQuery,
    advise: Callable[[Query, bool], tuple[str, ...]],
    reactor: Any,
) -> ExplanationAnswers:
    """Build the answers, and register those to other nodes."""
    delivery_fates = DeliveryFates(
        sessions=lambda: node.acceptor.sessions,
        durables=node.durables,
        deduplication=node.event_log.deduplication,
        parse_query=parse_query,
        stopwatch=time.perf_counter,
        clock=reactor,
    )
    trace = NodeTrace(
        log=node.event_log,
        matcher=node.matcher,
        dtds=node.dtds,
        delivery_fates=delivery_fates,
        routes=NoRoutes() if node.network is None else EventRoutes(node.network),
        stacks=node.transports,
    )
    others: OtherNodes = NoOtherNodes()
    if node.recovery.questions is not None:
        others = node.recovery.questions
        others.register_answerer(
            TRACE_QUESTION, lambda asked: Deferred.fromCoroutine(trace.answer_question(asked))
        )
    return ExplanationAnswers(
        matcher=node.matcher,
        dtds=node.dtds,
        parse_query=parse_query,
        advise=advise,
        delivery_fates=delivery_fates,
        network_trace=NetworkTrace(trace, others, node.settings.node.name),
        reactor=reactor,
        stopwatch=time.perf_counter,
        accept_undescribed=ValidationPolicy(node.settings).may_accept_any,
    )


def _build_event_paths(node: AnsweringNode) -> EventPaths:
    """Build the answers, and register those to other nodes."""
    others: OtherNodes = NoOtherNodes()
    name = node.settings.node.name
    if node.recovery.questions is None:
        return EventPaths(node.event_log, node.transports, others, name)
    others = node.recovery.questions
    paths = EventPaths(node.event_log, node.transports, others, name)
    others.register_answerer(
        PATHS_QUESTION, lambda asked: Deferred.fromCoroutine(paths.answer_question(asked))
    )
    return paths


def build_shared_answers(
    node: AnsweringNode, parse_query: ParseQuery, clock: IClock
) -> Mapping[str, Answerer]:
    """Return the answers, for which accounts have their shares of the node's time."""
    turns = QuestionTurns(clock, node.limit_registry)
    answers = build_answers(node, parse_query)
    return {what: turns.share(answerer) for what, answerer in answers.items()}


def build_answers(node: AnsweringNode, parse_query: ParseQuery) -> Mapping[str, Answerer]:
    recoveries = RecoveryInspection(
        *(node.recovery, node.event_log, node.durables, parse_query),
        lambda client_id: [
            feed
            for session in node.acceptor.sessions
            if session.identity.client_id == client_id
            for feed in session.delivery.feeds
        ],
    )
    durable = DurableAnswers(
        durables=node.durables,
        log=node.event_log,
        sessions=lambda: node.acceptor.sessions,
        others=node.recovery.questions,
    )

    def answer_status(identity: Identity, _: Ask) -> Any:
        identity.check_administer()
        return build_status(node)

    def answer_client_reset(identity: Identity, ask: Ask) -> Any:
        identity.check_administer()
        client = check_client_id(ask.arguments.get("client", ""))
        incarnation, had_session = node.acceptor.reset_client(client)
        had_owner = node.durables.owner_of(client) != NO_OWNER
        node.durables.set_owner(client, NO_OWNER)
        answer = {"client": client, "incarnation": incarnation, "session_ended": had_session}
        answer["owner_deleted"] = had_owner
        return node.event_log.when_state_committed().addCallback(lambda _: answer)

    def answer_give_up(identity: Identity, ask: Ask) -> Any:
        identity.check_administer()
        return give_up_origin(node.network, ask.arguments)

    def answer_reload(identity: Identity, ask: Ask) -> Any:
        identity.check_administer()
        if node.reload is None:
            raise ConfigurationError("this node runs without a configuration file")
        return node.reload.answer(identity, ask)

    def list_subscribers() -> Iterator[Subscriber]:
        queries = None if node.network is None else node.network.remote_interest
        return find_subscribers(node.acceptor.sessions, node.durables, queries, parse_query)

    paths = _build_event_paths(node)

    def answer_paths(identity: Identity, ask: Ask) -> Any:
        event_id = ask.arguments.get("event", "")
        return Deferred.fromCoroutine(paths.find_paths(identity, event_id))

    orders = OrderAnswers(lambda: node.transports)
    operations = OperationAnswers(
        node.settings.node.name, lambda: node.transports, node.recovery.questions
    )
    meshes = MeshAnswers(lambda: node.transports)
    types = node.types.build_answers(list_subscribers)
    return {
        "status": answer_status,
        "reload": answer_reload,
        "client-reset": answer_client_reset,
        "log-give-up": answer_give_up,
        "dtd-list": types.answer_list,
        "dtd-show": types.answer_show,
        "dtd-check": types.answer_check,
        "dtd-add": types.answer_add,
        "explain": lambda identity, ask: node.explanation_answers.answer(identity, ask),
        "event-paths": answer_paths,
        "recoveries": recoveries.list_recoveries,
        "recover-explain": recoveries.explain_recovery,
        TICKET_REQUEST: meshes.answer_ticket,
        "order-proof": orders.answer_proof,
        "order-admit": orders.answer_admit,
        "order-remove": orders.answer_remove,
        "operate": operations.answer,
        **durable.answerers(),
    }
