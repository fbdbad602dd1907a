"""`pub --id` against a real node: killed and restarted publishers and nodes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.publishing.publish_run import MAX_OUTSTANDING_WITH_KEYS
from tests.system.fork_server import ForkedProcess
from tests.system.node_process import PATIENCE, ROOT, NodeProcess

pytestmark = pytest.mark.system

FLIGHT = "<flight><id>%d</id><flightleg/></flight>"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node") as running:
        yield running
        assert "Traceback" not in running.log()


class Publisher:
    """Runs `xmlbroker pub --id` with one table."""

    def __init__(self, node: NodeProcess, folder: Path) -> None:
        self._environment = {**os.environ, "XMLBROKER_NODE": node.endpoint}
        self._options = ("--id", "id", "--published", str(folder / "t.db"), "--timeout", "60")

    def start(self, *arguments: str) -> ForkedProcess:
        return ForkedProcess(
            "xmlbroker",
            ("pub", *self._options, *arguments),
            folder=ROOT,
            environment=self._environment,
            with_input=True,
            with_errors=True,
        )

    def run(self, *ids: int, options: tuple[str, ...] = ()) -> tuple[int, int]:
        """Return the numbers of known and of durable events."""
        process = self.start("-", *options)
        out, err = process.communicate("".join(FLIGHT % id_ for id_ in ids), PATIENCE)
        assert (process.returncode, err) == (0, "")
        counts = json.loads(out)
        return counts["known"], counts["durable"]

    def subscribe(self, count: int) -> ForkedProcess:
        return ForkedProcess(
            "xmlbroker",
            ("sub", "--from", "all", "--payload", "--count", str(count)),
            folder=ROOT,
            environment=self._environment,
            with_errors=True,
        )

    def read_ids(self, count: int) -> Counter[str]:
        out, _ = self.subscribe(count).communicate(timeout=PATIENCE)
        return Counter(out.split())


def test_each_event_comes_once_after_restarts_of_both(node: NodeProcess, tmp_path: Path) -> None:
    publisher = Publisher(node, tmp_path)
    assert publisher.run(*range(300)) == (0, 300)
    assert publisher.run(*range(300)) == (300, 0)
    node.kill()
    node.start()
    assert publisher.run(*range(100, 400)) == (200, 100)
    ids = publisher.read_ids(400)
    assert len(ids) == 400
    assert set(ids.values()) == {1}


def test_a_killed_publisher_repeats_few_events_and_loses_none(
    node: NodeProcess, tmp_path: Path
) -> None:
    publisher = Publisher(node, tmp_path)
    killed = publisher.start("-")
    # The command ends when the node has logged as many events.
    subscriber = publisher.subscribe(2000)
    assert killed.stdin is not None
    killed.stdin.write("".join(FLIGHT % id_ for id_ in range(2000)))
    killed.stdin.flush()
    subscriber.communicate(timeout=PATIENCE)
    killed.kill()
    killed.wait(PATIENCE)
    killed.stdin.close()
    for stream in (killed.stdout, killed.stderr):
        assert stream is not None
        stream.close()
    known, durable = publisher.run(*range(2100))
    assert known + durable == 2100
    assert 100 <= durable <= 100 + MAX_OUTSTANDING_WITH_KEYS
    ids = publisher.read_ids(2000 + durable)
    assert len(ids) == 2100
    assert publisher.run(*range(2100)) == (2100, 0)


def test_a_second_publisher_with_the_table_is_refused(node: NodeProcess, tmp_path: Path) -> None:
    publisher = Publisher(node, tmp_path)
    first = publisher.start("-")
    subscriber = publisher.subscribe(1)
    assert first.stdin is not None
    first.stdin.write(FLIGHT % 1)
    first.stdin.flush()
    subscriber.communicate(timeout=PATIENCE)
    second = publisher.start("-")
    _, err = second.communicate(FLIGHT % 2, PATIENCE)
    assert second.returncode == 1
    assert "another process uses it" in err
    first.communicate(FLIGHT % 2, PATIENCE)
    assert publisher.run(1, 2) == (2, 0)
