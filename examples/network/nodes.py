"""Nine nodes in three clusters, each a child process on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from examples.free_ports import free_ports

#: The first node founds the cluster; the others ask it for admission.
CLUSTERS: Mapping[str, tuple[str, ...]] = {
    "alps": ("a1", "a2", "a3"),
    "coast": ("c1", "c2", "c3"),
    "plain": ("p1", "p2", "p3"),
}
#: Two links between neighbouring clusters: one carries all events if a node is lost.
GATEWAYS: Mapping[str, str] = {"c1": "a2", "c2": "a3", "p1": "c2", "p2": "c3"}
#: Then nodes are killed.
STOP_TIMEOUT = 10.0

_RUN = "from twisted.scripts.twistd import run; run()"


class NodeProcess:
    """`twistd xmlbroker` with its files in `folder`."""

    def __init__(
        self, name: str, folder: Path, port: int, settings: str, program: str = _RUN
    ) -> None:
        """`port` is the port for clients in `settings` (TOML); `program` runs twistd."""
        self.name = name
        self.endpoint = f"tcp:127.0.0.1:{port}"
        self._folder = folder
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        (folder / "node.toml").write_text(settings)

    def start(self) -> None:
        """Clients and other nodes may connect at once: they retry."""
        with open(self._folder / "node.log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", self._program, "--nodaemon", "--pidfile="),
                    *("xmlbroker", "--config", "node.toml"),
                ],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                # Ctrl-C must reach the example only, which stops the nodes in good order.
                start_new_session=True,
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def kill_machine(self) -> None:
        """Kill the node and its child processes, as if its machine were lost."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def terminate(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait_for_exit(self, seconds: float) -> bool:
        """Return true if it exits in time."""
        if self._process is None:
            return True
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.poll() is not None

    def log(self) -> str:
        path = self._folder / "node.log"
        return path.read_text(errors="replace") if path.exists() else ""


class Nodes:
    """The context manager starts all nodes, and always stops them."""

    def __init__(self, folder: Path) -> None:
        names = [name for cluster in CLUSTERS.values() for name in cluster]
        free = iter(free_ports(2 * len(names)))
        ports = {name: (next(free), next(free)) for name in names}
        self._nodes = {
            name: NodeProcess(
                name, folder / name, ports[name][0], _settings(name, folder / name, ports)
            )
            for name in names
        }

    def __getitem__(self, name: str) -> NodeProcess:
        return self._nodes[name]

    def __iter__(self) -> Iterator[NodeProcess]:
        return iter(self._nodes.values())

    def __enter__(self) -> Nodes:
        try:
            for node in self._nodes.values():
                node.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop all in good order, and kill the remaining ones."""
        try:
            for node in self._nodes.values():
                node.terminate()
            for node in self._nodes.values():
                node.wait_for_exit(STOP_TIMEOUT)
        finally:
            for node in self._nodes.values():
                node.kill()


def cluster_of(name: str) -> str:
    return next(cluster for cluster, names in CLUSTERS.items() if name in names)


def _settings(name: str, folder: Path, ports: Mapping[str, tuple[int, int]]) -> str:
    cluster = cluster_of(name)
    founder = CLUSTERS[cluster][0]
    if name == founder:
        place = f'cluster = "{cluster}"'
    else:
        place = f'join = ["127.0.0.1:{ports[founder][1]}"]'
    gateways = ""
    if name in GATEWAYS:
        gateways = f'gateways = ["tcp:host=127.0.0.1:port={ports[GATEWAYS[name]][1]}"]\n'
    clients, others = ports[name]
    return (
        f'[node]\nname = "{name}"\ndata = "{folder / "data"}"\n'
        f'[listen]\nendpoints = ["tcp:port={clients}:interface=127.0.0.1"]\n'
        f'[network]\nname = "example"\n{place}\n'
        f'listen = ["tcp:port={others}:interface=127.0.0.1"]\n{gateways}'
        # No client is away for longer than the logs cover; see examples/roaming for that.
        "[archive]\nenabled = false\n"
    )
