"""`xmlbroker top` on real nodes: they go away and come back, and Ctrl-C ends it."""

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
    """A look each moment, as lines of JSON."""
    nodes = [each for endpoint in endpoints for each in ("--node", endpoint)]
    return subprocess.Popen(
        [sys.executable, "-m", "broker.cli", "top", "--json", "--interval", "0.1", *nodes],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(watching: subprocess.Popen[str], reachable: list[bool]) -> list[dict[str, Any]]:
    """What is said of the nodes at the first look at which these are reachable, and not others."""
    assert watching.stdout is not None
    for line in watching.stdout:
        nodes: list[dict[str, Any]] = json.loads(line)["nodes"]
        if ["error" not in node for node in nodes] == reachable:
            return nodes
    raise AssertionError(f"it has ended: {watching.communicate(timeout=PATIENCE)}")


def test_a_node_that_goes_away_is_shown_as_gone_and_found_again(tmp_path: Path) -> None:
    nowhere = f"tcp:127.0.0.1:{free_port()}"
    with NodeProcess(tmp_path) as node:
        watching = top(node.endpoint, nowhere)
        try:
            here, away = until(watching, [True, False])
            assert here["node"] == "tested" and here["endpoint"] == node.endpoint
            assert away["endpoint"] == nowhere and away["rates"] == {}
            node.kill()
            assert until(watching, [False, False])[0]["error"]
            node.start()
            until(watching, [True, False])
            watching.send_signal(signal.SIGINT)
            _, complaints = watching.communicate(timeout=PATIENCE)
            assert (watching.returncode, complaints) == (0, "")
        finally:
            watching.kill()
            watching.wait()
