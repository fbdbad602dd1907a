from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.system.namespaces import Host
from tests.system.node_process import NodeProcess

MEMBERS, UDP, GROUP = 7100, 7200, "239.255.78.1:7300"


def make_node(
    host: Host, name: str, folder: Path, network: str, *, key: str = "a key of all the nodes"
) -> NodeProcess:
    """The node is not started."""
    node_folder = folder / name
    node_folder.mkdir()
    (node_folder / "key").write_text(key)
    return NodeProcess(
        node_folder,
        f'[network]\nname = "lossy"\nkey_file = "{node_folder / "key"}"\n'
        f'listen = ["tcp:port={MEMBERS}:interface={host.address}"]\n{network}',
        endpoint=f"unix:{node_folder / 'clients'}",
        name=name,
        namespace=host.namespace,
    )


def make_members(hosts: Sequence[Host], folder: Path, with_group: bool) -> list[NodeProcess]:
    """Nodes n1, n2, ... with links by UDP, not started."""
    nodes = []
    for number, host in enumerate(hosts, 1):
        seeds = [f"{other.address}:{UDP}" for other in hosts if other is not host]
        network = (
            f'cluster = "alps"\nudp = "{host.address}:{UDP}"\ntransport = "udp"\njoin = {seeds}\n'
        )
        if with_group:
            network += f'group = "{GROUP}"\ngroup_interface = "{host.interface}"\n'
        nodes.append(make_node(host, f"n{number}", folder, network))
    return nodes


@contextlib.contextmanager
def run_nodes(nodes: Sequence[NodeProcess], links: Iterable[tuple[int, int]]) -> Iterator[None]:
    """Print the nodes' logs on failure."""
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


class LogTail:
    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._seen = len(node.log().splitlines())

    async def wait_for(self, pattern: str) -> str:
        return await asyncio.to_thread(self._node.await_log, pattern, self._seen)


def address_setting(key: str, host: Host) -> str:
    if key == "gateways":
        return f'gateways = ["tcp:host={host.address}:port={MEMBERS}"]\n'
    return f'{key} = ["{host.address}:{MEMBERS}"]\n'
