"""Nodes in a line, each the only one of its cluster, linked to the next by TCP on loopback."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from benchmarks.harness.children import Children
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import node_status
from examples.free_ports import free_port

#: How long (seconds) nodes may take to find each other.
_PATIENCE: Final = 30.0
_GLANCE: Final = 0.2
_KEY: Final = b"not a secret: for benchmarks alone"


@attrs.frozen
class LineOptions:
    """What all nodes of a line have in common."""

    compress: bool = False
    trusted: bool = True
    """Whether they prove to each other that they have the network's key."""
    further: str = ""
    """More of `[network]`."""
    tables: str = ""
    """More tables of TOML."""


def line_of_nodes(
    children: Children, folder: Path, count: int, options: LineOptions, further: str = ""
) -> list[NodeProcess]:
    """So many nodes, `a` first: when this returns, each knows the ways to all others.

    A single one is alone, and has no network. `merge_marks` is TOML for all of them.
    """
    key = folder / "key"
    key.write_bytes(_KEY)
    ports = [free_port() for _ in range(count)]
    nodes: list[NodeProcess] = []
    # The last one first: whoever starts finds its gateway there.
    for index in reversed(range(count)):
        own = folder / _name(index)
        own.mkdir()
        network = _network(index, ports, key, options) if count > 1 else ""
        nodes.insert(
            0, NodeProcess(children, own, network + options.tables + further, _name(index))
        )
    _await_ways(nodes)
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
        + options.further
    )


def _await_ways(nodes: Sequence[NodeProcess]) -> None:
    deadline = time.monotonic() + _PATIENCE
    for node in nodes if len(nodes) > 1 else ():
        while not _knows(node, len(nodes) - 1):
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"the nodes did not find each other in {_PATIENCE:g} s")
            time.sleep(_GLANCE)


def _knows(node: NodeProcess, others: int) -> bool:
    node.check()
    units = node_status(node.endpoint)["network"].get("units", ())
    return [unit["wants_known"] for unit in units] == [True] * others
