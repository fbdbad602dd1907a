"""What a node says of its recoveries and its archive: for `xmlbroker status`, and for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from broker.event.place import Mark
from broker.log.event_log import EventLog
from broker.recovery.branch_restore import ReturnCounts
from broker.recovery.node_recovery import NodeRecovery


def report(recovery: NodeRecovery, log: EventLog) -> dict[str, Any]:
    """A plain tree. `archive` and `replays` are None where the node has no archive."""
    archive = recovery.around.archive
    beside = {} if archive is None else archive.figures()
    return {
        "archive": _archive(beside.get("archiver"), log),
        "replays": beside.get("replays"),
        "recoveries": _recoveries(recovery),
        "hand_offs": _hand_offs(recovery),
        "pages": _pages(recovery),
    }


def _archive(archiver: Mapping[str, Any] | None, log: EventLog) -> dict[str, Any] | None:
    if archiver is None:
        return None
    told = dict(archiver)
    reached: Mapping[str, Mark] = told.pop("reached")
    own = reached.get(log.origin)
    return {
        **told,
        "archived": {origin: f"{mark[0]}:{mark[1]}" for origin, mark in reached.items()},
        "held_behind": None if log.hold.since is None else "{}:{}".format(*log.hold.since),
        "hold_bytes": log.hold.most_bytes,
        "removed_unarchived": log.hold.taken,
        # None: it has not said yet how far it is.
        "behind": None if own is None else max(0, log.cut[1] - own[1]),
    }


def _recoveries(recovery: NodeRecovery) -> dict[str, Any]:
    found = Counter(recovery.found)
    for each in recovery.under_way:
        found.update(each.found)
    return {
        "begun": recovery.begun,
        "under_way": len(recovery.under_way),
        "cancelled": recovery.cancelled,
        "failed": recovery.failed,
        "lost_places": recovery.lost,
        "stood_in": 0 if recovery.standing_in is None else recovery.standing_in.found,
        **_silent_origins(recovery),
        **_returning(recovery),
        "events": {source: found[source] for source in ("log", "former", "logs", "archive")},
    }


def _returning(recovery: NodeRecovery) -> dict[str, int]:
    returning = recovery.returning
    counts = ReturnCounts() if returning is None else returning.counts
    return {
        "branches": counts.branches,
        "returned": counts.returned,
        "lost_on_branches": counts.lost,
    }


def _silent_origins(recovery: NodeRecovery) -> dict[str, int]:
    silent = recovery.silent_origins
    return {
        "of_silent_origins": 0 if silent is None else silent.found,
        "lost_of_silent_origins": 0 if silent is None else silent.lost,
    }


def _hand_offs(recovery: NodeRecovery) -> dict[str, int]:
    handing = recovery.handing_over
    return {
        "handed_over": 0 if handing is None else handing.handed_over,
        "taken_over": 0 if handing is None else handing.taken_over,
    }


def _pages(recovery: NodeRecovery) -> dict[str, int]:
    fetching = recovery.around.fetching
    return {
        "served": 0 if fetching is None else fetching.served,
        "denied": 0 if fetching is None else fetching.denied,
    }
