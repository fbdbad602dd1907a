from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.free_ports import free_port
from tests.system.node_process import PATIENCE, ROOT, NodeProcess

pytestmark = pytest.mark.system


def top(*endpoints: str) -> subprocess.Popen[str]:
    nodes = [each for endpoint in endpoints for each in ("--node", endpoint)]
    return subprocess.Popen(
        [sys.executable, "-m", "broker.cli", "top", "--json", "--interval", "0.1", *nodes],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(watching: subprocess.Popen[str], reachable: list[bool]) -> list[dict[str, Any]]:
    assert watching.stdout is not None
    for line in watching.stdout:
        nodes: list[dict[str, Any]] = json.loads(line)["nodes"]
        if ["error" not in node for node in nodes] == reachable:
            return nodes
    raise AssertionError(f"it has ended: {watching.communicate(timeout=PATIENCE)}")


def test_top_shows_a_node_that_dies_and_returns(tmp_path: Path) -> None:
    nowhere = f"tcp:127.0.0.1:{free_port()}"
    with NodeProcess(tmp_path) as node:
        watching = top(node.endpoint, nowhere)
        try:
            running_node, missing_node = wait_for(watching, [True, False])
            assert running_node["node"] == "tested" and running_node["endpoint"] == node.endpoint
            assert missing_node["endpoint"] == nowhere and missing_node["rates"] == {}
            node.kill()
            assert wait_for(watching, [False, False])[0]["error"]
            node.start()
            wait_for(watching, [True, False])
            watching.send_signal(signal.SIGINT)
            _, stderr = watching.communicate(timeout=PATIENCE)
            assert (watching.returncode, stderr) == (0, "")
        finally:
            watching.kill()
            watching.wait()
