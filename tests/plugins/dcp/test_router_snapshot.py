"""`status` shows each reason for which input was dropped."""

from __future__ import annotations

from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.router_snapshot import make_snapshot
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import ALL, Mesh


def test_dropped_packets_are_counted_by_their_reason() -> None:
    mesh = Mesh(5, DcpSettings(parents=1), DatagramFaults(), ["a"])
    root, leaf = mesh.add_root("a"), mesh.add("c")
    leaf.subscribe("s", ALL)
    mesh.run(3.0)
    router = leaf.router
    (connection,) = [parent.connection for parent in router.parents]
    stranger = bytes(20) + b"\0\0\0\7" + bytes(10)
    damaged = bytes(20) + connection.own_id.to_bytes(4, "big") + bytes(20)
    router.receive("x", [b"short", stranger], mesh.now)
    router.receive("a", [damaged], mesh.now)
    snapshot = make_snapshot(router)
    assert snapshot["handshakes"]["malformed"] == 1  # type: ignore[index]
    assert snapshot["handshakes"]["unknown_connection"] == 1  # type: ignore[index]
    assert snapshot["parents"][0]["malformed"] == 1  # type: ignore[index]
    assert make_snapshot(root.router)["children"][0]["name"] == "c"  # type: ignore[index]
