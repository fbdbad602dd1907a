"""Children that share an IP multicast group, in virtual time."""

from __future__ import annotations

import pytest

from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.group_children import GroupChildren
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import ALL, Mesh

FIRST = "239.77.0.1:8771"
SETTINGS = DcpSettings(parents=1, multicast=FIRST)
ROOT, CHILDREN = "root0", [f"child{number}" for number in range(10)]


def make_mesh(loss: float = 0.0, settings: DcpSettings = SETTINGS, **changes: object) -> Mesh:
    """Return a root with ten children, which have the same interest."""
    mesh = Mesh(0, settings, DatagramFaults(loss=loss, jitter=0.002), [ROOT])
    mesh.add_root(ROOT)
    for name in CHILDREN:
        mesh.add(name, children=0, **changes).subscribe("all", ALL)
    mesh.time.run_until(lambda: all(s.start is not None for s in subscriptions(mesh)), 30.0)
    return mesh


def subscriptions(mesh: Mesh) -> list[object]:
    return [each for node in mesh.live for each in node.subscriptions.values()]


def groups_of(mesh: Mesh) -> GroupChildren:
    found = mesh.nodes[ROOT].router.group_children
    assert found is not None
    return found


def carried(mesh: Mesh) -> int:
    return sum(int(str(each["carried"])) for each in groups_of(mesh).snapshots())


def flow(mesh: Mesh, count: int, size: int = 40) -> None:
    """Publish events each 10 ms."""
    end = mesh.ends.get("0a/asdi.>", (1, 0))[1]
    for number in range(count):
        mesh.publish("0a/asdi.>", 1, [end + number + 1], size)
        mesh.run(0.01)


def settle(mesh: Mesh) -> None:
    """Check that each node has got each event once, from the mesh."""
    mesh.run(5.0)
    mesh.check_ends()
    assert mesh.violations == []
    assert mesh.gaps == []


@pytest.mark.parametrize(("loss", "size"), [(0.0, 40), (0.1, 40), (0.05, 4_000)])
def test_ten_children_get_each_event_once(loss: float, size: int) -> None:
    def count(settings: DcpSettings) -> tuple[int, Mesh]:
        mesh = make_mesh(loss, settings)
        flow(mesh, 100, size)
        before = mesh.nodes[ROOT].sent
        flow(mesh, 500, size)
        sent = mesh.nodes[ROOT].sent - before
        settle(mesh)
        return sent, mesh

    alone, _ = count(DcpSettings(parents=1))
    together, mesh = count(SETTINGS)
    assert carried(mesh) == len(CHILDREN)
    # Beside the events there are keep-alives, and repairs for each child.
    assert together < alone * (0.2 if not loss else 0.45)
