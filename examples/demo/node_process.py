"""A node as a child process that can be killed and restarted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from examples.free_ports import free_port


class NodeProcess:
    """`twistd xmlbroker` on a free loopback port, with its data in `folder`."""

    def __init__(self, folder: Path, archive: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.endpoint = f"tcp:127.0.0.1:{self.port}"
        self._config = folder / "node.toml"
        self._config.write_text(
            f'[node]\nname = "demo"\ndata = "{folder / "data"}"\n'
            f'[archive]\nlocation = "{archive}"\n'
            f'[listen]\nendpoints = ["tcp:port={self.port}:interface=127.0.0.1"]\n'
        )

    def start(self) -> None:
        """Clients may connect at once: they retry."""
        with open(self._folder / "node.log", "ab") as log:
            self._process = subprocess.Popen(
                [_TWISTD, "--nodaemon", "--pidfile=", "xmlbroker", "--config", str(self._config)],
                cwd=self._folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def lose_disk(self) -> None:
        self.stop()
        shutil.rmtree(self._folder / "data")

    def stop(self) -> float:
        """Return the seconds that it took."""
        if self._process is None or self._process.poll() is not None:
            return 0.0
        begin = time.monotonic()
        self._process.terminate()
        self._process.wait(timeout=30)
        return time.monotonic() - begin

    def log(self) -> str:
        path = self._folder / "node.log"
        return path.read_text(errors="replace") if path.exists() else ""


_TWISTD = str(Path(sys.executable).with_name("twistd"))
