from __future__ import annotations

from click.testing import CliRunner

from broker.cli import main
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read


def test_client_returning_to_a_restored_node_gets_one_gap() -> None:
    """A client ahead of the copy gets the gap, too; a new client does not."""
    with NetworkWorld(1) as world:
        world.add("a")
        world.run(1.0)
        first = Reader(world, world.client("first", "a"), durable="d")
        away = Reader(world, world.client("away", "a"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: first.is_flowing and away.is_flowing)
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
        world.run_until(lambda: back.is_flowing and new.is_flowing)
        publisher.publish()
        read(world, first, back, new, seconds=10.0)
        for reader, numbers in ((first, [*range(1, 11), 11]), (back, [11]), (new, [11])):
            assert reader.error is None
            assert [name_of(event)[2] for event in reader.events] == numbers
        assert [len(reader.gaps) for reader in (first, back, new)] == [1, 1, 0]
        assert {gap.reason for gap in (*first.gaps, *back.gaps)} == {"lost"}
        world.kill("a")
        world.start("a")
        world.run(10.0)
        publisher.publish()
        read(world, first, back, new, seconds=10.0)
        assert [len(reader.gaps) for reader in (first, back, new)] == [1, 1, 0]


def test_client_returning_at_another_restored_node_gets_a_gap() -> None:
    """No node knows the lost events."""
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: far.is_flowing)
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
            # Marking twice is harmless.
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


def test_client_continues_after_an_unmarked_restore() -> None:
    """The loss goes unnoticed, but no place repeats and no client is locked out."""
    with NetworkWorld(2) as world:
        world.add("a")
        world.run(1.0)
        reader = Reader(world, world.client("reader", "a"), durable="d")
        publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: reader.is_flowing)
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


def test_marking_needs_a_stopped_node_with_a_log() -> None:
    with NetworkWorld(1) as world:
        folder = world.key_file(b"x").parent
        refused = CliRunner().invoke(main, ["node", "restored", str(folder)])
        assert refused.exit_code == 1 and "holds no event log" in refused.output
        world.add("a")
        running = CliRunner().invoke(main, ["node", "restored", str(folder / "a")])
        assert running.exit_code == 1
