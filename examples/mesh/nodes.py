"""Two roots, four routers and three leaves of one mesh, each a child process on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from examples.free_ports import free_ports
from examples.network.nodes import NodeProcess

STACK: Final = "mesh"
#: Streams of the generated feed, which the mesh carries.
PATTERN: Final = "asdi.>"
ROOTS: Final = ("r1", "r2")
ROUTERS: Final = ("b1", "b2", "b3", "b4")
#: Number of parents by leaf.
LEAVES: Final[Mapping[str, int]] = {"c1": 1, "c2": 2, "c3": 2}
ROUTER_PARENTS: Final = 2
#: The routers fill the roots, so that the leaves become children of routers.
ROOT_CHILDREN: Final = len(ROUTERS)
ROUTER_CHILDREN: Final = 8
#: Number of parents by node.
PARENTS: Final[Mapping[str, int]] = {
    **dict.fromkeys(ROOTS, 0),
    **dict.fromkeys(ROUTERS, ROUTER_PARENTS),
    **LEAVES,
}


class MeshNodes:
    """The nodes, which do not run yet."""

    def __init__(self, folder: Path, loss: float) -> None:
        """`loss` is the share of the mesh's datagrams that is dropped."""
        free = iter(free_ports(2 * len(PARENTS)))
        self._clients, self._network = ({name: next(free) for name in PARENTS} for _ in range(2))
        datagrams = free_ports(len(PARENTS), socket.SOCK_DGRAM)
        self._datagrams = dict(zip(PARENTS, datagrams, strict=True))
        self._loss = loss
        self._nodes = {
            name: NodeProcess(
                name, folder / name, self._clients[name], self._settings(name, folder / name)
            )
            for name in PARENTS
        }

    def __getitem__(self, name: str) -> NodeProcess:
        return self._nodes[name]

    def __iter__(self) -> Iterator[NodeProcess]:
        return iter(self._nodes.values())

    def _settings(self, name: str, folder: Path) -> str:
        founder = ROOTS[0]
        if name == founder:
            place = 'cluster = "one"'
        else:
            place = f'join = ["127.0.0.1:{self._network[founder]}"]'
        return (
            f'[node]\nname = "{name}"\ndata = "{folder / "data"}"\n'
            f'[listen]\nendpoints = ["tcp:port={self._clients[name]}:interface=127.0.0.1"]\n'
            f'[network]\nname = "example"\n{place}\n'
            f'listen = ["tcp:port={self._network[name]}:interface=127.0.0.1"]\n'
            "[archive]\nenabled = false\n"
            f'[streams."{PATTERN}"]\nstack = "{STACK}"\n{self._stack(name)}'
            f"{self._faults(name)}"
        )

    def _stack(self, name: str) -> str:
        roots = ", ".join(f'"127.0.0.1:{self._datagrams[root]}"' for root in ROOTS)
        if name in ROOTS:
            # A root has no parents.
            places = f"children = {ROOT_CHILDREN}"
        else:
            children = ROUTER_CHILDREN if name in ROUTERS else 0
            places = f"parents = {PARENTS[name]}\nchildren = {children}"
        return (
            f'[stacks.{STACK}]\nuse = "dcp"\nfeed = "mspaces"\n'
            f'udp = "127.0.0.1:{self._datagrams[name]}"\nroots = [{roots}]\n{places}\n'
        )

    def _faults(self, name: str) -> str:
        if not self._loss:
            return ""
        # Links of datagrams have names such as 127.0.0.1:20000, those of the network names of
        # nodes: they lose nothing. Each datagram is received once, and so may be dropped once.
        # Without a seed of its own, all children of a node would lose the same datagrams.
        return (
            f'[[faults]]\nkind = "discard"\nlinks = "127*"\ndirection = "in"\n'
            f"rate = {self._loss}\nseed = {list(PARENTS).index(name)}\n"
        )
