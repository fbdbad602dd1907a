"""`pub` with `--id`, `--watch` and `--every` against a real node, with kills and restarts."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import groupby
from pathlib import Path

import pytest

from broker.cli.publishing.publish_run import MAX_REPEATED
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
    """Runs `xmlbroker pub` with one table."""

    def __init__(
        self, node: NodeProcess, folder: Path, options: tuple[str, ...] = ("--id", "id")
    ) -> None:
        self._environment = {**os.environ, "XMLBROKER_NODE": node.endpoint}
        self._options = (*options, "--published", str(folder / "t.db"), "--timeout", "60")

    def start(self, *arguments: str) -> ForkedProcess:
        return ForkedProcess(
            "xmlbroker",
            ("pub", *self._options, *arguments),
            folder=ROOT,
            environment=self._environment,
            with_input=True,
            with_errors=True,
        )

    def run(self, *ids: int) -> tuple[int, int]:
        """Return the numbers of known and of durable events."""
        process = self.start("-")
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
    assert 100 <= durable <= 100 + MAX_REPEATED
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


def interrupt(process: ForkedProcess) -> dict[str, int]:
    """Return the summary."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err
    counts: dict[str, int] = json.loads(out)
    return counts


def test_files_of_a_folder_are_published_once_as_they_appear(
    node: NodeProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a").write_text(FLIGHT % 1)
    publisher = Publisher(node, tmp_path, ("--watch",))
    process = publisher.start(str(folder))
    assert publisher.read_ids(1) == {FLIGHT % 1: 1}
    (tmp_path / "b").write_text(FLIGHT % 2 + "\n" + FLIGHT % 3)
    (tmp_path / "b").rename(folder / "b")
    ids = publisher.read_ids(3)
    assert interrupt(process)["durable"] == 3
    assert ids == {FLIGHT % id_: 1 for id_ in (1, 2, 3)}


class FeedServer(HTTPServer):
    """Serves one collection with an ETag."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FeedAnswer)
        self.ids = [1, 2]
        self.answers: list[int] = []
        self._changed = threading.Condition()

    def record(self, status: int) -> None:
        with self._changed:
            self.answers.append(status)
            self._changed.notify_all()

    def await_answers(self, *statuses: int) -> None:
        """Wait until the answers, with equal ones in succession counted once, are these."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: [status for status, _ in groupby(self.answers)] == list(statuses), PATIENCE
            ), self.answers


class FeedAnswer(BaseHTTPRequestHandler):
    server: FeedServer

    def do_GET(self) -> None:
        tag = f'"{self.server.ids}"'
        status = 304 if self.headers["If-None-Match"] == tag else 200
        body = "" if status == 304 else "".join(FLIGHT % id_ for id_ in self.server.ids)
        self.send_response(status)
        self.send_header("ETag", tag)
        self.end_headers()
        self.wfile.write(f"<feed>{body}</feed>".encode() if body else b"")
        self.server.record(status)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serving() -> Iterator[FeedServer]:
    with FeedServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_a_feed_that_is_fetched_at_an_interval_gives_each_event_once(
    node: NodeProcess, tmp_path: Path
) -> None:
    publisher = Publisher(node, tmp_path, ("--every", "1s", "--split", "//flight", "--id", "id"))
    with serving() as server:
        url = f"http://127.0.0.1:{server.server_port}/feed"
        process = publisher.start(url)
        server.await_answers(200, 304)
        server.ids = [2, 3]
        server.await_answers(200, 304, 200, 304)
        counts = interrupt(process)
        assert [counts[key] for key in ("found", "known", "durable", "refused")] == [4, 1, 3, 0]
        # The state of the address outlives the process.
        server.answers.clear()
        process = publisher.start(url)
        server.await_answers(304)
        server.ids = [3, 4]
        ids = publisher.read_ids(4)
        assert interrupt(process)["durable"] == 1
    assert ids == {FLIGHT % id_: 1 for id_ in (1, 2, 3, 4)}
