from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from broker.client import asyncio_face, twisted_face
from broker.client.client import Client
from broker.client.merged import MergedSubscription, Merging
from broker.event.envelope import Bundle, EventLinkage, Order
from broker.event.event_id import EventId
from broker.event.writer import write_event
from tests.system.node_process import PATIENCE, ROOT, NodeProcess
from tests.system.test_connections import Connect, take_events
from tests.system.traffic import FLIGHT, flight, run_within

pytestmark = pytest.mark.system


async def check_merged_order(connect: Connect, node: NodeProcess, name: str) -> None:
    """The event published second is concurrent and sorts first."""
    plans, tracks = f"{name}.fp", f"{name}.tz"
    linkage = EventLinkage(time_constraint="within 2s", order=(Order(plans), Order(tracks)))
    radar, office, reader = (connect(node.endpoint) for _ in range(3))
    subscription = await reader.subscribe(streams=f"{name}.>", merge=Merging(wait=0.2, longest=0.4))
    assert isinstance(subscription, MergedSubscription)
    await radar.publish(tracks, flight(1), FLIGHT, linkage=linkage)
    await office.publish(plans, flight(2), FLIGHT, linkage=linkage)
    assert [event.stream for event in await take_events(subscription, 2)] == [plans, tracks]
    for client in (radar, office, reader):
        await client.close()


def test_asyncio_reader_gets_merged_streams(shared_node: NodeProcess) -> None:
    run_within(check_merged_order(asyncio_face.connect, shared_node, "asyncio"), debug=True)


class TwistedReaders(TestCase):
    timeout = 60

    @pytest.fixture(autouse=True)
    def _use_node(self, shared_node: NodeProcess) -> None:
        self.node = shared_node

    def connect(self, *endpoints: str, **arguments: Any) -> Client:
        return twisted_face.connect(*endpoints, reactor=reactor, **arguments)

    async def test_twisted_reader_gets_merged_streams(self) -> None:
        await check_merged_order(self.connect, self.node, "twisted")


def xmlbroker(node: NodeProcess, *arguments: str, stdin: bytes = b"") -> tuple[list[Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "broker.cli", *arguments],
        cwd=ROOT,
        env={**os.environ, "XMLBROKER_NODE": node.endpoint},
        input=stdin,
        capture_output=True,
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def test_command_line_prints_bundles_in_order(shared_node: NodeProcess) -> None:
    documents = b""
    for number in (2, 1, 3, 6):
        linkage = EventLinkage(bundles=(Bundle("b", number),), merge_scheme="bundle")
        event_id = EventId("any", 1, number, 1)
        documents += write_event(event_id, "chain", FLIGHT, flight(number), linkage=linkage)
    xmlbroker(shared_node, "pub", "-", stdin=documents)
    merge = ("--merge", "linked", "--merge-wait", "0.3", "--streams", "chain")
    lines, stderr = xmlbroker(shared_node, "sub", "--from", "all", "--count", "4", *merge)
    places = [int(line["place"].split(":")[2]) for line in lines if "place" in line]
    assert [place - min(places) for place in places] == [1, 0, 2, 3]
    missing_range = {"stream": "chain", "bundle_id": "b", "first": 4, "last": 5}
    assert [line["missing"] for line in lines if "missing" in line] == [missing_range]
    assert stderr == "bundle: 'b' of chain is missing 4 to 5\n4 events\n"
