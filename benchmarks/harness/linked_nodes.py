"""Nodes in a line, each alone in its cluster, linked to the next by TCP on loopback."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from benchmarks.harness.children import Children
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import read_status
from examples.free_ports import free_port

#: Seconds in which nodes must find each other.
_PATIENCE: Final = 30.0
_GLANCE: Final = 0.2
_KEY: Final = b"not a secret: for benchmarks alone"


@attrs.frozen
class LineOptions:
    compress: bool = False
    trusted: bool = True
    """True if the nodes authenticate with the network's key."""
    network_toml: str = ""
    """Additional keys of `[network]`."""
    tables_toml: str = ""


def start_line(
    children: Children, folder: Path, count: int, options: LineOptions, further: str = ""
) -> list[NodeProcess]:
    """Start nodes `a`, `b`, ... and wait until each knows a path to all others.

    A single node has no network. `further` is additional TOML.
    """
    key = folder / "key"
    key.write_bytes(_KEY)
    ports = [free_port() for _ in range(count)]
    nodes: list[NodeProcess] = []
    # Each node must find its gateway.
    for index in reversed(range(count)):
        own = folder / _name(index)
        own.mkdir()
        network = _network(index, ports, key, options) if count > 1 else ""
        nodes.insert(
            0, NodeProcess(children, own, network + options.tables_toml + further, _name(index))
        )
    _wait_until_linked(nodes)
    return nodes


def _name(index: int) -> str:
    return "abcdefgh"[index]


def _network(index: int, ports: Sequence[int], key: Path, options: LineOptions) -> str:
    gateways = "".join(f'"tcp:host=127.0.0.1:port={port}"' for port in ports[index + 1 :][:1])
    return (
        f'[network]\nname = "bench"\ncluster = "line.{_name(index)}"\n'
        f'listen = ["tcp:port={ports[index]}:interface=127.0.0.1"]\n'
        f"gateways = [{gateways}]\n"
        f"compress = {str(options.compress).lower()}\n"
        + (f'key_file = "{key}"\n' if options.trusted else "")
        + options.network_toml
    )


def _wait_until_linked(nodes: Sequence[NodeProcess]) -> None:
    deadline = time.monotonic() + _PATIENCE
    for node in nodes if len(nodes) > 1 else ():
        while not _knows_others(node, len(nodes) - 1):
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"the nodes did not find each other in {_PATIENCE:g} s")
            time.sleep(_GLANCE)


def _knows_others(node: NodeProcess, others: int) -> bool:
    node.check()
    units = read_status(node.endpoint)["network"].get("units", ())
    return [unit["wants_known"] for unit in units] == [True] * others
