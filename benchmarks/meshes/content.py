"""Bytes of a mesh with dynamic content, against static, in virtual time (DCP D15, D16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from benchmarks.harness.report import Sheet, format_number
from benchmarks.meshes.matching import SELECTED, TENTH
from benchmarks.meshes.virtual_mesh import VirtualMesh
from benchmarks.sites.finding import Finding

EVENTS: Final = 20_000
#: Most of the bytes of static content.
SHARE: Final = 0.15
#: Each `_GAP` seconds a burst: 200 events/s.
_BURST: Final = 20
_GAP: Final = 0.1
_DELAY: Final = 0.01


@attrs.frozen
class ContentRun:
    content: str
    events: int
    delivered: int
    """To the client."""
    sent_bytes: int
    """Of all datagrams of all nodes, without the headers of UDP and IP."""


def measure(content: str, events: int = EVENTS, seed: int = 3) -> ContentRun:
    """Run two roots, two routers and one client that selects a tenth."""
    is_static = content == "static"
    mesh = VirtualMesh(seed, _DELAY)
    for name in ("root0", "root1"):
        mesh.add(name)
    for name in ("router0", "router1"):
        mesh.add(name, ("root0", "root1"), is_static=is_static)
    client = mesh.add_client(("router0", "router1"), TENTH, is_static=is_static)
    mesh.begin()
    before = mesh.sent_bytes
    ans = mesh.publish_paced(events // _BURST, _GAP, _BURST)
    mesh.run(1.0)
    selected = [an for an in ans if an % SELECTED == 0]
    missing = set(selected) - mesh.arrivals[client.name].keys()
    assert not missing, f"{len(missing)} selected events are missing"
    delivered = len(mesh.latencies(client.name, ans))
    return ContentRun(content, len(ans), delivered, mesh.sent_bytes - before)


def findings(runs: Sequence[ContentRun]) -> list[Finding]:
    sent = {each.content: each.sent_bytes for each in runs}
    share = sent["dynamic"] / sent["static"]
    return [Finding("content", "bytes, dynamic to static", share, "", most=SHARE)]


def make_sheet(runs: Sequence[ContentRun]) -> Sheet:
    rows = [
        (
            *(each.content, format_number(each.events), format_number(each.delivered)),
            format_number(each.sent_bytes / each.events),
        )
        for each in runs
    ]
    columns = ("content", "published", "delivered", "bytes of all links/event")
    return Sheet("A tenth is selected, in virtual time", columns, rows)
