"""Nodes of one cluster, with a stack over TCP on loopback that carries all streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.children import Children
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import read_status
from examples.free_ports import free_port

#: The name of the stack.
STACK: Final = "measured"
#: Seconds in which all nodes must be linked.
_PATIENCE: Final = 30.0
_GLANCE: Final = 0.2
_KEY: Final = b"not a secret: for benchmarks alone"


def start_group(
    children: Children, folder: Path, use: str, count: int, further: str = ""
) -> list[NodeProcess]:
    """Start nodes `a`, `b`, ... and wait until the stack `use` has linked each to all others.

    `further` is additional TOML.
    """
    key = folder / "key"
    key.write_bytes(_KEY)
    names = "abcdefghij"[:count]
    ports = [free_port() for _ in names]
    sites = {name: free_port() for name in names}
    nodes = []
    for index, name in enumerate(names):
        own = folder / name
        own.mkdir()
        joined = [f"127.0.0.1:{port}" for port in ports[:index]]
        network = (
            f'[network]\nname = "bench"\ncluster = "group"\nkey_file = "{key}"\n'
            f'listen = ["tcp:port={ports[index]}:interface=127.0.0.1"]\njoin = {joined}\n'
        )
        nodes.append(NodeProcess(children, own, network + _stack(use, sites) + further, name))
    _wait_until(nodes, _is_rcm_linked if use == "rcm" else _is_linked)
    return nodes


def _stack(use: str, sites: dict[str, int]) -> str:
    text = f'[streams.">"]\nstack = "{STACK}"\n[stacks.{STACK}]\nuse = "{use}"\n'
    if use != "rcm":
        return f'{text}links = "{use}"\n'
    addresses = ", ".join(
        f'{name} = "tcp:host=127.0.0.1:port={port}"' for name, port in sites.items()
    )
    return f"{text}sites = {{ {addresses} }}\n"


def read_stack(node: NodeProcess) -> dict[str, Any]:
    """Return the status of the stack at a node."""
    stacks = read_status(node.endpoint)["stacks"]
    found: dict[str, Any] = next(each for each in stacks if each["name"] == STACK)
    return found


def _wait_until(
    nodes: Sequence[NodeProcess], is_linked: Callable[[dict[str, Any], int], bool]
) -> None:
    deadline = time.monotonic() + _PATIENCE
    for node in nodes:
        while not is_linked(read_stack(node), len(nodes) - 1):
            node.check()
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"the nodes did not link in {_PATIENCE:g} s")
            time.sleep(_GLANCE)


def _is_rcm_linked(status: dict[str, Any], others: int) -> bool:
    statuses: list[str] = [each["status"] for each in status["peers"]]
    return statuses == ["connected"] * others


def _is_linked(status: dict[str, Any], others: int) -> bool:
    linked: list[bool] = [each["linked"] for each in status["links"][0]["peers"]]
    return sum(linked) == others
