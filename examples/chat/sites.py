"""Three sites of one group, each a node in a child process, with relays on all their links."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final

from broker.client.asyncio_face import AsyncioClient, connect
from examples.chat.relay import Relay, bind_listener
from examples.free_ports import free_ports
from examples.network.nodes import NodeProcess
from examples.roaming.nodes import run_nodes

NAMES: Final = ("a", "b", "c")
STACK: Final = "ops-order"
#: Seconds for the nodes to start.
START: Final = 30.0
_LOOK: Final = 0.1
#: Seconds of suspicion until a site is disconnected.
SUSPECT: Final = 15.0
#: The site with the small log.
CUT_OFF: Final = "c"
SMALL_LOG: Final = 1 << 20
#: Without these two, the links would hold what the small log has lost.
SEND_BUFFER: Final = 64 << 10
KEEP: Final = 0.0


class Links:
    """The relays between the sites: of the group, and of the network of nodes."""

    def __init__(self, group: Mapping[str, int], network: Mapping[str, int]) -> None:
        """Both have the ports at which the sites listen."""
        self.group = _relay_pairs(itertools.permutations(NAMES, 2), group)
        """By the site that dials, and the one that is dialled."""
        self.network = _relay_pairs(
            ((two, one) for one, two in itertools.combinations(NAMES, 2)), network
        )

    def silence(self, site: str) -> None:
        for relay in self._relays_of(site):
            relay.silence()

    def repair(self, site: str) -> None:
        for relay in self._relays_of(site):
            relay.repair()

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        relays = [*self.group.values(), *self.network.values()]
        try:
            for relay in relays:
                await relay.start()
            yield
        finally:
            for relay in relays:
                await relay.stop()

    def _relays_of(self, site: str) -> Iterator[Relay]:
        for pairs in (self.group, self.network):
            yield from (relay for ends, relay in pairs.items() if site in ends)


#: Times of the links beside those, which the demonstration leaves as they are.
OUTAGES: Final = (
    f'suspect = "{SUSPECT:g}s"\nkeep = "{KEEP:g}s"\nsend_buffer_bytes = "{SEND_BUFFER}B"\n'
)


class Sites:
    def __init__(self, folder: Path, options: str = OUTAGES) -> None:
        """`options` are lines of the stack's table. A loop must run."""
        free = iter(free_ports(3 * len(NAMES)))
        clients, group, network = ({name: next(free) for name in NAMES} for _ in range(3))
        self.links = Links(group, network)
        self.nodes = {
            name: NodeProcess(
                name,
                folder / name,
                clients[name],
                _settings(name, folder, clients[name], group[name], network[name], self.links)
                + options,
            )
            for name in NAMES
        }

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        async with self.links.run():
            running = contextlib.ExitStack()
            running.enter_context(run_nodes(list(self.nodes.values())))
            try:
                yield
            finally:
                # The relays work until the nodes have stopped.
                await asyncio.to_thread(running.close)

    async def wait_until_connected(self) -> None:
        """Wait until each site has all others. What is published before stays at its site."""
        for name, node in self.nodes.items():
            async with connect(node.endpoint) as client:
                await client.when_connected(START)
                while await _read_statuses(client) != dict.fromkeys(
                    set(NAMES) - {name}, "connected"
                ):
                    await asyncio.sleep(_LOOK)


async def _read_statuses(client: AsyncioClient) -> dict[str, str]:
    stacks = (await client.ask("status"))["stacks"]
    (group,) = [each for each in stacks if each["name"] == STACK]
    return {each["site"]: each["status"] for each in group["peers"]}


def _relay_pairs(
    pairs: Iterator[tuple[str, ...]], ports: Mapping[str, int]
) -> dict[tuple[str, ...], Relay]:
    return {ends: Relay(bind_listener(), ports[ends[1]]) for ends in pairs}


def _settings(name: str, folder: Path, clients: int, group: int, network: int, links: Links) -> str:
    ports = {name: group} | {
        ends[1]: relay.port for ends, relay in links.group.items() if ends[0] == name
    }
    sites = ", ".join(f'{each} = "tcp:host=127.0.0.1:port={ports[each]}"' for each in sorted(ports))
    gateways = [
        f"tcp:host=127.0.0.1:port={relay.port}"
        for ends, relay in links.network.items()
        if ends[0] == name
    ]
    log = f'[log]\nmax_bytes = "{SMALL_LOG}B"\n' if name == CUT_OFF else ""
    return (
        f'[node]\nname = "{name}"\ndata = "{folder / name / "data"}"\n'
        f'[listen]\nendpoints = ["tcp:port={clients}:interface=127.0.0.1"]\n{log}'
        # Each node is a cluster of its own, so that no node learns an address without a relay.
        f'[network]\nname = "example"\ncluster = "{name}"\n'
        f'listen = ["tcp:port={network}:interface=127.0.0.1"]\ngateways = {gateways}\n'
        "[archive]\nenabled = false\n"
        f'[streams."chat.>"]\nstack = "{STACK}"\n'
        f'[stacks.{STACK}]\nuse = "rcm"\nsites = {{ {sites} }}\nlisten = "127.0.0.1:{group}"\n'
    )
