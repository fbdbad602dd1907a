"""A process that has imported all modules, and forks for each node and command that a test starts.

The imports are nine tenths of their start. Daemons, nodes of older trees and examples start as
usual.
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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TextIO, TypeAlias

from twisted.scripts import twistd

from broker.cli import main as run_xmlbroker

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
    "broker.client.asyncio_face",
    "broker.cli.explain",
    "broker.cli.order",
    "broker.cli.pub",
    "broker.cli.recover",
    "broker.cli.sub",
)
#: Readers of a pipe get each line at once.
UNBUFFERED: Final = {"PYTHONUNBUFFERED": "1"}
Program: TypeAlias = Literal["twistd", "xmlbroker"]
PROGRAMS: Final[Mapping[Program, Callable[[], object]]] = {
    "twistd": twistd.run,
    "xmlbroker": run_xmlbroker,
}
#: Bytes of a request, which has a whole environment.
_MAX_REQUEST: Final = 1 << 20
#: Of Linux.
_CLONE_NEWNET: Final = 0x40000000
_PR_SET_PDEATHSIG: Final = 1


class ForkedProcess:
    """A process with the methods of `subprocess.Popen` that tests of nodes and commands need."""

    def __init__(
        self,
        program: Program,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        prelude: str = "",
        namespace: str = "",
        with_input: bool = False,
        with_errors: bool = False,
    ) -> None:
        """`prelude` is Python code to run first; `namespace` is a network namespace.

        Without `with_input` the standard input is empty, without `with_errors` standard errors are
        in `stdout`.
        """
        request = {
            "program": program,
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
            "prelude": prelude,
            "namespace": namespace,
        }
        self._reports, theirs = _packet_sockets()
        read_end, write_end = os.pipe()
        self.stdout: TextIO = os.fdopen(read_end, errors="replace")
        self.stdin: TextIO | None = None
        self.stderr: TextIO | None = None
        input_end, error_end = os.open(os.devnull, os.O_RDONLY), os.dup(write_end)
        if with_input:
            os.close(input_end)
            input_end, write = os.pipe()
            self.stdin = os.fdopen(write, "w")
        if with_errors:
            os.close(error_end)
            read, error_end = os.pipe()
            self.stderr = os.fdopen(read, errors="replace")
        descriptors = [theirs.detach(), input_end, write_end, error_end]
        socket.send_fds(_server(), [json.dumps(request).encode()], descriptors)
        for each in descriptors:
            os.close(each)
        self.returncode: int | None = None
        self.pid = self._read_report()

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, negative for a signal. Raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            if not select.select([self._reports], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0.0)
            self.returncode = self._read_report()
            self._reports.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, text: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Write a text to standard input; return standard output and errors up to their ends."""
        with ThreadPoolExecutor(2) as pool:
            reading = [pool.submit(_read_and_close, each) for each in (self.stdout, self.stderr)]
            try:
                if self.stdin is not None:
                    with suppress(BrokenPipeError), self.stdin:
                        self.stdin.write(text or "")
                out, err = [each.result(timeout) for each in reading]
            except TimeoutError:
                self.kill()
                raise
        self.wait(timeout)
        return out, err

    def _read_report(self) -> int:
        report = self._reports.recv(64)
        if not report:
            raise RuntimeError("the fork server has ended")
        return int(report)


def _read_and_close(stream: TextIO | None) -> str:
    if stream is None or stream.closed:
        return ""
    with stream:
        return stream.read()


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
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{EXAMPLE}", **UNBUFFERED},
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
        )

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


def server_descriptor() -> int:
    """Return the descriptor of the server's socket, for a child process that sends requests."""
    return _server().fileno()


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
        message, descriptors, _, _ = socket.recv_fds(requests, _MAX_REQUEST, 4)
        if not message:
            return
        if os.fork() == 0:
            break
        for each in descriptors:
            os.close(each)
    reports, *standard = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _die_with_parent()
    if pid := os.fork():
        _report_on(pid, reports, standard)
    _die_with_parent()
    os.close(reports)
    _run_program(json.loads(message), standard)


def _die_with_parent() -> None:
    """No process outlives killed tests."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _report_on(pid: int, reports: int, standard: Sequence[int]) -> None:
    """Report a process's id and exit status, and exit."""
    for each in standard:
        os.close(each)
    try:
        os.write(reports, b"%d" % pid)
        os.write(reports, b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    finally:
        os._exit(0)


def _run_program(request: dict[str, Any], standard: Sequence[int]) -> None:
    """Its exceptions and the end of the interpreter are those of a new process."""
    for target, source in enumerate(standard):
        os.dup2(source, target)
        os.close(source)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    if request["namespace"]:
        with open(f"/run/netns/{request['namespace']}") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "the network namespace can not be entered")
    sys.argv = [request["program"], *request["arguments"]]
    exec(request["prelude"], {"__name__": "__main__"})
    PROGRAMS[request["program"]]()


if __name__ == "__main__":
    main()
