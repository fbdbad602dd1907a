"""Three nodes of one cluster, each a process of its own, that share an archive."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from examples.free_ports import free_ports
from examples.network.nodes import GOODBYE, NodeProcess

#: The first is where the client is at first; the last is where it comes back.
NAMES = ("north", "south", "west")


class RoamingNode(NodeProcess):
    """One of them, whose machine can be lost."""

    def __init__(self, name: str, folder: Path, port: int, settings: str) -> None:
        super().__init__(name, folder, port, settings)
        self._disk = folder / "data"

    def lose(self) -> None:
        """Nothing of it is left but its log for people."""
        self.kill_machine()
        shutil.rmtree(self._disk)


def three_nodes(folder: Path, log_bytes: int) -> list[RoamingNode]:
    """Not started. Their logs keep so many bytes: what is older is in the archive alone."""
    free = iter(free_ports(2 * len(NAMES)))
    ports = {name: (next(free), next(free)) for name in NAMES}
    return [
        RoamingNode(
            name,
            folder / name,
            ports[name][0],
            _settings(name, folder, ports[name], log_bytes)
            + (f'join = ["127.0.0.1:{ports[NAMES[0]][1]}"]\n' if number else 'cluster = "one"\n'),
        )
        for number, name in enumerate(NAMES)
    ]


def _settings(name: str, folder: Path, ports: tuple[int, int], log_bytes: int) -> str:
    clients, others = ports
    return (
        f'[node]\nname = "{name}"\ndata = "{folder / name / "data"}"\n'
        f'[listen]\nendpoints = ["tcp:port={clients}:interface=127.0.0.1"]\n'
        f'[log]\nmax_bytes = "{log_bytes}B"\n'
        f'[archive]\nlocation = "{folder / "archive"}"\nevery = "200ms"\n'
        # A publisher is answered when two nodes have its event.
        '[streams.">"]\nacknowledge = "neighbour"\n'
        f'[network]\nname = "example"\nlisten = ["tcp:port={others}:interface=127.0.0.1"]\n'
    )


@contextlib.contextmanager
def running(nodes: Sequence[NodeProcess]) -> Iterator[None]:
    """Start all; at the end stop them in good order, and kill those that do not."""
    try:
        for node in nodes:
            node.start()
        yield
    finally:
        try:
            for node in nodes:
                node.terminate()
            for node in nodes:
                node.ended(GOODBYE)
        finally:
            for node in nodes:
                node.kill()
