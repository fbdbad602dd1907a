"""Files of nodes and clients are closed to other users, whatever the umask."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.errors import BrokerError
from broker.private_files import umask_for
from tests.system.archived_nodes import wait_until_archived
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import FLIGHT, flight, run_within

pytestmark = pytest.mark.system


def wider_than(folder: Path, umask: int) -> dict[str, str]:
    """Return the modes of paths that have a permission of the umask."""
    found = {path: stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.rglob("*"))}
    assert len(found) > 1
    return {str(path): f"{mode:04o}" for path, mode in found.items() if mode & umask}


def test_files_are_private_under_any_umask(tmp_path: Path) -> None:
    archive, state = tmp_path / "archive", tmp_path / "state"
    configuration = f'[archive]\nlocation = "{archive}"\nmode = "0640"\nevery = "100ms"\n'
    before = os.umask(0)
    try:
        with NodeProcess(
            tmp_path / "node", configuration, prelude="import os; os.umask(0)"
        ) as node:

            async def use() -> None:
                async with connect(node.endpoint, client_id="reader", state=state) as client:
                    subscription = await client.subscribe(durable="d")
                    receipt = await client.publish("a", flight(1), FLIGHT)
                    with pytest.raises(BrokerError):
                        await client.publish("a", b"<flight/>", FLIGHT)
                    await anext(aiter(subscription))
                    await wait_until_archived(archive, [receipt])

            run_within(use(), PATIENCE)
            node.stop()
            assert "others on this machine" not in node.log()
    finally:
        os.umask(before)
    assert not wider_than(node.data, 0o077)
    assert list((node.data / "quarantine").iterdir())
    assert not wider_than(state, 0o077)
    assert not wider_than(archive, umask_for(0o640))
    assert stat.S_IMODE(next(archive.rglob("*.parquet")).stat().st_mode) == 0o640


def test_wider_folder_is_reported_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    with NodeProcess(tmp_path / "node", data=data) as node:
        node.stop()
        assert node.log().count(f"{data} has the mode 0755") == 1
        assert "chmod it to 0700" in node.log()
