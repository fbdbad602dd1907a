"""An archive on an S3 object store.

The store is moto's server, version 5.2 or newer; older ones fail multipart uploads.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs
import pytest

from broker.archive.archive import Archive
from broker.archive.backup import Backup
from broker.archive.verification import Verification
from broker.client.asyncio_face import connect
from broker.client.received import Receipt
from examples.free_ports import free_port
from tests.capability import needs
from tests.seeds import further_cases
from tests.system.archived_nodes import FILLING, ids_of, node_settings, wait_until_archived
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.test_replays import replayed_ids
from tests.system.traffic import publish, run_within

pytestmark = [pytest.mark.system, needs("s3-server")]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "anything")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert server.stderr is not None
    reader = threading.Thread(target=server.stderr.read)
    try:
        while b"Running on" not in (line := server.stderr.readline()):
            assert line, "moto_server has ended"
        reader.start()
        place = f"127.0.0.1:{port}"
        system = pyarrow.fs.S3FileSystem(
            endpoint_override=place, scheme="http", region="us-east-1", allow_bucket_creation=True
        )
        system.create_dir("bucket")
        yield f"s3://bucket/archive?endpoint_override={place}&scheme=http&region=us-east-1"
    finally:
        server.kill()
        server.wait()
        reader.join()
        server.stderr.close()


@pytest.mark.parametrize(
    "engine",
    [pytest.param("spark", marks=needs("pyspark", "java")), *further_cases("local")],
)
def test_events_archived_in_a_bucket_are_replayed(tmp_path: Path, store: str, engine: str) -> None:
    async def work() -> None:
        async with connect(node.endpoint, client_id="publisher") as client:
            receipts: list[Receipt] = []
            for first in range(0, 280, 70):
                receipts += await publish(client, first, first + 70, FILLING)
                await wait_until_archived(store, receipts[-1:])
            replay = client.replay()
            assert await replayed_ids(replay) == ids_of(receipts)
            assert not replay.gaps
            status = (await client.ask("status"))["recovery"]
            assert status["recoveries"]["events"]["archive"] > 0
            await asyncio.to_thread(check_backup, len(receipts))

    def check_backup(events: int) -> None:
        copy = Archive.open(str(tmp_path / "copy"))
        Backup(Archive.open(store, create=False), copy).run()
        verified = Verification(copy).run()
        assert (verified.faults, verified.rows) == ([], events)

    with NodeProcess(tmp_path, node_settings(store, engine=engine)) as node:
        run_within(work(), 6 * PATIENCE)
        assert "Traceback" not in node.log()
