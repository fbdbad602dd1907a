"""The benchmark's end of its conversation with another process of it: an actor."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.children import Children
from benchmarks.harness.failure import BenchmarkFailed

ROOT: Final = Path(__file__).resolve().parents[2]
#: How often (seconds) `hear` looks up from waiting.
_GLANCE: Final = 0.1


class Actor:
    """A process that runs `benchmarks.actors.NAME`, told `task` (anything that JSON carries)."""

    def __init__(self, children: Children, name: str, task: Any) -> None:
        self.name = name
        self._children = children
        self._process = children.start(
            [sys.executable, "-m", f"benchmarks.actors.{name}"],
            folder=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._buffer = b""
        self._tell(task)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def go(self, **figures: Any) -> None:
        """Tell it to begin, and what it needs to know for that."""
        self._tell(figures)

    def _tell(self, what: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchmarkFailed(f"{self.name} has ended before its time") from None

    def hear(
        self, what: str, timeout: float, meanwhile: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Wait until it says `what`; its figures. `meanwhile` is called about ten times a second.

        Raises `BenchmarkFailed` when it says something else, ends, or lets us wait `timeout` s.
        """
        deadline = time.monotonic() + timeout
        said: dict[str, Any] = json.loads(self._line(deadline, meanwhile))
        if said["says"] != what:
            raise BenchmarkFailed(f"{self.name}: {said.get('why', said)}")
        return said

    def end(self) -> None:
        """It is not needed any more."""
        self._children.stop(self._process)

    def _line(self, deadline: float, meanwhile: Callable[[], None]) -> bytes:
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
                        raise BenchmarkFailed(f"{self.name} has ended before its time")
                    self._buffer += data
                meanwhile()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line
