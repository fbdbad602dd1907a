"""The examples run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.system.node_process import PATIENCE, ROOT, NodeProcess

pytestmark = pytest.mark.system


def example(name: str, node: NodeProcess) -> subprocess.Popen[str]:
    """An example that talks to the node."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / name), node.endpoint],
        cwd=node.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("subscriber", ["subscribe.py", "subscribe_twisted.py"])
def test_the_ten_line_examples_work_together(subscriber: str, shared_node: NodeProcess) -> None:
    subscribing = example(subscriber, shared_node)
    assert subscribing.stdout is not None
    try:
        assert "waiting" in subscribing.stdout.readline()
        publishing = example("publish.py", shared_node)
        said, _ = publishing.communicate(timeout=PATIENCE)
        assert publishing.returncode == 0, said
        assert "is durable at" in said
        line = subscribing.stdout.readline()
        assert line.startswith("flights.ual ")
        assert said.split()[0].split("/")[0] in line
    finally:
        subscribing.kill()
        subscribing.communicate()
