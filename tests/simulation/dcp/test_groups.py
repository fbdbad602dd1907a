"""Children that share an IP multicast group, in virtual time."""

from __future__ import annotations

from collections.abc import Hashable

import attrs
import pytest

from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.control import Group, GroupSequence, SequenceStart
from plugins.dcp.event_range import Description
from plugins.dcp.group_children import GroupChildren
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import ALL, Mesh, MeshNode, Subscription, modulo
from tests.simulation.dcp.mesh_groups import FIRST_GROUP

SETTINGS = DcpSettings(parents=1, multicast=FIRST_GROUP)
ROOT, CHILDREN = "root0", [f"child{number}" for number in range(10)]


def make_mesh(loss: float = 0.0, settings: DcpSettings = SETTINGS, **changes: object) -> Mesh:
    """Return a root with ten children, which have the same interest."""
    mesh = Mesh(0, settings, DatagramFaults(loss=loss, jitter=0.002), [ROOT])
    mesh.add_root(ROOT)
    for name in CHILDREN:
        mesh.add(name, children=0, **changes).subscribe("all", ALL)
    mesh.time.run_until(lambda: all(s.start is not None for s in subscriptions(mesh)), 30.0)
    return mesh


def subscriptions(mesh: Mesh) -> list[Subscription]:
    return [each for node in mesh.live for each in node.subscriptions.values()]


def groups_of(mesh: Mesh) -> GroupChildren:
    found = mesh.nodes[ROOT].router.groups
    assert found is not None
    return found.children


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


