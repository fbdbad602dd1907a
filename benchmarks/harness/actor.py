"""The benchmark's side of an actor process."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.children import Children
from benchmarks.harness.failure import BenchmarkFailed

ROOT: Final = Path(__file__).resolve().parents[2]
_GLANCE: Final = 0.1


class Actor:
    """A process that runs `benchmarks.actors.NAME` with `task` (any JSON value)."""

    def __init__(
        self, children: Children, name: str, task: Any, *, prefix: Sequence[str] = ()
    ) -> None:
        """`prefix` is a command that runs the process, as in a network namespace."""
        self.name = name
        self._children = children
        self._process = children.start(
            [*prefix, sys.executable, "-m", f"benchmarks.actors.{name}"],
            folder=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._buffer = b""
        self._send(task)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start_run(self, **figures: Any) -> None:
        """`figures` are parameters of the run."""
        self._send(figures)

    def _send(self, what: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchmarkFailed(f"{self.name} has ended too early") from None

    def wait_for(
        self, what: str, timeout: float, meanwhile: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Return the actor's figures when it reports `what`. `meanwhile` runs ten times a second.

        Raises `BenchmarkFailed` for another report, an ended process, and after `timeout` s.
        """
        deadline = time.monotonic() + timeout
        message: dict[str, Any] = json.loads(self._read_line(deadline, meanwhile))
        if message["says"] != what:
            raise BenchmarkFailed(f"{self.name}: {message.get('why', message)}")
        return message

    def stop(self) -> None:
        self._children.stop(self._process)

    def _read_line(self, deadline: float, meanwhile: Callable[[], None]) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if time.monotonic() > deadline:
                    raise BenchmarkFailed(f"{self.name} did not answer in time")
                if selector.select(_GLANCE):
                    data = stdout.read1(65536)  # type: ignore[attr-defined]
                    if not data:
                        raise BenchmarkFailed(f"{self.name} has ended too early")
                    self._buffer += data
                meanwhile()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line
