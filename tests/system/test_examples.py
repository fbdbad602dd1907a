"""The example clients, as a reader of them would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.node_process import PATIENCE, ROOT, NodeProcess

pytestmark = pytest.mark.system


def start(name: str, endpoint: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / name), endpoint],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("subscriber", ["subscribe.py", "subscribe_twisted.py"])
def test_a_published_flight_is_printed(tmp_path: Path, subscriber: str) -> None:
    with NodeProcess(tmp_path) as node, start(subscriber, node.endpoint) as subscribing:
        assert subscribing.stdout is not None
        assert subscribing.stdout.readline() == "waiting for flights above 30,000 feet\n"
        with start("publish.py", node.endpoint) as publishing:
            out, err = publishing.communicate(timeout=PATIENCE)
        assert (publishing.returncode, err) == (0, "")
        event_id = out.split(" is durable at ")[0]
        assert subscribing.stdout.readline() == f"flights.ual {event_id} <flight>\n"
        assert "<id>UAL1021</id>" in subscribing.stdout.readline()
        subscribing.kill()
