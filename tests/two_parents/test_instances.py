"""Several instances of a stack, and several versions of it, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from two_parents.stop_and_wait import StopAndWaitOptions, stop_and_wait
from two_parents.transport import TwoParentsOptions, TwoParentsPlugin, two_parents

from broker.config.stacks import StackInstance
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read, read_logs

#: The first stream is carried by the transport with two parents.
RADAR, OTHER = "radar.zny", "asdi.zny"
HOST = "127.0.0.1"


def listen_of(name: str) -> str:
    return f"{HOST}:{9000 + ord(name)}"


def add_node(world: NetworkWorld, name: str, parents: Sequence[str], join: Sequence[str]) -> None:
    world.plugins["two_parents"] = two_parents, stop_and_wait
    options = TwoParentsOptions(listen=listen_of(name), parents=tuple(map(listen_of, parents)))
    stack = StackInstance(
        "radar", use="two_parents", options=options, link_options=StopAndWaitOptions()
    )
    world.add(name, "one", start=False, join=join)
    world.set_stacks(name, {"radar.>": stack})
    world.start(name)


def publish(world: NetworkWorld, publisher: Publisher, count: int = 10) -> None:
    for _ in range(count):
        publisher.publish(RADAR)
        publisher.publish(OTHER)
        world.run(0.1)


def settle(world: NetworkWorld, publisher: Publisher, *readers: Reader, seconds: float) -> None:
    world.run_until(lambda: not publisher.client.unacknowledged)
    read(world, *readers, seconds=seconds)
    logs = read_logs(world)
    for reader in readers:
        assert reader.error is None
        found = [name_of(event) for event in reader.events]
        assert len(found) == len(set(found)), f"twice (seed {world.seed})"
        missing = reader.expected(logs).keys() - set(found)
        assert not missing, f"{sorted(missing)} are missing (seed {world.seed})"
        assert reader.gaps == []


def stack_of(world: NetworkWorld, name: str) -> dict[str, object]:
    transports = world[name].transports
    assert transports is not None
    (found,) = [each for each in transports.snapshot() if each["name"] == "radar"]
    assert found["error"] == ""
    return found


def test_two_instances_share_a_port() -> None:
    with NetworkWorld(1) as world:
        world.plugins["two_parents"] = two_parents, stop_and_wait
        for name, parents in (("r", ()), ("z", (listen_of("r"),))):
            options = TwoParentsOptions(listen=listen_of(name), parents=parents)
            world.add(name, "one", start=False, join=world.names)
            stacks = {
                pattern: StackInstance(stack, use="two_parents", options=options)
                for stack, pattern in (("radar", "radar.>"), ("boats", "asdi.>"))
            }
            world.set_stacks(name, stacks)
            world.start(name)
        world.run(4.0)
        reader = Reader(world, world.client("reader", "z"))
        world.run_until(lambda: reader.is_flowing)
        world.run(2.0)
        publisher = Publisher(world.client("publisher", "r"))
        publish(world, publisher)
        settle(world, publisher, reader, seconds=5.0)
        transports = world["z"].transports
        assert transports is not None
        received = {each["name"]: each.get("received") for each in transports.snapshot()}
        assert received == {"mspaces": None, "radar": 10, "boats": 10}
        traffic = world.network_of("z").traffic
        assert traffic is not None and traffic.receiver.counts.asked == 0


class NextVersion(TwoParentsPlugin):
    version: ClassVar[int] = 2


def test_nodes_with_different_versions_of_a_stack_say_so_and_lose_nothing() -> None:
    with NetworkWorld(1) as world:
        add_node(world, "r", [], [])
        world.plugins["two_parents"] = NextVersion(), stop_and_wait
        options = TwoParentsOptions(listen=listen_of("z"), parents=(listen_of("r"),))
        world.add("z", "one", start=False, join=["r"])
        stack = StackInstance("radar", use="two_parents", options=options)
        world.set_stacks("z", {"radar.>": stack})
        world.start("z")
        world.run(4.0)
        reader = Reader(world, world.client("reader", "z"))
        world.run_until(lambda: reader.is_flowing)
        publisher = Publisher(world.client("publisher", "r"))
        publish(world, publisher)
        settle(world, publisher, reader, seconds=10.0)
        assert stack_of(world, "z")["received"] == 0
        state = world.network_of("z").state
        assert state is not None
        assert state.stacks.disagreements(state.map.members()) == [
            'streams."radar.>": r has the stack two_parents 1, this node two_parents 2'
        ]