@pytest.mark.parametrize(
    ("loss", "size", "share"), [(0.0, 40, 0.22), (0.1, 40, 0.34), (0.05, 4_000, 0.35)]
)
def test_ten_children_get_each_event_once(loss: float, size: int, share: float) -> None:
    mesh = make_mesh(loss)
    flow(mesh, 30, size)
    before, packets = mesh.nodes[ROOT].sent, -(-size // 1_300)
    flow(mesh, 100, size)
    sent = mesh.nodes[ROOT].sent - before
    settle(mesh)
    assert carried(mesh) == len(CHILDREN)
    assert mesh.nodes[ROOT].groups.sent <= 130 * packets + 5
    # Beside the events there are keep-alives, and repairs for each child.
    assert sent < 100 * packets * len(CHILDREN) * share
    assert (repairs(mesh) > 0) == bool(loss)


def repairs(mesh: Mesh) -> int:
    return sum(each.connection.buffer.repaired for each in mesh.nodes[ROOT].router.children)


def block(mesh: Mesh, *names: str) -> None:
    """Let packets to groups not reach some nodes from now on."""

    def passes(data: bytes, source: Hashable, target: Hashable) -> bool:
        return not (isinstance(target, tuple) and target[0] in names)

    mesh.datagrams.filter = passes


def test_a_child_that_never_hears_the_group_gets_all_at_once_by_unicast() -> None:
    mesh = make_mesh()
    block(mesh, CHILDREN[0])
    flow(mesh, 230)
    settle(mesh)
    assert carried(mesh) == len(CHILDREN) - 1
    assert groups_of(mesh).unreachable == 1
    # Its events did not wait for the detection.
    assert max(mesh.latencies) < 0.1


def test_a_child_that_hears_the_group_no_more_gets_all_by_unicast() -> None:
    mesh = make_mesh()
    flow(mesh, 50)
    assert carried(mesh) == len(CHILDREN)
    block(mesh, *CHILDREN[:2])
    flow(mesh, 260)
    assert carried(mesh) == len(CHILDREN) - 2
    assert groups_of(mesh).unreachable == 2
    nacks = mesh.nodes[CHILDREN[0]].router.nacks
    flow(mesh, 50)
    assert mesh.nodes[CHILDREN[0]].router.nacks == nacks
    block(mesh)
    mesh.run(60.0)
    flow(mesh, 50)
    settle(mesh)
    # It is tried again.
    assert carried(mesh) == len(CHILDREN)


def test_a_child_without_a_socket_and_one_without_the_option_get_all_by_unicast() -> None:
    mesh = make_mesh()
    other = mesh.add("other", children=0, multicast="")
    silent = mesh.add("silent", children=0)
    silent.groups.has_sockets = False
    for node in (other, silent):
        node.subscribe("all", ALL)
    mesh.run(2.0)
    flow(mesh, 100)
    settle(mesh)
    assert other.groups.open == silent.groups.open == {}
    assert carried(mesh) == len(CHILDREN)


def test_two_children_are_the_least() -> None:
    mesh = make_mesh()
    for name in CHILDREN[2:]:
        mesh.kill(name)
    flow(mesh, 50)
    mesh.run(20.0)
    flow(mesh, 50)
    assert carried(mesh) == 2
    mesh.nodes[CHILDREN[1]].stop()
    mesh.run(1.0)
    flow(mesh, 50)
    settle(mesh)
    assert groups_of(mesh).snapshots() == []
    assert mesh.nodes[ROOT].groups.open == mesh.nodes[CHILDREN[0]].groups.open == {}


def test_changed_interest_leaves_the_group_and_forms_another_one() -> None:
    mesh = make_mesh(loss=0.1)
    flow(mesh, 30)
    changed = [mesh.nodes[name] for name in CHILDREN[:3]]
    for node in changed:
        node.subscribe("half", modulo(2, 0))
        node.unsubscribe("all")
        flow(mesh, 10)
    flow(mesh, 30)
    members = sorted(int(str(each["members"])) for each in groups_of(mesh).snapshots())
    assert members == [3, 7]
    for node in changed:
        # Wider again: what others of the group get at that time must not be missing.
        node.subscribe("all", ALL)
        flow(mesh, 10)
    flow(mesh, 50)
    settle(mesh)
    assert carried(mesh) == len(CHILDREN)


def test_children_of_other_clearance_have_a_group_of_their_own() -> None:
    mesh = Mesh(0, SETTINGS, DatagramFaults(), [ROOT])
    mesh.add_root(ROOT)
    for name, clearance in zip(CHILDREN, (2, 2, 0, 0, 1), strict=False):
        mesh.add(name, children=0, clearance=clearance).subscribe("all", ALL)
    mesh.run(3.0)
    flow(mesh, 30)
    settle(mesh)
    assert [each["carried"] for each in groups_of(mesh).snapshots()] == [2, 2]


def test_there_are_at_most_16_groups() -> None:
    mesh = Mesh(0, SETTINGS, DatagramFaults(), [ROOT])
    mesh.add_root(ROOT)
    for number in range(17):
        for name in ("a", "b"):
            mesh.add(f"{name}{number}", children=0).subscribe("own", modulo(17, number))
    mesh.run(5.0)
    flow(mesh, 100)
    settle(mesh)
    found = groups_of(mesh)
    assert len({each["number"] for each in found.snapshots()}) == 16
    assert carried(mesh) == 32
    assert found.refused == 1
    mesh.kill("a0")
    mesh.run(20.0)
    flow(mesh, 100)
    # There is room for the last ones.
    assert (carried(mesh), found.refused) == (32, 0)
    settle(mesh)


def test_a_slow_child_does_not_slow_the_others() -> None:
    """Its acknowledgements are lost, so that its connection keeps more and more."""
    mesh = make_mesh(settings=attrs.evolve(SETTINGS, send_bytes=64 << 10))
    flow(mesh, 30)
    assert carried(mesh) == len(CHILDREN)

    def passes(data: bytes, source: Hashable, target: Hashable) -> bool:
        return (source, target) != (CHILDREN[0], ROOT)

    mesh.datagrams.filter = passes
    flow(mesh, 60, 1_000)
    assert (carried(mesh), groups_of(mesh).unreachable) == (len(CHILDREN) - 1, 1)
    block(mesh)
    flow(mesh, 30)
    settle(mesh)


def test_parents_have_groups_of_their_own() -> None:
    """Two roots, of which one dies: the group of the other carries on."""
    mesh = Mesh(0, attrs.evolve(SETTINGS, parents=2), DatagramFaults(loss=0.05), ["root0", "root1"])
    for name in mesh.roots:
        mesh.add_root(name)
    for name in CHILDREN[:4]:
        mesh.add(name, children=0).subscribe("all", ALL)
    mesh.run(5.0)
    flow(mesh, 100)
    assert carried(mesh) == 4
    mesh.kill("root1")
    flow(mesh, 150)
    settle(mesh)
    assert carried(mesh) == 4
    assert all(len(mesh.nodes[name].groups.open) == 1 for name in CHILDREN[:4])


def test_forged_packets_are_dropped_and_counted() -> None:
    mesh = make_mesh()
    flow(mesh, 30)
    child: MeshNode = mesh.nodes[CHILDREN[0]]
    groups = child.router.groups
    assert groups is not None
    receiver = groups.receiver
    assert receiver.malformed == 0
    seen: list[bytes] = []

    def passes(data: bytes, source: Hashable, target: Hashable) -> bool:
        if isinstance(target, tuple) and target[0] == child.name:
            seen.append(data)
        return True

    mesh.datagrams.filter = passes
    flow(mesh, 1)
    (packet,) = seen
    received, unknown = receiver.received, receiver.unknown
    changed = packet[:-9] + bytes([packet[-9] ^ 1]) + packet[-8:]
    stranger = packet[:20] + b"\0\0\0\1" + packet[24:]
    groups.receive([changed, packet[:30], stranger, b"", packet[:24]], mesh.now)
    assert receiver.malformed == 3
    assert (receiver.received, receiver.unknown - unknown) == (received, 2)
    # A replayed one brings nothing new.
    groups.receive([packet, packet], mesh.now)
    flow(mesh, 30)
    settle(mesh)


@pytest.mark.parametrize("kind", ["no option", "to a parent", "two sequences"])
def test_messages_that_do_not_fit_end_the_connection(kind: str) -> None:
    mesh = Mesh(0, SETTINGS, DatagramFaults(), [ROOT])
    root = mesh.add_root(ROOT)
    child = mesh.add("child", children=0, multicast="" if kind == "no option" else FIRST_GROUP)
    child.subscribe("all", ALL)
    mesh.run(2.0)
    (parent,), (known,) = child.router.parents, root.router.children
    descriptions = [Description(f"{number}a/asdi.>", 1, "/origin") for number in range(2)]
    starts = [SequenceStart(n + 1, each, 0) for n, each in enumerate(descriptions)]
    message = Group(5, 3, bytes(32), tuple(GroupSequence(1, each) for each in starts))
    sender = parent.connection if kind == "to a parent" else known.connection
    sender.send_control(message)
    for node in (root, child):
        node.changed()
    mesh.run(0.2)
    assert sender.error == "rejected: protocol"
    assert child.groups.open == root.groups.open == {}
    mesh.run(5.0)
    flow(mesh, 20)
    settle(mesh)
