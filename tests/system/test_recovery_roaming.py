from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.client.received import Receipt
from tests.system.archived_nodes import (
    FILLING,
    ids_of,
    read_first_events,
    recovered_ids,
    resume,
    two_nodes,
    wait_for_all,
    wait_until_archived,
)
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE
from tests.system.traffic import publish, run_within

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    "with_state",
    [True, pytest.param(False, marks=pytest.mark.soak)],
    ids=["with state", "without state"],
)
def test_client_of_a_lost_node_gets_the_rest_at_another(tmp_path: Path, with_state: bool) -> None:
    state = tmp_path / "client" if with_state else None
    nodes = a, b = two_nodes(tmp_path)

    async def work() -> None:
        async with (
            connect(a.endpoint, client_id="publisher-a") as at_a,
            connect(b.endpoint, client_id="publisher-b") as at_b,
        ):
            await at_a.when_connected(PATIENCE)
            await at_b.when_connected(PATIENCE)
            await read_first_events(a, 0, state)
            of_a = await publish(at_a, 0, 50)
            of_b = await publish(at_b, 0, 50)
            events = await read_first_events(a, 100, state)
            for first in range(50, 250, 20):
                of_a += await publish(at_a, first, first + 20, FILLING)
                of_b += await publish(at_b, first, first + 20, FILLING)
                await wait_until_archived(tmp_path / "archive", [of_a[-1], of_b[-1]])
            a.kill()
            shutil.rmtree(a.data)
            async with connect(b.endpoint, client_id="rover", state=state) as client:
                inbox = await resume(client)
                await wait_for_all(inbox, of_a[50:] + of_b[50:])
                last = await publish(at_b, 250, 255)
                await wait_for_all(inbox, last)
                of_b += last
                got = [event.event_id for event in events] + inbox.ids
                for receipts in (of_a, of_b):
                    name = receipts[0].event_id.client_id
                    assert [each for each in got if each.client_id == name] == ids_of(receipts)
                assert len(recovered_ids(inbox.events)) == len(inbox.events) - 5
                assert not inbox.subscription.gaps
                await inbox.close()

    with run_nodes(nodes, [(1, 0)]):
        run_within(work(), 4 * PATIENCE)
        b.stop()
        assert "replay process started" in b.log()
        assert "Traceback" not in b.log()


@pytest.mark.parametrize(
    "where", ["there", pytest.param("where it was before", marks=pytest.mark.soak)]
)
def test_client_resumes_when_the_recovering_node_is_killed(tmp_path: Path, where: str) -> None:
    state = tmp_path / "client"
    nodes = a, b = two_nodes(tmp_path)

    async def work() -> None:
        async with connect(a.endpoint, client_id="publisher") as at_a:
            await at_a.when_connected(PATIENCE)
            await read_first_events(a, 0, state)
            published: list[Receipt] = []
            for first in range(0, 200, 20):
                published += await publish(at_a, first, first + 20, FILLING)
                await wait_until_archived(tmp_path / "archive", published[-1:])
            async with connect(b.endpoint, client_id="rover", state=state) as client:
                subscription = await client.subscribe("true()", "roaming.>", durable="d")
                got = [await anext(subscription) for _ in range(30)]
                b.kill()
                subscription.processed(got[-1])
            assert recovered_ids(got) == ids_of(published[:30])
            if where == "there":
                await asyncio.to_thread(b.start)
            node = b if where == "there" else a
            async with connect(node.endpoint, client_id="rover", state=state) as client:
                inbox = await resume(client)
                await wait_for_all(inbox, published[30:])
                last = await publish(at_a, 200, 205)
                await wait_for_all(inbox, last)
                assert inbox.ids == ids_of([*published[30:], *last])
                assert not inbox.subscription.gaps
                await inbox.close()

    with run_nodes(nodes, [(1, 0)]):
        run_within(work(), 6 * PATIENCE)
        assert "Traceback" not in a.log() + b.log()
