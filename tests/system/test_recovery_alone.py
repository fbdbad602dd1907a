from __future__ import annotations

from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.client.received import Receipt, since
from broker.event.place import Position
from tests.system.archived_nodes import (
    ids_of,
    node_settings,
    recovered_ids,
    wait_for_all,
    wait_until_archived,
)
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import Inbox, publish, run_within

pytestmark = pytest.mark.system


def test_position_in_a_lost_log_resumes_from_the_archive(tmp_path: Path) -> None:
    async def fill() -> list[Receipt]:
        async with connect(first.endpoint, client_id="publisher") as client:
            await client.when_connected(PATIENCE)
            receipts.extend(await publish(client, 0, 20))
            await wait_until_archived(tmp_path / "archive", receipts)
        return receipts

    async def read_rest() -> None:
        place = receipts[4].place
        assert place is not None
        async with connect(second.endpoint, client_id="rover") as client:
            await client.when_connected(PATIENCE)
            start = since(Position({place.origin: place.mark}))
            inbox = Inbox(await client.subscribe("true()", "roaming.>", start=start))
            await wait_for_all(inbox, receipts[5:])
            assert inbox.ids == recovered_ids(inbox.events) == ids_of(receipts[5:])
            await inbox.close()

    receipts: list[Receipt] = []
    common = node_settings(tmp_path / "archive")
    with NodeProcess(tmp_path / "first", common) as first:
        run_within(fill())
        first.stop()
    with NodeProcess(tmp_path / "second", common) as second:
        run_within(read_rest(), 4 * PATIENCE)
        second.stop()
