"""Node processes on the hosts of a segment, as one cluster or several."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.system.namespaces import Host
from tests.system.node_process import NodeProcess

MEMBERS, UDP, GROUP = 7100, 7200, "239.255.78.1:7300"


def node_on(
    host: Host, name: str, folder: Path, network: str, *, key: str = "a key of all the nodes"
) -> NodeProcess:
    """A node on a host, whose clients come by a socket in the file system; not started."""
    place = folder / name
    place.mkdir()
    (place / "key").write_text(key)
    return NodeProcess(
        place,
        f'[network]\nname = "lossy"\nkey_file = "{place / "key"}"\n'
        f'listen = ["tcp:port={MEMBERS}:interface={host.address}"]\n{network}',
        endpoint=f"unix:{place / 'clients'}",
        name=name,
        inside=("ip", "netns", "exec", host.namespace),
    )


def members(hosts: Sequence[Host], folder: Path, with_group: bool) -> list[NodeProcess]:
    """One cluster whose links are by UDP; the nodes are called n1, n2, ..."""
    nodes = []
    for number, host in enumerate(hosts, 1):
        seeds = [f"{other.address}:{UDP}" for other in hosts if other is not host]
        network = (
            f'cluster = "alps"\nudp = "{host.address}:{UDP}"\ntransport = "udp"\njoin = {seeds}\n'
        )
        if with_group:
            network += f'group = "{GROUP}"\ngroup_interface = "{host.interface}"\n'
        nodes.append(node_on(host, f"n{number}", folder, network))
    return nodes


@contextlib.contextmanager
def running(nodes: Sequence[NodeProcess], links: Iterable[tuple[int, int]]) -> Iterator[None]:
    """Start all, and wait until there are these links; the nodes' logs are shown on failure."""
    try:
        for node in nodes:
            node.launch()
        for one, other in links:
            nodes[one].await_log(rf"linked to \w+/{nodes[other].name}")
        yield
    except BaseException:
        for node in nodes:
            print(f"--- {node.name}\n{node.log()}")
        raise
    finally:
        for node in nodes:
            node.kill()


class LogFrom:
    """What a node logs from now on."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._seen = len(node.log().splitlines())

    async def until(self, pattern: str) -> str:
        """The first line that has the pattern."""
        return await asyncio.to_thread(self._node.await_log, pattern, self._seen)


def place_of(key: str, host: Host) -> str:
    """A line of the settings that names where a node on that host listens for others."""
    if key == "gateways":
        return f'gateways = ["tcp:host={host.address}:port={MEMBERS}"]\n'
    return f'{key} = ["{host.address}:{MEMBERS}"]\n'
