"""Snapshot of a node's recoveries and its archive, for `xmlbroker status` and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from broker.event.place import Mark
from broker.log.event_log import EventLog
from broker.recovery.branch_restore import RestoreCounts
from broker.recovery.node_recovery import NodeRecovery


def recovery_snapshot(recovery: NodeRecovery, log: EventLog) -> dict[str, Any]:
    """`archive` and `replays` are None without an archive."""
    archive = recovery.context.archive
    processes = {} if archive is None else archive.snapshot()
    return {
        "archive": _archive_snapshot(processes.get("archiver"), log),
        "replays": processes.get("replays"),
        "recoveries": _recovery_counts(recovery),
        "hand_offs": _handover_counts(recovery),
        "pages": _page_counts(recovery),
    }


def _archive_snapshot(archiver: Mapping[str, Any] | None, log: EventLog) -> dict[str, Any] | None:
    if archiver is None:
        return None
    fields = dict(archiver)
    reached: Mapping[str, Mark] = fields.pop("reached")
    own = reached.get(log.origin)
    return {
        **fields,
        "archived": {origin: f"{mark[0]}:{mark[1]}" for origin, mark in reached.items()},
        "held_behind": None
        if log.archive_hold.held_after is None
        else "{}:{}".format(*log.archive_hold.held_after),
        "hold_bytes": log.archive_hold.most_bytes,
        "removed_unarchived": log.archive_hold.dropped_unarchived,
        # None: the archiver has not reported yet.
        "behind": None if own is None else max(0, log.own_end[1] - own[1]),
    }


def _recovery_counts(recovery: NodeRecovery) -> dict[str, Any]:
    found = Counter(recovery.events_by_source)
    for each in recovery.active:
        found.update(each.events_by_source)
    return {
        "begun": recovery.started,
        "under_way": len(recovery.active),
        "cancelled": recovery.cancelled,
        "failed": recovery.failed,
        "lost_places": recovery.lost_places,
        "stood_in": 0
        if recovery.archive_catch_up is None
        else recovery.archive_catch_up.events_found,
        **_silent_origin_counts(recovery),
        **_branch_counts(recovery),
        "events": {source: found[source] for source in ("log", "former", "logs", "archive")},
    }


def _branch_counts(recovery: NodeRecovery) -> dict[str, int]:
    branch_restore = recovery.branch_restore
    counts = RestoreCounts() if branch_restore is None else branch_restore.counts
    return {
        "branches": counts.branches,
        "returned": counts.restored,
        "lost_on_branches": counts.lost,
    }


def _silent_origin_counts(recovery: NodeRecovery) -> dict[str, int]:
    silent = recovery.silent_origin_recovery
    return {
        "of_silent_origins": 0 if silent is None else silent.events_found,
        "lost_of_silent_origins": 0 if silent is None else silent.places_lost,
    }


def _handover_counts(recovery: NodeRecovery) -> dict[str, int]:
    handover = recovery.handover
    return {
        "handed_over": 0 if handover is None else handover.responder.handed_over,
        "taken_over": 0 if handover is None else handover.taken_over,
        "refused": 0 if handover is None else handover.responder.refused,
        "unproven": 0 if handover is None else handover.unproven,
    }


def _page_counts(recovery: NodeRecovery) -> dict[str, int]:
    page_exchange = recovery.context.page_exchange
    return {
        "served": 0 if page_exchange is None else page_exchange.pages_served,
        "denied": 0 if page_exchange is None else page_exchange.events_denied,
    }
