"""Construction of a node's network from the settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from ipaddress import ip_network
from random import Random
from typing import Any

from twisted.logger import Logger

from broker.audit import IAuditLog
from broker.cluster.acceptor import MOST_HANDSHAKES
from broker.cluster.address import NETWORK, Address, parse_unit
from broker.cluster.admission import AdmissionRules, IpRules
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.dialler import build_dialler
from broker.cluster.dtd_context import build_dtd_context
from broker.cluster.dtd_exchange import DtdExchange
from broker.cluster.gone_origins import STORED, GoneOrigins
from broker.cluster.handshake_messages import PROTOCOL_VERSIONS
from broker.cluster.link_policy import LinkPolicy
from broker.cluster.link_stacks import LinkStacks, max_frame
from broker.cluster.log_page_server import LogPageServer
from broker.cluster.membership import Dialler, Membership, MembershipSettings
from broker.cluster.missing_types import MissingTypes
from broker.cluster.multicast_group import ClusterGroup
from broker.cluster.name_keys import build_bindings
from broker.cluster.neighbours import Neighbours
from broker.cluster.network import Network
from broker.cluster.network_segment import attached_networks
from broker.cluster.page_queue import PageQueues
from broker.cluster.relay_ingest import RelayIngest, ReportDropped
from broker.cluster.relayed_types import RelayedTypes
from broker.cluster.remote_interest import RemoteInterest
from broker.cluster.replicas.replicator import Replicator
from broker.cluster.signature_check import SignatureCheck, signature_policy
from broker.cluster.stack_tables import OwnStack
from broker.cluster.types.network_types import NetworkTypes
from broker.cluster.withheld_events import WithheldEvents
from broker.config import Settings
from broker.config.key_file import read_key
from broker.config.stacks import DEFAULT_STACK, find_plugins_of
from broker.config.value_kind import split_host_port
from broker.dtd.cache import DtdCache
from broker.event.place import Mark
from broker.ingest.pending_dtds import PendingDtds
from broker.ingest.quarantine import Quarantine
from broker.ingest.unvalidated_events import UnvalidatedEvents
from broker.limit_registry import LimitRegistry
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import IMatcher
from broker.queue_memory import QueueMemory
from broker.transport.faults import describe_faults
from broker.transport.stacks import Transport

_log = Logger()


def build_network(
    settings: Settings,
    *,
    event_log: EventLog,
    matcher: IMatcher,
    dtds: DtdCache,
    neighbour_dtds: DtdExchange,
    types: NetworkTypes,
    pending_dtds: PendingDtds,
    unvalidated_events: UnvalidatedEvents,
    reread_from_log: Callable[[int, Collection[str]], object],
    quarantine: Quarantine,
    on_committed: Callable[[list[LoggedEvent], Sequence[tuple[int, ...]]], None],
    report_gap: Callable[[str, Mark, Mark, str], None],
    report_dropped: ReportDropped,
    has_lagging_subscription: Callable[[str], bool],
    reactor: Any,
    wall_clock: Callable[[], int],
    dialler: Dialler | None,
    random: Random,
    stacks: Mapping[str, OwnStack],
    audit: IAuditLog,
    limit_registry: LimitRegistry,
    queue_memory: QueueMemory,
) -> Network:
    """`stacks` names the transport of each pattern that frames do not carry.

    Raises `ConfigurationError` for an unreadable key, or unusable certificates.
    """
    network_settings = settings.network
    if settings.faults:
        _log.warn("{text}", text=describe_faults(settings.faults))
    instance = settings.stack(DEFAULT_STACK)
    plugin = find_plugins_of(instance)[1]
    assert plugin is not None
    link_stacks = LinkStacks(settings, instance, plugin, reactor.seconds(), queue_memory)
    wants = RemoteInterest(matcher)
    signatures = SignatureCheck(signature_policy(network_settings), reactor.seconds)
    replicator = Replicator(
        event_log,
        settings.streams,
        reactor,
        lambda name, data: network.neighbours.send_droppable(data, (name,)),
        lambda name: network.driver.version_of(name),
    )
    network: Network = Network(
        event_log=event_log,
        wall_clock=wall_clock,
        remote_interest=wants,
        relay_ingest=RelayIngest(
            matcher=matcher,
            event_log=event_log,
            quarantine=quarantine,
            clock=reactor,
            wall_clock=wall_clock,
            on_committed=on_committed,
            report_gap=report_gap,
            report_dropped=report_dropped,
            variants=types.variants_of,
            types=RelayedTypes(
                dtds,
                pending_dtds,
                announcements=types.announcements,
                accept_undescribed=settings.types.undescribed == "accept",
            ),
            unvalidated_events=unvalidated_events,
            reread_from_log=reread_from_log,
            has_local_match=wants.has_local_match,
        ),
        make_pages=lambda network: LogPageServer(
            event_log=event_log,
            matcher=matcher,
            remote_interest=wants,
            clock=reactor,
            destination_of=network.driver.interest_destination,
            is_cleared=network.is_cleared,
            on_page=network.driver.send_page,
            queues=PageQueues(settings.queue.events, settings.queue.bytes, queue_memory),
        ),
        dtds=neighbour_dtds,
        types=types,
        replicator=replicator,
        clock=reactor,
        link_policy=LinkPolicy(
            network_settings.clearance.rank,
            network_settings.cleartext_clearance.rank,
            network_settings.untrusted_clearance.rank,
            network_settings.group_clearance.rank,
            network_settings.validate == "every-hop",
            network_settings.link_costs,
        ),
        signatures=signatures,
        bindings=build_bindings(settings, event_log, signatures, audit),
        gone=GoneOrigins(
            *(event_log.origin, event_log.signing_key, event_log.statements(STORED)),
            *(event_log.put_statement, wall_clock, signatures.record_rejected),
            must_sign=network_settings.require_signatures,
        ),
        most_nodes=network_settings.max_nodes,
        compress=network_settings.compress,
        patience=network_settings.gap_timeout,
        stacks=stacks,
    )
    network.driver.has_lagging_subscription = has_lagging_subscription
    network.driver.withheld = WithheldEvents(
        event_log,
        network.driver.relay_ingest,
        own_address=lambda: network.membership.node.address,
        on_recovered=lambda received: network.driver.on_flow_recovered(received),
        on_covered=lambda: on_committed([], []),
    )
    missing_types = MissingTypes(
        *(dtds, pending_dtds, types.variants_of, types.announcements),
        accept_undescribed=settings.types.undescribed == "accept",
    )
    network.driver.ordered.look_up_types = missing_types.look_up
    network.driver.ordered.type_waits.count_ready = missing_types.count_ready
    neighbour_dtds.set_context(build_dtd_context(network))
    network.connect_parts(
        Membership(
            _describe(settings, event_log, wall_clock()),
            MembershipSettings(
                network=network_settings.name,
                transport=network_settings.transport,
                seeds=tuple(Endpoint(*split_host_port(each)) for each in network_settings.join),
                gateways=network_settings.gateways,
                key=None
                if network_settings.key_file is None
                else read_key(network_settings.key_file),
                rules=_rules(settings),
            ),
            network,
            dialler or build_dialler(settings, reactor),
            reactor,
            wall_clock,
            random,
        ),
        Neighbours(
            settings.node.name,
            reactor,
            network,
            link_stacks.build(Transport.TCP.value),
            link_stacks.create,
            max_frame=max_frame(settings),
        ),
        ClusterGroup(
            network.receive_group_frame,
            lambda name: (link := network.neighbours.get(name)) is not None and link.up,
        ),
    )
    acceptor = network.membership.acceptor
    acceptor.limit = limit_registry.add(
        "node-handshakes", bound=lambda: MOST_HANDSHAKES, used=lambda: acceptor.under_way
    )
    return network


def _describe(settings: Settings, log: EventLog, now_ms: int) -> NodeDescriptor:
    network_settings = settings.network
    cluster = parse_unit(network_settings.cluster) if network_settings.cluster else NETWORK
    return NodeDescriptor(
        address=Address(cluster, settings.node.name),
        origin=log.origin,
        # After a clock was set back, tables resolve the conflict. The history separates two copies
        # of a log that start in the same ms.
        incarnation=now_ms << 16 | log.current_history[1] & 0xFFFF,
        versions=PROTOCOL_VERSIONS,
        tcp=Endpoint(*split_host_port(network_settings.advertise))
        if network_settings.advertise
        else None,
        clearance=network_settings.clearance.rank,
        compressions=("zstd",),
    )


def _rules(settings: Settings) -> AdmissionRules:
    network_settings = settings.network
    rules = IpRules(
        allow=tuple(ip_network(each) for each in network_settings.allow),
        deny=tuple(ip_network(each) for each in network_settings.deny),
        segments=attached_networks if network_settings.segment == "same" else None,
    )
    links = {"tcp": network_settings.max_tcp_links, "udp": network_settings.max_udp_links}
    return AdmissionRules(network_settings.max_nodes, links, rules.allows)
