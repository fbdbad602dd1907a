"""The state of a router, for `status`."""

from __future__ import annotations

import attrs

from plugins.dcp.connection import Connection
from plugins.dcp.router import Router


def make_snapshot(router: Router) -> dict[str, object]:
    membership = router.membership
    standing = membership.standing
    children = [each.connection for each in router.children]
    receivers = [each.receiver for each in router.sequences if each.receiver is not None]
    return {
        "level": standing.level,
        "is_root": router.is_root,
        "resilience": max(0, standing.paths - 1),
        "alarms": router.alarms.present,
        "parent_count": membership.parent_count.snapshot(),
        "cycles": membership.cycles,
        "has_left": membership.has_left,
        "reinitialised": membership.reinitialisation.count,
        "refusals": {**membership.admission.refusals, **router.gate.refusals},
        "sequences": len(router.sequences),
        "refused_sequences": router.sequences.refused + sum(c.buffer.refused for c in children),
        "parents": [
            {**each.connection.path.snapshot(), **describe_connection(each.connection)}
            for each in router.parents
        ],
        "children": [
            {"name": each.name, "withheld": each.withheld, **describe_connection(each.connection)}
            for each in router.children
        ],
        **({} if router.groups is None else {"groups": router.groups.snapshot()}),
        "beacon_delays_ms": dict(membership.beacons.delays),
        "nacks": router.nacks,
        "passed": sum(each.passed for each in receivers),
        "dropped_ranges": sum(each.dropped for each in receivers),
        "early": router.early,
        "rejected": router.rejected,
        "disagreements": router.copy_alarms.disagreements,
        "handshakes": attrs.asdict(router.endpoint.counts),
    }


def describe_connection(connection: Connection) -> dict[str, object]:
    buffer = connection.buffer
    return {
        "sent": connection.writer.sent,
        "received": connection.received,
        "loss": round(connection.liveness.loss, 4),
        "resent": buffer.repaired,
        "skipped_bytes": sum(each.sender.skipped_bytes for each in buffer),
        "dropped_bytes": buffer.dropped_bytes,
        "malformed": connection.malformed,
        "replayed": connection.writer.replayed,
        "unsupported": connection.unsupported,
        "unknown_sequences": connection.unknown_sequences,
    }
