"""Several whole nodes with clients, on one memory network in virtual time.

Everything follows from the seed. Each node has a folder with a real log.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred

from broker.client.client import Client
from broker.cluster.descriptor import Endpoint
from broker.cluster.network import Network
from broker.config import Settings, StreamSettings
from broker.config.network import NetworkSettings
from broker.config.stacks import Plugins, StackInstance, find_plugins_of
from broker.event.stream import StreamPattern
from broker.node.node import Node
from broker.testing.datagram_network import DatagramFaults, DatagramNetwork
from broker.testing.killable import KillableClock, KillableLoop
from broker.testing.memory_connections import link_place
from broker.testing.memory_network import MemoryNetwork
from broker.testing.node_process import NodeProcess, adapt_to_virtual_time
from broker.testing.simulated_archive import SimulatedArchive
from broker.testing.simulated_clients import SimulatedClients
from broker.testing.virtual_time import VirtualTime
from broker.transport.socket import ISocketChannel

#: Of all nodes: their names are their hosts.
PORT = 1


def gateway_endpoint(name: str) -> str:
    """Return an entry for `network.gateways`."""
    return f"tcp:{name}:{PORT}"


class SimulatedDialler:
    """Each pair of nodes has an address of its own."""

    def __init__(self, own: str, clock: KillableClock, network: MemoryNetwork) -> None:
        self._own = own
        self._loop = KillableLoop(clock, network)

    def dial(self, endpoint: Endpoint, transport: str) -> Deferred[ISocketChannel]:
        """See `broker.cluster.membership.Dialler`."""
        channel: Deferred[ISocketChannel] = Deferred()
        self._loop.dial(link_address(endpoint.host, self._own), channel.callback, channel.errback)
        return channel

    def dial_string(self, endpoint: str) -> Deferred[ISocketChannel]:
        return self.dial(Endpoint(endpoint.split(":")[1], PORT), "tcp")


def link_address(listens: str, dials: str) -> str:
    """Return the address at which one node accepts connections of another."""
    return f"link/{listens}/{dials}"


class NetworkWorld(VirtualTime):
    """Nodes by name; a context manager, or call `close`."""

    def __init__(
        self,
        seed: int,
        *,
        latency: float = 0.001,
        jitter: float = 0.002,
        thread_delay: float = 0.004,
        archived: bool = False,
        settings: Settings | None = None,
    ) -> None:
        """With `archived`, all nodes write to one archive. `settings` are the defaults of all
        nodes."""
        super().__init__(seed)
        self.network = MemoryNetwork(self.clock, seed, latency=latency, jitter=jitter)
        self.datagrams = DatagramNetwork(self.clock, seed)
        self.plugins: dict[str, Plugins] = {}
        """Stream transports of this simulation, with their link stacks, by the name of the
        instance or of the transport; others are installed."""
        self._folder = Path(tempfile.mkdtemp(prefix="xmlbroker-world-"))
        self._thread_delay = thread_delay
        self._settings = settings or Settings()
        self.archive: SimulatedArchive | None = None
        if archived:
            self.archive = SimulatedArchive(self._folder, self.wall_clock)
        self._processes: dict[str, NodeProcess] = {}
        self._default_streams: dict[str, tuple[StreamSettings, ...]] = {}
        """Streams of nodes before `set_stacks`."""
        self._outsiders: set[str] = set()
        self._clients = SimulatedClients(self, self.network, self.datagrams)
        self._ip: dict[str, str] = {}
        self._cut_paths: set[str] = set()
        self.network.describe = self._describe

    def __enter__(self) -> NetworkWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all nodes and remove their folders."""
        for name in self.running:
            self.kill(name)
        shutil.rmtree(self._folder)

    # ------------------------------------------------------------------ nodes

    @property
    def names(self) -> list[str]:
        """Nodes, running or not, in order of creation."""
        return list(self._processes)

    @property
    def running(self) -> list[str]:
        """Nodes with a process."""
        return [name for name, each in self._processes.items() if each.is_running]

    def __getitem__(self, name: str) -> Node:
        return self._processes[name].node

    def network_of(self, name: str) -> Network:
        network = self[name].network
        assert network is not None
        return network

    def add(
        self,
        name: str,
        cluster: str = "",
        /,
        *,
        settings: Settings | None = None,
        start: bool = True,
        gateways: Iterable[str] = (),
        join: Iterable[str] = (),
        ip: str = "",
        configured_name: str = "",
        **network_settings: Any,
    ) -> None:
        """Add a node, in a cluster or one that asks for a cluster.

        `gateways` and `join` are names of nodes. `configured_name` is its name in its own settings,
        if different. `network_settings` has further keys of `[network]`.
        """
        if ip:
            self._ip[name] = ip
        base = settings or self._settings
        network = NetworkSettings(
            cluster=cluster,
            listen=(gateway_endpoint(name),),
            advertise=f"{name}:{PORT}",
            gateways=tuple(map(gateway_endpoint, gateways)),
            join=tuple(f"{each}:{PORT}" for each in join),
            **network_settings,
        )
        node = attrs.evolve(base.node, name=configured_name or name, data=self._folder / name)
        process = NodeProcess(
            self,
            self.network,
            adapt_to_virtual_time(attrs.evolve(base, node=node, network=network)),
            thread_delay=self._thread_delay,
            dialler=lambda clock: SimulatedDialler(name, clock, self.network),
            archive=None if self.archive is None else self.archive.create_access,
            datagrams=self.datagrams,
            find_plugins=self._find_plugins,
        )
        for other in (*self._processes, *self._outsiders):
            self._accept_links(process, name, other)
        for other, each in self._processes.items():
            self._accept_links(each, other, name)
        self._processes[name] = process
        if start:
            process.start()

    def cluster_of(self, name: str) -> str:
        return self._processes[name].settings.network.cluster

    def rename(self, name: str, configured_name: str) -> None:
        """Change the configured name from the next start on."""
        process = self._processes[name]
        node = attrs.evolve(process.settings.node, name=configured_name)
        process.settings = attrs.evolve(process.settings, node=node)

    def change_settings(self, name: str, **network_settings: Any) -> None:
        """Change keys of `[network]`, from the next start on."""
        process = self._processes[name]
        network = attrs.evolve(process.settings.network, **network_settings)
        process.settings = attrs.evolve(process.settings, network=network)

    def set_stacks(self, name: str, stacks: Mapping[str, StackInstance]) -> None:
        """Let stacks carry exactly these patterns, from the next start on. Otherwise the settings
        of a wider pattern hold for them."""
        process = self._processes[name]
        others = self._default_streams.setdefault(name, process.settings.streams)
        process.settings = attrs.evolve(
            process.settings,
            streams=(*others, *(_stream(text, stacks[text].name, others) for text in stacks)),
            stacks=tuple({stack.name: stack for stack in stacks.values()}.values()),
        )

    def _find_plugins(self, instance: StackInstance) -> Plugins:
        named = self.plugins.get(instance.name) or self.plugins.get(instance.use)
        return named or find_plugins_of(instance)

    def datagram_addresses(self, name: str) -> list[tuple[str, int]]:
        """Return the addresses of the links of its stream transports over datagrams."""
        return self._processes[name].datagram_addresses

    def connection_addresses(self, name: str) -> list[tuple[str, int]]:
        """Return the addresses of the links of its stream transports over connections."""
        return self._processes[name].connection_addresses

    def start(self, name: str) -> Node:
        """Start a node on the folder of its last process."""
        return self._processes[name].start()

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._cut_dialled(name)

    def stop(self, name: str) -> None:
        self._processes[name].stop()
        self._cut_dialled(name)

    def lose_disk(self, name: str) -> None:
        """Delete the folder of a stopped node."""
        assert name not in self.running
        shutil.rmtree(self._folder / name)

    def copy_disk(self, name: str) -> Path:
        copy = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._folder))
        shutil.copytree(self._folder / name, copy, dirs_exist_ok=True)
        return copy

    def restore_disk(self, name: str, copy: Path) -> None:
        """Replace the folder of a stopped node by a copy."""
        self.lose_disk(name)
        shutil.copytree(copy, self._folder / name)

    def clone_disk(self, name: str, other: str) -> None:
        """Give a copy of a node's folder to a stopped node."""
        shutil.copytree(self._folder / name, self._folder / other)

    def set_disk_full(self, name: str, full: bool) -> None:
        self._processes[name].disk.is_full = full

    def set_clock_offset(self, name: str, off: int) -> None:
        """Set the deviation of the wall clock in ms."""
        self._processes[name].clock_offset_ms = off

    def key_file(self, key: bytes) -> Path:
        path = self._folder / f"key-{key.hex()}"
        path.write_bytes(key)
        return path

    def check_outcomes(self) -> None:
        """AssertionError unless every event has exactly one outcome at each node (T40, A22)."""
        for name in self.running:
            self._processes[name].check_outcomes()
            taken = self.network_of(name).driver.relay_ingest.outcomes
            parts = taken.logged + taken.duplicate + taken.not_taken + taken.refused.total()
            parts += taken.unwanted
            assert taken.received == parts, f"{taken} ({name}, seed {self.seed})"

    def _accept_links(self, process: NodeProcess, listens: str, dials: str) -> None:
        process.listen(link_address(listens, dials), _link_acceptor)

    def _describe(self, address: str) -> tuple[str, str] | None:
        kind, *ends = address.split("/")
        if kind != "link" or not all(end in self._ip for end in ends):
            return None
        listens, dials = (f"{self._ip[end]}:{PORT}" for end in ends)
        return listens, dials

    def _cut_dialled(self, name: str) -> None:
        for other in self._processes:
            self.network.cut(link_address(other, name))

    # ------------------------------------------------------------------ links

    def cut(self, one: str, other: str, *, refuse: bool = False) -> None:
        """Break connections; with `refuse` none succeeds until `heal`."""
        for address in (link_address(one, other), link_address(other, one)):
            if refuse:
                self.network.refuse(address)
            self.network.cut(address)

    def heal(self, one: str, other: str) -> None:
        for address in (link_address(one, other), link_address(other, one)):
            self.network.heal(address)

    def cut_transports(self, one: str, other: str) -> None:
        """Cut the links of the stream transports of two nodes, until `heal_transports`."""
        for ends in product(*map(self.datagram_addresses, (one, other))):
            self.datagrams.cut(*ends)
        for ends in product(*map(self.connection_addresses, (one, other))):
            here, there = map(link_place, ends)
            for path in (self.network.path(here, there), self.network.path(there, here)):
                self.network.refuse(path)
                self.network.cut(path)
                self._cut_paths.add(path)

    def set_transport_faults(self, faults: DatagramFaults) -> None:
        """Set the faults of the links of stream transports.

        Connections are delayed, and at a loss of 1.0 they break until the next call.
        """
        self.datagrams.faults = faults
        self.network.sourced_delay = faults.delay, faults.jitter
        self.network.refuse_sources(faults.loss >= 1.0)

    def heal_transports(self) -> None:
        self.datagrams.heal()
        while self._cut_paths:
            self.network.heal(self._cut_paths.pop())

    def silence(self, one: str, other: str) -> None:
        """Let nothing of one node reach the other until `end_silence`. Connections stay."""
        for path, to_listener in self._directions(one, other):
            self.network.hold(path, to_listener=to_listener)

    def end_silence(self, one: str, other: str) -> None:
        for path, to_listener in self._directions(one, other):
            self.network.release(path, to_listener=to_listener)

    def _directions(self, one: str, other: str) -> Iterator[tuple[str, bool]]:
        """Yield paths of the network and of transports, with the direction from one node."""
        yield link_address(other, one), True
        yield link_address(one, other), False
        for ends in product(*map(self.connection_addresses, (one, other))):
            here, there = map(link_place, ends)
            yield self.network.path(there, here), True
            yield self.network.path(here, there), False

    def delay(self, one: str, other: str, latency: float, jitter: float = 0.0) -> None:
        """Change the delay both ways."""
        for address in (link_address(one, other), link_address(other, one)):
            self.network.set_delay(address, latency, jitter)

    def connect(self, name: str, outsider: str) -> ISocketChannel:
        """Connect as a node outside this network."""
        self._outsiders.add(outsider)
        self._accept_links(self._processes[name], name, outsider)
        channel: ISocketChannel = self.wait(self.network.connect(link_address(name, outsider)))
        return channel

    def are_linked(self, one: str, other: str) -> bool:
        """Return whether both ends report the link as up."""
        ends = ((one, other), (other, one))
        if not {one, other} <= set(self.running):
            return False
        found = [self.network_of(own).neighbours.get(far) for own, far in ends]
        return all(each is not None and each.up for each in found)

    # ------------------------------------------------------------------ clients

    def client_address(self, node: str, client_id: str) -> str:
        address = f"node/{node}/{client_id}"
        self._processes[node].listen(address, _client_acceptor)
        return address

    def client(self, client_id: str, *nodes: str, incarnation: int = 1, **settings: Any) -> Client:
        """Start a client with these nodes in order of preference."""
        endpoints = [self.client_address(node, client_id) for node in nodes]
        return self._clients.start(client_id, endpoints, incarnation=incarnation, **settings)

    def cut_client(self, client_id: str, nodes: Sequence[str] = ()) -> None:
        """Break connections to the given nodes, or to all."""
        for node in nodes or self.names:
            self.network.cut(self.client_address(node, client_id))

    def kill_client(self, client: Client) -> None:
        self._clients.kill(client)
        self.cut_client(client.client_id)


def _link_acceptor(node: Node) -> Any:
    assert node.network is not None
    return partial(node.network.membership.accept_connection, transport="tcp")


def _client_acceptor(node: Node) -> Any:
    return node.accept_connection


def _stream(text: str, stack: str, others: Sequence[StreamSettings]) -> StreamSettings:
    pattern = StreamPattern.parse(text)
    wider = next((each for each in others if each.pattern.covers(pattern)), StreamSettings(pattern))
    return attrs.evolve(wider, pattern=pattern, stack=stack)
