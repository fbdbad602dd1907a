"""Datagrams of a parent that is behind the other one, in virtual time (DCP D51, D52)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from unittest.mock import patch

import attrs

from benchmarks.harness.report import Sheet, format_number
from benchmarks.meshes.virtual_mesh import VirtualMesh
from benchmarks.sites.finding import Finding
from plugins.dcp.connection import Connection

EVENTS: Final = 10_000
#: Seconds by which the later parent gets each event behind the other one.
BEHIND: Final = 0.1
#: Most of the datagrams without acknowledgements ahead.
SHARE: Final = 0.5
_GAP: Final = 0.01
_DELAY: Final = 0.01
_EARLY, _LATE = "root0", "root1"


@attrs.frozen
class AheadRun:
    """Datagrams with events, to the client."""

    is_ahead: bool
    """True if the client acknowledges ahead of the later parent."""
    events: int
    early: int
    late: int
    acknowledgements: int
    """Other datagrams of the client to the later parent."""


def measure(is_ahead: bool, events: int = EVENTS, seed: int = 4) -> AheadRun:
    if is_ahead:
        return _measure(is_ahead, events, seed)
    with patch.object(Connection, "acknowledge_ahead", lambda *_: None):
        return _measure(is_ahead, events, seed)


def _measure(is_ahead: bool, events: int, seed: int) -> AheadRun:
    mesh = VirtualMesh(seed, _DELAY)
    for name in (_EARLY, _LATE):
        mesh.add(name)
    mesh.feed_delays[_LATE] = BEHIND
    client = mesh.add_client((_EARLY, _LATE)).name
    mesh.begin()
    # With the first duplicates the client measures the delay.
    mesh.publish_paced(100, _GAP)
    directions = [(_EARLY, client), (_LATE, client)]
    before = [mesh.sent[each].event_datagrams for each in directions]
    answers = mesh.sent[client, _LATE].datagrams
    ans = mesh.publish_paced(events, _GAP)
    mesh.run(1.0)
    early, late = (
        mesh.sent[each].event_datagrams - count
        for each, count in zip(directions, before, strict=True)
    )
    assert len(mesh.latencies(client, ans)) == events
    return AheadRun(is_ahead, events, early, late, mesh.sent[client, _LATE].datagrams - answers)


def findings(runs: Sequence[AheadRun]) -> list[Finding]:
    late = {each.is_ahead: each.late for each in runs}
    return [
        Finding(
            *("ahead", f"of a parent {1e3 * BEHIND:g} ms behind: datagrams, to those not ahead"),
            *(late[True] / late[False], ""),
            most=SHARE,
        )
    ]


def make_sheet(runs: Sequence[AheadRun]) -> Sheet:
    rows = [
        (
            *("yes" if each.is_ahead else "no", format_number(each.events)),
            *(format_number(each.early), format_number(each.late)),
            format_number(each.acknowledgements),
        )
        for each in runs
    ]
    columns = ("acknowledged ahead", "events", "of the first", "of the later", "from the client")
    title = f"Datagrams of two parents, one {1e3 * BEHIND:g} ms behind, in virtual time"
    return Sheet(title, columns, rows)
