"""A shell in which `xmlbroker` is a forked process, which starts faster than a new one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.system.fork_server import server_descriptor
from tests.system.node_process import ROOT, NodeProcess

_COMMAND = '''#!{python} -IS
"""Ask the fork server for a process with these descriptors, and end as it ends."""
import json, os, signal, socket, sys

requests = socket.socket(fileno={descriptor})
reports, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
request = {{
    **{{"program": "xmlbroker", "arguments": sys.argv[1:], "folder": os.getcwd()}},
    **{{"environment": dict(os.environ), "prelude": "", "namespace": ""}},
}}
socket.send_fds(requests, [json.dumps(request).encode()], [theirs.fileno(), 0, 1, 2])
theirs.close()
pid = int(reports.recv(64))
signal.signal(signal.SIGTERM, lambda number, _: os.kill(pid, number))
sys.exit(int(reports.recv(64)))
'''


class Shell:
    """A shell of a user of one node, with files in `folder`."""

    def __init__(self, node: NodeProcess, folder: Path) -> None:
        commands = folder / "bin"
        commands.mkdir(parents=True)
        self._folder = folder
        self._server = server_descriptor()
        command = commands / "xmlbroker"
        command.write_text(_COMMAND.format(python=sys.executable, descriptor=self._server))
        command.chmod(0o755)
        places = (str(commands), str(Path(sys.executable).parent), os.environ["PATH"])
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join(places),
            "PYTHONPATH": str(ROOT),
            "XMLBROKER_NODE": node.endpoint,
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def run(self, script: str, timeout: float) -> str:
        """Return all output. Raises AssertionError if a command fails that no `||` follows."""
        run = subprocess.run(
            ["sh", "-e"],
            input=script,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            pass_fds=[self._server],
            check=False,
        )
        assert run.returncode == 0, run.stdout[-3000:]
        return run.stdout
