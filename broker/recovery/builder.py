"""Builds a node's recovery and its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from twisted.internet.defer import succeed

from broker.cluster.address import Address, address_or_none
from broker.cluster.network import Network
from broker.cluster.network_question import NetworkQuestions
from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.remote_origins import RemoteOrigins
from broker.cluster.signature_check import SignatureCheck, signature_policy
from broker.config import Settings
from broker.event.flow import origin_of
from broker.log.event_log import EventLog
from broker.matching.contract import IMatcher
from broker.matching.query.query import Query
from broker.queue_memory import QueueMemory
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.archive_catch_up import ArchiveCatchUp
from broker.recovery.branch_restore import BranchRestore, OnCommitted
from broker.recovery.checked_archive import with_checks
from broker.recovery.context import RecoveryContext
from broker.recovery.durable_handover import DurableHandover
from broker.recovery.flow_archive import with_flows
from broker.recovery.handover_responder import SupersedeSession
from broker.recovery.log_page_reader import LogPageReader
from broker.recovery.log_repair import LogRepair
from broker.recovery.node_recovery import NodeRecovery
from broker.recovery.origin_reader import OriginReader
from broker.recovery.page_exchange import PageExchange
from broker.recovery.page_matcher import PageMatcher
from broker.recovery.remote_logs import RemoteLogs
from broker.recovery.silent_origin import SilentOriginRecovery
from broker.subscriptions.durable_subscriptions import DurableSubscriptions
from broker.transport.clock import IClock


def build_recovery(
    clock: IClock,
    queue_memory: QueueMemory,
    *,
    event_log: EventLog,
    matcher: IMatcher,
    durables: DurableSubscriptions,
    page_matcher: PageMatcher,
    parse_query: Callable[[str, Mapping[str, str]], Query],
    network: Network | None,
    supersede: SupersedeSession,
    archive: ArchiveAccess | None,
    settings: Settings,
    on_committed: OnCommitted,
    report_losses: Callable[[], object],
) -> NodeRecovery:
    pages = LogPageReader(event_log, matcher, page_matcher, durables)
    policy = signature_policy(settings.network)
    check = SignatureCheck(policy, clock.seconds) if network is None else network.signatures
    accepts = check.accepts_recovered
    if archive is not None:
        archive = with_checks(archive, check.find_forged)
    flow_archive = None if archive is None else with_flows(archive, event_log.flows)
    messenger = page_exchange = handover = archive_catch_up = questions = remote_logs = None
    if network is not None:
        members, gateways = settings.network.join, settings.network.gateways
        messenger = NodeMessenger(
            network,
            has_seeds=bool(members or gateways),
            has_members=bool(members),
        )
        questions = NetworkQuestions(messenger, clock, check.record_rejected)
        page_exchange = PageExchange(
            *(messenger, pages, parse_query, clock, accepts, event_log.signing_key),
            policy.revoked,
        )
        make_reader = partial(
            OriginReader, page_exchange=page_exchange, archive=flow_archive, parse_query=parse_query
        )
        remote_logs = RemoteLogs(RemoteOrigins(network), questions, make_reader)
        handover = DurableHandover(
            *(messenger, durables, supersede, clock),
            find_archived=(lambda *_: succeed(None)) if archive is None else archive.find_durable,
            must_prove=settings.network.require_signatures,
        )

    def is_reachable(text: str) -> bool:
        address = address_or_none(text)
        return messenger is not None and address is not None and messenger.is_reachable(address)

    context = RecoveryContext(
        own_origin=event_log.origin,
        page_reader=pages,
        page_exchange=page_exchange,
        origin_nodes=lambda origin: [] if messenger is None else messenger.find_sources(origin),
        is_reachable=is_reachable,
        archive=flow_archive,
        clock=clock,
        patience=settings.recovery.gap_timeout,
        remote_logs=remote_logs,
        flows_of=lambda flow: event_log.flows.of_origin(origin_of(flow)),
        must_prove=settings.network.require_signatures,
        is_gone=lambda flow: network is not None and network.gone.is_gone(flow),
        queue_memory=queue_memory,
        revoked=policy.revoked,
    )

    def find_nodes(origin: str) -> list[Address]:
        if network is None or messenger is None:
            return []
        neighbour = network.replicas.replicator.neighbour
        near = [each.node.address for each in network.neighbours if each.up]
        holders = [address for address in near if address.node == neighbour]
        found = [*messenger.find_sources(origin), *holders, *near, *messenger.list_members()]
        return [
            each for each in found if each != messenger.own_address and messenger.is_reachable(each)
        ]

    log_repair = LogRepair(
        event_log,
        context,
        find_nodes,
        lambda: messenger is not None and messenger.is_cut_off,
        parse_query,
    )
    event_log.repairs.find_events = log_repair.find_events
    if network is not None and flow_archive is not None:
        archive_catch_up = ArchiveCatchUp(RemoteOrigins(network), flow_archive, context)
    branch_restore = silent_origin_recovery = None
    if network is not None and page_exchange is not None and remote_logs is not None:
        branch_restore = BranchRestore(
            *(network, event_log, page_exchange, archive, clock),
            *(parse_query, on_committed, report_losses),
        )
        silent_origin_recovery = SilentOriginRecovery(
            RemoteOrigins(network), remote_logs, flow_archive, context
        )
    return NodeRecovery(
        context, handover, archive_catch_up, questions, branch_restore, silent_origin_recovery
    )
