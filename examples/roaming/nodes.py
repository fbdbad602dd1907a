"""Three nodes of one cluster that share an archive, each a child process."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from examples.free_ports import free_ports
from examples.network.nodes import STOP_TIMEOUT, NodeProcess

#: The client starts at the first one and returns at the last one.
NAMES = ("north", "south", "west")


class RoamingNode(NodeProcess):
    def __init__(self, name: str, folder: Path, port: int, settings: str) -> None:
        super().__init__(name, folder, port, settings)
        self._disk = folder / "data"

    def lose_machine(self) -> None:
        """Delete the data; log messages remain."""
        self.kill_machine()
        shutil.rmtree(self._disk)


def create_nodes(folder: Path, log_bytes: int) -> list[RoamingNode]:
    """Older events than `log_bytes` are only in the archive."""
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
        # A publisher gets its receipt when two nodes have the event.
        '[streams.">"]\nacknowledge = "neighbour"\n'
        f'[network]\nname = "example"\nlisten = ["tcp:port={others}:interface=127.0.0.1"]\n'
    )


@contextlib.contextmanager
def run_nodes(nodes: Sequence[NodeProcess]) -> Iterator[None]:
    """Start all; at the end stop them in good order, and kill the remaining ones."""
    try:
        for node in nodes:
            node.start()
        yield
    finally:
        try:
            for node in nodes:
                node.terminate()
            for node in nodes:
                node.wait_for_exit(STOP_TIMEOUT)
        finally:
            for node in nodes:
                node.kill()
