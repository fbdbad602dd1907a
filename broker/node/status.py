"""Status of a node, for `xmlbroker status` and metrics."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs

import broker
from broker.cluster.network import Network
from broker.cluster.network_snapshot import network_snapshot
from broker.config import Settings
from broker.delivery.output import Output
from broker.ingest.input import Input
from broker.ingest.outcomes import DeliveryOutcomes
from broker.limit_registry import LimitRegistry
from broker.log.event_log import EventLog
from broker.log.repair import OUTCOMES
from broker.matching.contract import IMatcher
from broker.recovery.node_recovery import NodeRecovery
from broker.recovery.snapshot import recovery_snapshot
from broker.sessions.acceptor import SessionAcceptor
from broker.sessions.session import Session
from broker.streams.transports import StreamTransports
from broker.subscriptions.durable_report import build_durable_report
from broker.subscriptions.durable_subscriptions import DurableSubscriptions
from broker.subscriptions.subscription_requests import SubscriptionRequests
from broker.subscriptions.type_change_notices import TypeChangeNotices
from broker.transport.view import LinkState


class HasSnapshot(Protocol):
    def snapshot(self) -> dict[str, Any]: ...


class InspectedNode(Protocol):
    @property
    def settings(self) -> Settings: ...
    @property
    def started_ms(self) -> int: ...
    @property
    def event_log(self) -> EventLog: ...
    @property
    def matcher(self) -> IMatcher: ...
    @property
    def types(self) -> HasSnapshot: ...
    @property
    def input(self) -> Input: ...
    @property
    def output(self) -> Output: ...
    @property
    def subscription_requests(self) -> SubscriptionRequests: ...
    @property
    def durables(self) -> DurableSubscriptions: ...
    @property
    def acceptor(self) -> SessionAcceptor: ...
    @property
    def notices(self) -> TypeChangeNotices: ...
    @property
    def network(self) -> Network | None: ...
    @property
    def transports(self) -> StreamTransports | None: ...
    @property
    def recovery(self) -> NodeRecovery: ...
    @property
    def limit_registry(self) -> LimitRegistry: ...
    @property
    def list_inputs(self) -> Callable[[], Sequence[Mapping[str, Any]]]: ...


def build_status(node: InspectedNode) -> dict[str, Any]:
    log = node.event_log
    bounds = log.bounds
    resident, private = read_memory()
    return {
        "node": node.settings.node.name,
        "version": broker.__version__,
        "origin": log.origin,
        "public_key": None if log.signing_key is None else str(log.signing_key.public),
        "started_ms": node.started_ms,
        "memory": {"resident_bytes": resident, "private_bytes": private},
        "log": {
            "epoch": bounds.epoch,
            "first": bounds.first,
            "last": bounds.last,
            "used_bytes": bounds.used_bytes,
            "pending_bytes": log.pending_bytes,
            "commits": log.commits,
            "failures": log.failures,
            "writable": log.is_writable,
            "damage": {
                **{name: log.repairs.counts[name] for name in OUTCOMES},
                "healed_values": log.startup_repairs.healed,
                "lost_values": list(log.startup_repairs.lost),
                "lost": [str(each) for each in log.repairs.given_up[:100]],
            },
        },
        "published": build_publish_status(node),
        "delivered": attrs.asdict(sum_delivery_outcomes(node)),
        "dropped_by_policy": dict(node.output.count_dropped_by_policy()),
        "matcher": dict(node.matcher.statistics()),
        "types": [attrs.asdict(figures) for figures in node.matcher.type_counters()],
        "dtds": node.types.snapshot(),
        "notices": attrs.asdict(node.notices.counts),
        "durable_subscriptions": len(node.durables),
        "durable": build_durable_report(node.durables),
        "limits": node.limit_registry.snapshot(),
        "refused_connections": dict(node.acceptor.refused_connections),
        "refused_subscriptions": dict(node.subscription_requests.refused_subscriptions),
        "broken_connections": dict(node.acceptor.broken_connections),
        "ended_sessions": dict(node.acceptor.ended_sessions),
        "network": build_network_status(node),
        "stacks": [] if node.transports is None else node.transports.snapshot(),
        "recovery": build_recovery_status(node),
        "inputs": list(node.list_inputs()),
        "incarnations_ahead": node.acceptor.incarnations.snapshot(),
        "sessions": [_session_row(session) for session in node.acceptor.sessions],
    }


def build_network_status(node: InspectedNode) -> dict[str, Any] | None:
    return (
        None if node.network is None else network_snapshot(node.settings.network.name, node.network)
    )


def build_recovery_status(node: InspectedNode) -> dict[str, Any]:
    return recovery_snapshot(node.recovery, node.event_log)


def build_publish_status(node: InspectedNode) -> dict[str, Any]:
    return attrs.asdict(node.input.outcomes)


def sum_delivery_outcomes(node: InspectedNode) -> DeliveryOutcomes:
    total = DeliveryOutcomes()
    total.add(node.output.ended_outcomes)
    for delivery in node.output.session_deliveries:
        delivery.update_outcomes()
        for feed in delivery.feeds:
            total.add(feed.outcomes)
    return total


def _session_row(session: Session) -> dict[str, Any]:
    queued, queued_bytes = session.delivery.queued
    return {
        "client": session.identity.client_id,
        "account": session.identity.account,
        "incarnation": session.incarnation,
        "peer": session.peer,
        "connected": session.state is LinkState.CONNECTED,
        "queued_events": queued,
        "queued_bytes": queued_bytes,
        "subscriptions": [
            {
                "number": feed.number,
                "pace": feed.state.value,
                "durable": feed.is_durable,
                "queue": feed.policy.text,
                **attrs.asdict(feed.outcomes),
            }
            for feed in session.delivery.feeds
        ],
    }


def read_memory() -> tuple[int, int]:
    """Return (resident, private) bytes of this process. Mapped pages of the log are not private."""
    with open("/proc/self/statm") as file:
        fields = file.read().split()
    page = resource.getpagesize()
    return int(fields[1]) * page, (int(fields[1]) - int(fields[2])) * page
