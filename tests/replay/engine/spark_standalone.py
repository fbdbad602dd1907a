from __future__ import annotations

import os
import re
import subprocess
import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pyspark

_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")


class Standalone:
    """A master, and workers with one core and 1 GiB each."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._count = workers
        self._running: list[subprocess.Popen[str]] = []
        self.uri = ""

    def __enter__(self) -> Self:
        try:
            found = self._start("master.Master", [], _MASTER)
            self.uri = found[1]
            for number in range(self._count):
                work = str(self._folder / f"worker{number}")
                sizes = ["--cores", "1", "--memory", "1g", "--work-dir", work]
                self._start("worker.Worker", [self.uri, *sizes], _REGISTERED)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def kill_worker(self) -> None:
        self._kill(self._running.pop())

    def _start(self, name: str, arguments: list[str], wanted: re.Pattern[str]) -> re.Match[str]:
        # Workers must run the code that is sent to them, not the local code.
        environment = {key: each for key, each in os.environ.items() if key != "PYTHONPATH"}
        process = subprocess.Popen(
            [
                *(str(_CLASS), f"org.apache.spark.deploy.{name}", *arguments),
                *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            ],
            env={**environment, "SPARK_DAEMON_MEMORY": "256m"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        assert process.stderr is not None
        found = _await_line(process.stderr, wanted)
        threading.Thread(target=deque, args=(process.stderr, 0), daemon=True).start()
        return found

    def _end(self) -> None:
        while self._running:
            self._kill(self._running.pop())

    @staticmethod
    def _kill(process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()


def _await_line(log: IO[str], wanted: re.Pattern[str]) -> re.Match[str]:
    lines = []
    for line in log:
        lines.append(line)
        if found := wanted.search(line):
            return found
    raise AssertionError(f"it ended: {''.join(lines)}")
