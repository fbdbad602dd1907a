"""One router of a mesh in a process of its own: it forwards a root's events to its children."""

from __future__ import annotations

import json
import sys
from typing import Any, cast

import attrs
from twisted.internet import reactor as the_reactor

from benchmarks.meshes.matching import EngineMatching
from benchmarks.meshes.udp_node import PATIENT, UdpNode
from broker.node.garbage_collection import configure_garbage_collector

reactor = cast(Any, the_reactor)


def start(task: dict[str, Any]) -> None:
    parents = [tuple(task["parent"])]
    # The matching of the root is a fake, which does not know the queries of the leaves.
    settings = attrs.evolve(PATIENT, is_static=True)
    node = UdpNode(reactor, "router", settings, parents, 1, EngineMatching())
    configure_garbage_collector()
    print(json.dumps({"says": "ready", "address": node.address}), flush=True)


def main() -> None:
    reactor.callWhenRunning(start, json.loads(sys.stdin.readline()))
    reactor.run()


if __name__ == "__main__":
    main()
