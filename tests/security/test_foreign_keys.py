"""A member that sends events of invented logs: each costs a hash of its key, over real sockets."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

import pytest

from broker.cluster.signature_check import MOST_REJECTED, REJECTED_PER_SECOND
from tests.security.bystander import measured_bystander
from tests.security.keyed_cluster import make_keyed_cluster
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE
from tests.system.traffic import ask_status, run_within

pytestmark = pytest.mark.system

#: In a second.
FRAMES: Final = 200
_FORGING: Final = f"""
import os

from broker.cluster.network import Network
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.traffic.frame_range import Range
from broker.event.placeholder import digest_of
from broker.event.record import join_record
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.batch_signer import BatchSigner
from broker.streams.contract import CarriedEvent

tick = Network.tick
key = SigningKey.generate()

def forge(network):
    tick(network)
    state = network.state
    members = {{}} if state is None else state.map.members()
    if "n1" not in members:
        return
    plain, document = b"\\x99" + b"\\x01" * 9, b"<d/>"
    for _ in range({FRAMES}):
        origin = "9" + os.urandom(12).hex()[1:]
        (proof,) = BatchSigner(key, origin).sign([((1, 1), plain, digest_of(document))])
        event = CarriedEvent((1, 1), join_record(plain, proof=proof), document)
        span = Range(members["n1"].address, (0, 0), (1, 1))
        network.driver.send_frame(make_page_frame(origin, state.address, [span], [event]))

Network.tick = forge
"""
#: The attacked node logs its hashes of a second, and the rejected frames.
_WATCHED: Final = """
from broker.cluster.network import Network
from broker.event import origin

tick, hash_of_key = Network.tick, origin._hash_of_key
hashes = 0

def count(*arguments):
    global hashes
    hashes += 1
    return hash_of_key(*arguments)

def report(network):
    global hashes
    tick(network)
    print("hashes", hashes, "rejected", network.signatures.rejected["n2"], flush=True)
    hashes = 0

origin._hash_of_key = count
Network.tick = report
"""


@pytest.mark.limit("hashes of keys for forged events of unknown logs", "neighbour")
def test_forged_events_of_invented_logs_slow_nobody(tmp_path: Path) -> None:
    nodes = make_keyed_cluster(tmp_path, (_WATCHED, _FORGING), 'verify = "always"\n')
    attacked = nodes[0]

    async def work() -> None:
        async with measured_bystander(attacked.endpoint) as bystander:
            await bystander.measure()
            await asyncio.to_thread(attacked.await_log, r"rejected \d{4}")
            await bystander.measure()
        assert (await ask_status(attacked.endpoint))["network"]["forged"]["n2"] > 4 * FRAMES

    with run_nodes(nodes, [(0, 1), (1, 0)]):
        run_within(work(), 2 * PATIENCE)
        counts = re.findall(r"hashes (\d+) rejected (\d+)", attacked.log())
        hashes = [int(hashed) for hashed, rejected in counts if int(rejected)]
        # A tick can be late.
        assert sum(hashes) <= MOST_REJECTED + REJECTED_PER_SECOND * (2 * len(hashes) + 1)
