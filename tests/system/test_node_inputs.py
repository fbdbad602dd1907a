"""Inputs that a real node runs by its configuration, with kills and restarts."""

from __future__ import annotations

import json
import os
import select
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker.identity import hash_secret
from tests.system.fork_server import ForkedProcess
from tests.system.node_process import PATIENCE, ROOT, NodeProcess

pytestmark = pytest.mark.system

FLIGHT = "<flight><id>%d</id><flightleg/></flight>"
CONFIGURATION = f"""
[inputs.flights]
sources = ["in", "later"]
watch = true
type = ["flight", "1.1"]
split = "//flight"
id = "id"
account = "feed"
client_id = "feed-in"
secret_file = "feed.secret"

[accounts.feed]
secret = "{hash_secret("hush")}"
client_ids = ["feed", "feed-in"]
publish = [">"]
subscribe = [">"]
administer = true
"""


class Shell:
    def __init__(self, node: NodeProcess) -> None:
        access = {"NODE": node.endpoint, "ACCOUNT": "feed", "SECRET": "hush"}
        self._environment = {
            **os.environ,
            **{f"XMLBROKER_{name}": value for name, value in access.items()},
        }

    def run(self, *arguments: str) -> str:
        process = ForkedProcess(
            "xmlbroker", arguments, folder=ROOT, environment=self._environment, with_errors=True
        )
        out, _ = process.communicate(timeout=PATIENCE)
        return out

    def read_status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status"))
        return found

    def read_events(self, count: int) -> Counter[str]:
        return Counter(self.run("sub", "--from", "all", "--payload", "--count", str(count)).split())


class Watched:
    """A process that the test has not started."""

    def __init__(self, pid: int) -> None:
        self.command = Path(f"/proc/{pid}/cmdline").read_text()
        self._descriptor = os.pidfd_open(pid)

    def has_ended(self) -> bool:
        """Wait for its end."""
        return bool(select.select([self._descriptor], [], [], PATIENCE)[0])

    def close(self) -> None:
        os.close(self._descriptor)


def put(node: NodeProcess, name: str, content: str) -> None:
    """Move a complete file into the watched folder."""
    (node.folder / name).write_text(f"<feed>{content}</feed>")
    (node.folder / name).rename(node.folder / "in" / name)


def test_a_feed_comes_in_once_by_configuration_alone_whatever_dies(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, CONFIGURATION)
    shell = Shell(node)
    (tmp_path / "in").mkdir()
    (tmp_path / "feed.secret").write_text("hush\n")
    put(node, "a.xml", FLIGHT % 1 + "<flight><flightleg/></flight>")
    with node:
        node.await_log("input flights: .*/later: the folder can not be read now: No such file")
        node.await_log(r"input flights: .*/in/a\.xml:1: --id id has no value in this event")
        node.await_log("input flights: the first event is durable")
        (row,) = shell.read_status()["inputs"]
        assert [row[key] for key in ("name", "found", "durable", "refused", "restarts")] == [
            *("flights", 3, 1, 2, 0)
        ]
        assert "a.xml:1" in row["last_error"]
        with closing(Watched(row["pid"])) as process:
            assert "--supervised" in process.command
            assert "hush" not in process.command
            node.kill()
            assert process.has_ended()
        # The feed lists an old event again.
        put(node, "b.xml", FLIGHT % 1 + FLIGHT % 2)
        seen = len(node.log().splitlines())
        node.start()
        node.await_log("input flights: the first event is durable", seen)
        assert shell.read_events(2) == {FLIGHT % 1: 1, FLIGHT % 2: 1}
        status = shell.read_status()
        # A killed process is replaced.
        with closing(Watched(status["inputs"][0]["pid"])) as process:
            os.kill(status["inputs"][0]["pid"], 9)
            assert process.has_ended()
        node.await_log("input flights: the process has ended: .*; it is restarted", seen)
        put(node, "c.xml", FLIGHT % 2 + FLIGHT % 3)
        assert shell.read_events(3) == {FLIGHT % number: 1 for number in (1, 2, 3)}
        status = shell.read_status()
        assert (status["log"]["last"], status["inputs"][0]["restarts"]) == (3, 1)
        with closing(Watched(status["inputs"][0]["pid"])) as process:
            node.stop()
            assert process.has_ended()
        assert "has stopped in good order" in node.log()
        assert "Traceback" not in node.log()
