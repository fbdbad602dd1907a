"""A cluster of node processes with one key, in which some nodes run other code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from examples.free_ports import free_ports
from tests.system.node_process import NodeProcess


def make_keyed_cluster(
    folder: Path, preludes: Sequence[str], network: str = ""
) -> list[NodeProcess]:
    """Return nodes `n1`, `n2`, ..., which join each other, and do not run yet.

    `preludes` has the Python code that each runs first, `network` further lines of that table.
    """
    key = folder / "key"
    key.write_text("a key of all the nodes")
    ports = free_ports(len(preludes))
    return [
        NodeProcess(
            folder / f"n{number}",
            f'[log]\nsync = false\n[network]\ncluster = "alps"\nkey_file = "{key}"\n{network}'
            f'listen = ["tcp:port={port}:interface=127.0.0.1"]\n'
            f"join = {[f'127.0.0.1:{other}' for other in ports if other != port]}\n",
            name=f"n{number}",
            prelude=prelude,
        )
        for number, (port, prelude) in enumerate(zip(ports, preludes, strict=True), 1)
    ]
