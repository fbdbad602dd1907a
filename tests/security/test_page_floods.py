"""A member that requests pages of a log without end, over real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from broker.client.asyncio_face import connect
from tests.security.bystander import measured_bystander
from tests.security.keyed_cluster import make_keyed_cluster
from tests.system.archived_nodes import ids_of
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE
from tests.system.traffic import STREAM, publish, run_within

pytestmark = pytest.mark.system

EVENTS: Final = 2_000
#: The node `n2` requests all events of `n1` a hundred times in a twentieth of a second, when the
#: file exists. It prints a line for the first refusal.
_FLOOD: Final = """
import random
from pathlib import Path
from broker.errors import Overloaded
from broker.recovery import page_exchange
from broker.recovery.messages import EVERYTHING_LOGGED, FetchPage, PageFetched

start = page_exchange.PageExchange.__init__

def start_flood(self, messenger, *others, **named):
    from twisted.internet import reactor, task
    start(self, messenger, *others, **named)
    take, refused = messenger._listeners[PageFetched], []

    def watch(answer):
        if answer.error[0] == Overloaded.code and not refused:
            refused.append(answer)
            print("a request is refused", flush=True)
        take(answer)

    messenger.add_listener(PageFetched, watch)

    def flood():
        state = messenger._network.state
        target = None if state is None else state.map.members().get("n1")
        if target is None or not Path({file!r}).exists():
            return
        wanted = ((target.origin, (0, 0), None),)
        for _ in range(100):
            fields = target.address, state.address, 8, random.getrandbits(60)
            request = ">", "true()", {{}}, 2, wanted, 0
            messenger.send(FetchPage(*fields, "", EVERYTHING_LOGGED, *request, version=5))

    task.LoopingCall(flood).start(0.05)

page_exchange.PageExchange.__init__ = start_flood
"""


@pytest.mark.limit("page requests", "node")
def test_page_requests_of_a_member_without_end_keep_no_other_from_its_pages(
    tmp_path: Path,
) -> None:
    file = tmp_path / "flood"
    nodes = make_keyed_cluster(tmp_path, ("", _FLOOD.format(file=str(file)), ""))
    attacked, member, other = nodes

    async def work() -> None:
        async with (
            connect(attacked.endpoint, client_id="publisher") as publisher,
            measured_bystander(attacked.endpoint) as bystander,
            connect(other.endpoint, client_id="reader") as reader,
        ):
            receipts = await publish(publisher, 0, EVENTS)
            file.touch()
            await asyncio.to_thread(member.await_log, "a request is refused")
            await bystander.measure(3)
            replay = reader.replay("true()", STREAM)
            async with asyncio.timeout(PATIENCE):
                found = [each.event_id async for each in replay]
            assert sorted(found) == sorted(ids_of(receipts)) and not replay.gaps
            await bystander.measure(3)
            file.unlink()

    with run_nodes(nodes, [(0, 1), (0, 2)]):
        run_within(work(), 2 * PATIENCE)
        for each in (attacked, other):
            assert "Traceback" not in each.log()
            assert "is down" not in each.log()
