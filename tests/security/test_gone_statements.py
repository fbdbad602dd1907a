"""A member that floods its cluster with votes about origins, over real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from broker.cluster.gone_origins import MOST_CHECKS, MOST_VOTES
from tests.security.bystander import measured_bystander
from tests.security.keyed_cluster import make_keyed_cluster
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE
from tests.system.traffic import ask_status, run_within

pytestmark = pytest.mark.system

#: Fewer than the votes of a node, so that one second of them passes the bound.
ORIGINS: Final = 20
VOTES: Final = 100
#: The attacked node logs its checks of a second, and the number of stored memberships.
_WATCHED: Final = f"""
from broker.cluster import gone_origins

gone_origins.MOST_ORIGINS = {ORIGINS}
read_entry = gone_origins.GoneOrigins._read_entry
tick = gone_origins.GoneOrigins.tick
checked = [0, 0]

def count(self, author, entry, *rest):
    if entry != gone_origins.MEMBERSHIP:
        checked[0] += 1
        checked[1] += 1
    return read_entry(self, author, entry, *rest)

def tick_watched(self, *arguments):
    checked[0] = 0
    changes = tick(self, *arguments)
    if checked[1]:
        print("checks", *checked, "origins", len(self.memberships), flush=True)
    return changes

gone_origins.GoneOrigins._read_entry = count
gone_origins.GoneOrigins.tick = tick_watched
"""
#: The attacker votes on logs of its own invention, each with a membership that its key has signed.
_VOTING: Final = f"""
from broker.cluster import gone_origins
from broker.event.origin import new_origin
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.gone_certificate import sign_membership, sign_vote

voted = []

def vote(self, now):
    if voted:
        return {{}}
    voted.append(True)
    changes = {{}}
    for _ in range({VOTES}):
        key = SigningKey.generate()
        origin = new_origin(self._wall_clock(), key.public.raw)
        membership = sign_membership(key, origin, 1, [("n2", self._key.public.raw)])
        signed = sign_vote(self._key, origin, self._wall_clock())
        changes[gone_origins.VOTE + origin] = (membership.encode(), signed.encode())
    return changes

gone_origins.GoneOrigins._vote = vote
"""


@pytest.mark.limit("statements about gone origins", "node")
@pytest.mark.limit("statements about gone origins", "node of the cluster")
def test_votes_of_a_member_are_checked_slowly_and_few_are_stored(tmp_path: Path) -> None:
    nodes = make_keyed_cluster(tmp_path, (_WATCHED, _VOTING))
    attacked = nodes[0]

    async def work() -> None:
        async with measured_bystander(attacked.endpoint) as bystander:
            await bystander.measure()
            # No further vote is read in the second after the last one.
            last = rf"checks 0 {MOST_VOTES} origins"
            await asyncio.to_thread(attacked.await_log, last)
            await bystander.measure()
        assert (await ask_status(attacked.endpoint))["network"]["gone"] == {}

    with run_nodes(nodes, [(0, 1), (1, 0)]):
        run_within(work(), 2 * PATIENCE)
        lines = [line.split() for line in attacked.log().splitlines()]
        watched = [words for words in lines if "checks" in words]
        counts = [tuple(map(int, words[-4:-2])) for words in watched]
        assert max(now for now, _ in counts) == MOST_CHECKS
        assert counts[-1] == (0, MOST_VOTES)
        assert max(int(words[-1]) for words in watched) == ORIGINS
