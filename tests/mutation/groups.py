"""Groups of modules to mutate, with the tests that should notice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import attrs

from tests.mutation.mutants import Mutant

ROOT: Final = Path(__file__).resolve().parents[2]


@attrs.frozen
class Group:
    """Modules with one purpose, and their quick tests."""

    name: str
    modules: str
    """Lines of `folder: names`."""
    tests: tuple[str, ...]
    share: float = 0.15
    """Fraction of its mutants that are tried."""
    lines: str = ""
    """A regular expression; only mutants of matching lines are tried."""

    def has(self, mutant: Mutant) -> bool:
        return re.search(self.lines, mutant.before) is not None

    def paths(self) -> list[Path]:
        return [
            ROOT / folder.strip() / f"{name}.py"
            for line in self.modules.strip().splitlines()
            for folder, _, names in [line.partition(":")]
            for name in names.split()
        ]


def _tests(text: str) -> tuple[str, ...]:
    return tuple(
        f"tests/{folder.strip()}/test_{name}.py" if name != "*" else f"tests/{folder.strip()}"
        for line in text.strip().splitlines()
        for folder, _, names in [line.partition(":")]
        for name in names.split()
    )


GROUPS: Final = (
    Group(
        "admission",
        """
        broker/cluster: admission acceptor handshake_messages handshake_core clone_detection
        broker/cluster: network_segment address admission_context descriptor link_policy
        """,
        _tests("""
        cluster: admission acceptor handshake_core address descriptor clone_detection
        cluster: link_policy network_segment
        simulation/network: addresses clones joining rejoining slow_nodes
        simulation/network: equal_node_names link_costs clearance configured_members
        """),
        share=1.0,
    ),
    Group(
        "joining",
        """
        broker/cluster: joining meshing start_position timer_lag
        """,
        _tests("""
        cluster: joining start_position meshing
        simulation/network: addresses joining rejoining slow_nodes new_origins
        simulation/network: configured_members
        """),
        share=0.3,
    ),
    Group(
        "rights",
        """
        broker/identity: accounts avatar certificate_names checkers clearance client_ids
        broker/identity: credentials identity login login_delays rights secret secret_book tokens
        broker/ingest: authorisation account_rate head_check
        broker/streams: cleared_parts
        broker/matching: readable_streams
        broker/sessions: account_changes
        """,
        _tests("""
        identity: *
        ingest: authorisation account_rate head_check input
        streams: transports cleared_parts
        matching: clearance contract
        sessions: session account_changes
        simulation: reload identities
        """),
        share=1.0,
    ),
    Group(
        "clearance",
        """
        broker/subscriptions: subscription_requests durable_answers
        broker/ingest: authorisation
        broker/node: answers type_answers
        broker/delivery: session_delivery catch_up
        broker/ingest: late_validation
        broker/cluster: link_policy network node_messenger dtd_exchange network_factory
        broker/cluster: log_page_server
        broker/cluster/map: shortest_paths unit_graph cluster_graph own_links route_table
        broker/cluster/traffic: sender
        broker/recovery: page_exchange inspection log_page_reader
        broker/recovery: archive_source log_source
        broker/replay/engine: request_matcher request_scope
        """,
        _tests("""
        delivery: session_delivery catch_up delivery_clearance
        sessions: session
        subscriptions: durable_subscriptions
        node: answers
        ingest: parts authorisation input
        recovery: log_page_reader replica_pages page_exchange subscription_recovery
        recovery: plan_explanation
        replay/engine: request_matcher
        cluster: log_page_server
        cluster/map: *
        cluster/traffic: sender flows core
        simulation: durable_commands registered_types identities malformed_messages
        simulation/network: clearance dtd_exchange hostile_types link_costs replays
        """),
        share=1.0,
        lines=r"clear|check_(subscribe|publish|register|administer)|_may\(|may_(match|subscribe)|owns|administer|rank|level",
    ),
    Group(
        "recovery",
        """
        broker/recovery: planner subscription_recovery page_exchange log_page_reader
        broker/recovery: branch_restore log_source archive_source
        broker/recovery: unarchived_events durable_search
        broker/cluster: node_requests gateway_rotation
        broker/transport: open_requests
        """,
        _tests("""
        recovery: page_exchange subscription_recovery recovery_branches unreachable_nodes
        recovery: unknown_origins archive_repair log_source page_merge silent_origin
        recovery: log_page_reader replica_pages messages planner page_schedule
        recovery: plan_explanation
        replay: request
        recovery: log_repair branch_restore restored_events
        recovery: unarchived_events lost_branch_reader durable_search
        cluster: node_requests
        transport: open_requests
        simulation/network: recovery durable_search restored restored_sources restored_archives
        simulation/network: refused_in_recovery clearance clones silent_origins duplicates
        """),
    ),
    Group(
        "lost-logs",
        """
        broker/recovery: silent_origin remote_logs page_merge
        """,
        _tests("""
        recovery: silent_origin
        simulation/network: silent_origins
        """),
        share=0.3,
    ),
    Group(
        "order",
        """
        broker/replay: ordering
        broker/recovery: log_merge page_schedule page_matcher
        """,
        _tests("""
        replay: ordering
        recovery: log_merge page_schedule page_matcher log_page_reader
        """),
    ),
    Group(
        "gaps",
        """
        broker/delivery: gaps catch_up recovered_feeds splice
        broker/subscriptions: start_position
        broker/ingest: late_validation pending_dtds type_lookups
        broker/ingest: unvalidated_events acknowledgement_policy
        broker/cluster: relayed_types relayed_entry log_page_server
        """,
        _tests("""
        delivery: catch_up gaps recovered_feeds session_delivery retention_gaps
        subscriptions: start_position durable_subscriptions
        sessions: session
        ingest: parts
        ingest: unvalidated_events pending_dtds type_lookups
        delivery: splice
        cluster: log_page_server neighbour_losses relay_ingest relayed_entry
        simulation/network: gaps splice dtd_exchange type_distribution hostile_types clearance
        simulation/network: subscription_flow damaged_logs lost_disks
        simulation: retention missing_types slow_subscribers
        """),
    ),
    Group(
        "log",
        """
        broker/log: event_log commit pending_commit checksum history log_history deduplication
        broker/log: damage coverage chunk_places stored_chunk origin_table checked_table
        broker/log: logged_event archive_hold repair
        broker/log: chunk_repair
        """,
        _tests("""
        log: chunk_table chunk damage deduplication event_log event_log_places formats
        log: pending_commit
        log: history replica_table replica_model log_file log_history origin_table repair
        log: chunk_repair archive_hold checked_table
        simulation: retention restored_lone_node restarts
        simulation/network: damaged_logs clones restored
        """),
    ),
)
