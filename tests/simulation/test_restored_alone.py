"""A node without a network that is started from an older copy: nobody else knows what it lacks."""

from __future__ import annotations

from click.testing import CliRunner

from broker.cli import main
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.watching import Publisher, Reader, name_of, read


def test_who_returns_to_a_node_that_is_marked_as_restored_is_told_a_gap() -> None:
    """A client that has had more than the copy holds is told, too; one that is new is not."""
    with NetworkWorld(1) as world:
        world.add("a")
        world.run(1.0)
        first = Reader(world, world.client("first", "a"), durable="d")
        away = Reader(world, world.client("away", "a"), durable="d")
        publisher = Publisher(world, world.client("publisher", "a"))
        world.run_until(lambda: first.flowing and away.flowing)
        for _ in range(5):
            publisher.publish()
        read(world, first, away)
        world.kill_client(away.client)
        copy = world.copy_disk("a")
        for _ in range(5):
            publisher.publish()
        read(world, first)
        world.kill("a")
        marked = CliRunner().invoke(main, ["node", "restored", str(copy)])
        assert marked.exit_code == 0 and "is marked" in marked.output, marked.output
        world.restore_disk("a", copy)
        world.start("a")
        back = Reader(world, world.client("away", "a", incarnation=2), durable="d")
        new = Reader(world, world.client("new", "a"), durable="d")
        world.run_until(lambda: back.flowing and new.flowing)
        publisher.publish()
        read(world, first, back, new, seconds=10.0)
        for reader, numbers in ((first, [*range(1, 11), 11]), (back, [11]), (new, [11])):
            assert reader.error is None
            assert [name_of(event)[2] for event in reader.events] == numbers
        assert [len(reader.gaps) for reader in (first, back, new)] == [1, 1, 0]
        assert {gap.reason for gap in (*first.gaps, *back.gaps)} == {"lost"}
        # It is told once.
        world.kill("a")
        world.start("a")
        world.run(10.0)
        publisher.publish()
        read(world, first, back, new, seconds=10.0)
        assert [len(reader.gaps) for reader in (first, back, new)] == [1, 1, 0]


def test_who_returns_at_another_node_is_told_a_gap_too() -> None:
    """All nodes are restored from copies, one of them is marked: no witness is left."""
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), durable="d")
        publisher = Publisher(world, world.client("publisher", "a"))
        world.run_until(lambda: far.flowing)
        for _ in range(5):
            publisher.publish()
        read(world, far)
        world.run(2.0)
        copies = {name: world.copy_disk(name) for name in "ab"}
        for _ in range(5):
            publisher.publish()
        world.run(2.0)
        world.kill_client(far.client)
        for name, copy in copies.items():
            world.kill(name)
            world.restore_disk(name, copy)
        for _ in range(2):
            # An operator may be unsure whether it was done.
            marked = CliRunner().invoke(main, ["node", "restored", str(copies["a"])])
            assert marked.exit_code == 0, marked.output
        world.restore_disk("a", copies["a"])
        for name in copies:
            world.start(name)
        back = Reader(world, world.client("far", "b", incarnation=2), durable="d")
        world.run(20.0)
        publisher.publish()
        read(world, back, seconds=30.0)
        assert back.error is None
        assert [name_of(event)[2] for event in back.events] == [11]
        (gap,) = back.gaps
        assert gap.first.offset == 6 and gap.last.offset > 1 << 32


def test_a_client_whose_position_is_of_a_lost_branch_goes_on() -> None:
    """Without the mark nobody notices; but no place comes twice, and no client is locked out."""
    with NetworkWorld(2) as world:
        world.add("a")
        world.run(1.0)
        reader = Reader(world, world.client("reader", "a"), durable="d")
        publisher = Publisher(world, world.client("publisher", "a"))
        world.run_until(lambda: reader.flowing)
        publisher.publish()
        read(world, reader)
        copy = world.copy_disk("a")
        for _ in range(5):
            publisher.publish()
        read(world, reader)
        world.kill("a")
        world.restore_disk("a", copy)
        world.start("a")
        world.run(5.0)
        for _ in range(5):
            publisher.publish()
        read(world, reader, seconds=10.0)
        assert reader.error is None
        assert [name_of(event)[2] for event in reader.events] == list(range(1, 12))


def test_a_folder_without_a_log_is_not_marked() -> None:
    with NetworkWorld(1) as world:
        folder = world.key_file(b"x").parent
        refused = CliRunner().invoke(main, ["node", "restored", str(folder)])
        assert refused.exit_code == 1 and "holds no event log" in refused.output
        world.add("a")
        running = CliRunner().invoke(main, ["node", "restored", str(folder / "a")])
        assert running.exit_code == 1
