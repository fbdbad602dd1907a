from __future__ import annotations

from typing import Any

from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read, read_logs


class Roaming:
    """A client reads at `old`, ends, and resumes at `new` as another process."""

    key_seed = b"s" * 32
    """Of the client's key; empty: it has none."""

    def __init__(self, seed: int, *, archived: bool = False, key_seed: bytes = key_seed) -> None:
        self.key_seed = key_seed
        self.world = world = NetworkWorld(seed, archived=archived)
        world.add("old", "one")
        world.add("new", "one", join=["old"])
        world.add("far", "two", gateways=["old", "new"])
        world.run(2.0)
        self.publishers = [
            Publisher(world.client("p-far", "far")),
            Publisher(world.client("p-new", "new")),
        ]
        self.readers: list[Reader] = []
        self.incarnation = 0
        self.start_process("old")
        world.run(2.0)
        assert self.readers[0].is_flowing

    def start_process(self, *nodes: str, **settings: Any) -> Reader:
        self.incarnation += 1
        client = self.world.client(
            *("rover", *nodes),
            **{"incarnation": self.incarnation, "key_seed": self.key_seed, **settings},
        )
        self.readers.append(Reader(self.world, client, INTERESTS[1], durable="d"))
        return self.readers[-1]

    def publish(self, count: int) -> None:
        for _ in range(count):
            for publisher in self.publishers:
                publisher.publish("asdi.zbw.tz")
        self.world.run(0.5)

    def kill_process(self) -> None:
        """The events that it read are acknowledged."""
        read(self.world, self.readers[-1])
        self.world.kill_client(self.readers[-1].client)

    def check(self, *, once: bool = True) -> None:
        """Each event came to one of the processes, once and in order."""
        world = self.world
        world.run_until(lambda: not any(each.client.unacknowledged for each in self.publishers))
        read(world, *self.readers[1:], seconds=30.0)
        logs = read_logs(world)
        expected = set(self.readers[0].expected(logs))
        got = [name_of(event) for reader in self.readers for event in reader.events]
        where = f"seed {world.seed}"
        assert [reader.error for reader in self.readers] == [None] * len(self.readers), where
        assert set(got) == expected, f"{sorted(expected - set(got))} are missing ({where})"
        if once:
            assert len(got) == len(expected), f"some came twice ({where})"
        for reader in self.readers:
            assert not reader.gaps, where
            assert not reader.wrong_liveness, where
            newest: dict[tuple[str, int], int] = {}
            for client_id, incarnation, number in map(name_of, reader.events):
                assert newest.get((client_id, incarnation), 0) < number, where
                newest[client_id, incarnation] = number


def owner_key(world: NetworkWorld, name: str) -> bytes:
    """Return the public key of the client that a node stores."""
    return world[name].durables.owner_of("rover").key


def refused(world: NetworkWorld, name: str) -> int:
    """Return the number of handovers that a node refused for want of the client's proof."""
    handover = world[name].recovery.handover
    assert handover is not None
    return handover.responder.refused
