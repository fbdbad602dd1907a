"""A node in a child process, as `twistd xmlbroker` runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from examples.free_ports import free_port
from tests.system.fork_server import ForkedProcess

ROOT = Path(__file__).resolve().parents[2]
#: Seconds, on a machine whose processors are shared by many.
PATIENCE = 90.0

Process: TypeAlias = "subprocess.Popen[str] | ForkedProcess"

_RUN = "from twisted.scripts.twistd import run; run()"


class NodeProcess:
    """A node with its files in `folder`, listening on a free loopback port.

    `configuration` is TOML besides `[node]` and `[listen]`. The process can be started and killed
    repeatedly. The context manager starts and kills it.
    """

    def __init__(
        self,
        folder: Path,
        configuration: str = "",
        *,
        data: Path | None = None,
        endpoint: str = "tcp:port={port}:interface=127.0.0.1",
        prelude: str = "",
        name: str = "tested",
        namespace: str = "",
        code: Path = ROOT,
    ) -> None:
        """`endpoint` is the listening endpoint, `prelude` Python code to run first, `namespace` a
        network namespace, and `code` the tree."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.name = name
        self.data = folder / "data" if data is None else data
        self.port = free_port()
        self.endpoint = f"tcp:127.0.0.1:{self.port}"
        if endpoint.startswith("unix:"):
            self.endpoint = endpoint
        self.settings = folder / "node.toml"
        if "[archive]" not in configuration:
            # Most tests do not need this process.
            configuration += "\n[archive]\nenabled = false\n"
        self.settings.write_text(
            f'[node]\nname = "{name}"\ndata = "{self.data}"\n'
            f'[listen]\nendpoints = ["{endpoint.format(port=self.port)}"]\n{configuration}'
        )
        self._prelude = prelude
        self._namespace = namespace
        self.code = code
        self._process: Process | None = None
        self._reader: threading.Thread | None = None
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = True

    def __enter__(self) -> NodeProcess:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        if error is not None:
            print(self.log())

    # ------------------------------------------------------------------ process

    def launch(self, *arguments: str, daemon: bool = False) -> None:
        """`arguments` replace `--config FILE`."""
        options = arguments or ("--config", str(self.settings))
        running = ("--pidfile=twistd.pid",) if daemon else ("-n", "--pidfile=")
        command = [*running, "xmlbroker", *options]
        environment = {**os.environ, "PYTHONPATH": str(self.code)}
        if daemon or self.code != ROOT:
            self._process = self._start_command(command, environment)
        else:
            self._process = ForkedProcess(
                "twistd",
                command,
                folder=self.folder,
                environment=environment,
                prelude=self._prelude,
                namespace=self._namespace,
            )
        self._ended = False
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def _start_command(
        self, command: Sequence[str], environment: dict[str, str]
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", f"{self._prelude}\n{_RUN}", *command],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def start(self) -> None:
        """Wait until the node is ready."""
        seen = len(self._lines)
        self.launch()
        self.await_log(r"node \S+ is ready", seen)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self.wait()

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(by)
        self.wait()

    def wait(self) -> int:
        status = self.process.wait(PATIENCE)
        assert self._reader is not None
        self._reader.join(PATIENCE)
        return status

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    # ------------------------------------------------------------------ log

    def log(self) -> str:
        """Log of all processes."""
        with self._changed:
            return "".join(self._lines)

    def await_log(self, pattern: str, after: int = 0, patience: float = PATIENCE) -> str:
        """Return the first line with `pattern`, from line `after` on.

        Raises AssertionError after `patience` seconds without a new line, or four times as long
        with others.
        """
        expression = re.compile(pattern)
        ends = time.monotonic() + 4 * patience
        with self._changed:
            while True:
                for line in self._lines[after:]:
                    if expression.search(line):
                        return line
                is_late = time.monotonic() > ends
                if is_late or self._ended or not self._changed.wait(patience):
                    raise AssertionError(f"no line with {pattern!r} in\n{''.join(self._lines)}")

    def _read(self, process: Process) -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            for line in stream:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
