"""A process that has imported a node's modules and forks for each node that a test starts.

The imports are nine tenths of a node's start. A test that looks at the start itself starts its node
with a command of its own.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from twisted.scripts import twistd

ROOT: Final = Path(__file__).resolve().parents[2]
#: A package with stacks, as if it was installed.
EXAMPLE: Final = ROOT / "examples" / "two_parents"
#: The reactor is not among them: it has descriptors, which processes can not share.
MODULES: Final = (
    "twisted.internet.epollreactor",
    "twisted.plugins.xmlbroker_dcp",
    "twisted.plugins.xmlbroker_mspaces",
    "twisted.plugins.xmlbroker_rcm",
    "broker.node.tap",
    "broker.node.service",
)
#: Bytes of a request, which has a whole environment.
_MAX_REQUEST: Final = 1 << 20
#: Of Linux.
_CLONE_NEWNET: Final = 0x40000000
_PR_SET_PDEATHSIG: Final = 1


class ForkedProcess:
    """A process with `twistd`, and the methods of `subprocess.Popen` that tests of nodes need."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        prelude: str = "",
        namespace: str = "",
    ) -> None:
        """`prelude` is Python code to run first; `namespace` is a network namespace."""
        request = {
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
            "prelude": prelude,
            "namespace": namespace,
        }
        self._reports, theirs = _packet_sockets()
        read_end, write_end = os.pipe()
        with theirs:
            descriptors = [theirs.fileno(), write_end]
            socket.send_fds(_server(), [json.dumps(request).encode()], descriptors)
        os.close(write_end)
        self.stdout = os.fdopen(read_end, errors="replace")
        self._returncode: int | None = None
        self.pid = self._read_report()

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, negative for a signal. Raises `subprocess.TimeoutExpired`."""
        if self._returncode is None:
            if not select.select([self._reports], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("twistd", timeout or 0.0)
            self._returncode = self._read_report()
            self._reports.close()
        return self._returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_report(self) -> int:
        report = self._reports.recv(64)
        if not report:
            raise RuntimeError("the fork server has ended")
        return int(report)


def _packet_sockets() -> tuple[socket.socket, socket.socket]:
    """Two ends that keep messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@functools.cache
def _server() -> socket.socket:
    """Start the server of this process; it ends with it."""
    ours, theirs = _packet_sockets()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.fork_server"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{EXAMPLE}"},
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
        )

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


# ------------------------------------------------------------------------- in the server


def main() -> None:
    gc.disable()
    for module in MODULES:
        importlib.import_module(module)
    assert "twisted.internet.reactor" not in sys.modules
    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGCHLD, _reap)
    requests = socket.socket(fileno=0)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _MAX_REQUEST, 2)
        if not message:
            return
        if os.fork() == 0:
            break
        for each in descriptors:
            os.close(each)
    reports, output = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _die_with_parent()
    if pid := os.fork():
        _report_on(pid, reports, output)
    _die_with_parent()
    os.close(reports)
    _become_node(json.loads(message), output)


def _die_with_parent() -> None:
    """No node outlives killed tests."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _report_on(pid: int, reports: int, output: int) -> None:
    """Report the node's process id and exit status, and exit."""
    os.close(output)
    try:
        os.write(reports, b"%d" % pid)
        os.write(reports, b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    finally:
        os._exit(0)


def _become_node(request: dict[str, Any], output: int) -> None:
    """Run `twistd`; its exceptions and the end of the interpreter are those of a new process."""
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    if request["namespace"]:
        with open(f"/run/netns/{request['namespace']}") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "the network namespace can not be entered")
    sys.argv = ["twistd", *request["arguments"]]
    exec(request["prelude"], {"__name__": "__main__"})
    twistd.run()


if __name__ == "__main__":
    main()
