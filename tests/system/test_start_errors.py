"""A node that can not start logs one line with the cause and exits with status 1."""

from __future__ import annotations

import re
import socket
import stat
import time
from pathlib import Path

import lmdb
import pytest

from tests.capability import need
from tests.system.mounts import mounted_tmpfs
from tests.system.node_process import NodeProcess

pytestmark = pytest.mark.system


def fail_to_start(node: NodeProcess, *arguments: str) -> str:
    """Return the log."""
    node.launch(*arguments)
    try:
        assert node.wait() == 1
    finally:
        node.kill()
    log = node.log()
    assert "Traceback" not in log
    assert "Unhandled" not in log
    assert "is ready" not in log
    return log


def start_error(node: NodeProcess) -> str:
    lines = [line for line in fail_to_start(node).splitlines() if "can not start" in line]
    assert len(lines) == 1, lines
    return lines[0]


def test_port_in_use_is_reported(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", node.port))
        listener.listen()
        assert str(node.port) in start_error(node)
        assert "in use" in node.log()
    # The failed start leaves nothing behind.
    with node:
        node.stop()
    assert re.search(r"epoch \d+,", node.log())


def test_data_path_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("something else")
    line = start_error(NodeProcess(tmp_path))
    assert str(tmp_path / "data") in line


def test_read_only_data_folder_is_reported(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path / "disk", "size=1m,ro") as disk:
        line = start_error(NodeProcess(tmp_path, data=disk / "data"))
        assert str(disk / "data") in line
        assert "Read-only file system" in line


def test_read_only_log_is_reported(tmp_path: Path) -> None:
    # For root only a read-only mount is read-only.
    need("no-root")
    with NodeProcess(tmp_path) as node:
        node.stop()
    (node.data / "log" / "data.mdb").chmod(stat.S_IRUSR)
    assert str(node.data / "log") in start_error(NodeProcess(tmp_path))


def test_log_of_another_format_is_reported(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        node.stop()
    with lmdb.open(str(node.data / "log"), max_dbs=8) as env, env.begin(write=True) as txn:
        txn.put(b"format", b"xmlbroker-log-99", db=env.open_db(b"meta", txn))
    line = start_error(NodeProcess(tmp_path))
    assert "xmlbroker-log-99" in line


def test_file_that_is_not_a_log_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data" / "log").mkdir(parents=True)
    (tmp_path / "data" / "log" / "data.mdb").write_bytes(b"<event/>" * 4096)
    assert "does not hold an event log" in start_error(NodeProcess(tmp_path))


def epoch(node: NodeProcess) -> int:
    found = re.search(r"is ready: log \w+, epoch (\d+),", node.log())
    assert found is not None, node.log()
    return int(found[1])


def test_two_nodes_can_not_share_a_data_folder(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "one") as first:
        second = NodeProcess(tmp_path / "two", data=first.data)
        line = start_error(second)
        assert str(first.data) in line
        assert "in use" in line
        first.kill()
        with second:
            assert epoch(second) > epoch(first)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            "[limits]\nmax_sessionz = 5\n",
            ("node.toml", "limits.max_sessionz", "max_sessions", "line 7"),
        ),
        ("[queue]\nevents = 0\n", ("node.toml", "queue.events", "1 to 10", "line 7")),
        ("[log\n", ("node.toml", "line 6")),
        ('[types]\nfolders = ["no-such-folder"]\n', ("types.folders", "no-such-folder")),
    ],
)
def test_wrong_configuration_is_reported_with_key_values_and_line(
    table: str, expected: tuple[str, ...], tmp_path: Path
) -> None:
    log = fail_to_start(NodeProcess(tmp_path, table))
    for words in expected:
        assert words in log


def test_missing_configuration_is_reported(tmp_path: Path) -> None:
    log = fail_to_start(NodeProcess(tmp_path), "--config", "nowhere.toml")
    assert "nowhere.toml" in log


def test_tls_endpoint_without_its_key_is_reported(tmp_path: Path) -> None:
    endpoint = "ssl:port={port}:interface=127.0.0.1:privateKey=no-key.pem:certKey=no-cert.pem"
    log = fail_to_start(NodeProcess(tmp_path, endpoint=endpoint))
    assert "no-key.pem" in log


def test_node_without_options_listens_on_loopback_quickly(
    tmp_path: Path,
) -> None:
    need("default-port")
    node = NodeProcess(tmp_path)
    began = time.monotonic()
    node.launch("--")
    try:
        assert "127.0.0.1" in node.await_log("listening on")
        node.await_log("is ready")
        # One second on an idle machine.
        assert time.monotonic() - began < 5.0
        assert (tmp_path / "xmlbroker-data" / "log" / "data.mdb").exists()
    finally:
        node.kill()


def test_daemon_that_can_not_start_reports_the_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("something else")
    node = NodeProcess(tmp_path)
    node.launch("--config", str(node.settings), daemon=True)
    try:
        assert node.wait() == 1
    finally:
        node.kill()
    assert "An error has occurred" in node.log()
    assert "can not start" in (tmp_path / "twistd.log").read_text()
    assert not (tmp_path / "twistd.pid").exists()
