"""NATS with JetStream as a child process, from its Debian package."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from benchmarks.harness.children import Children
from benchmarks.harness.debian import Unavailable, install
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.node_process import is_listening
from examples.free_ports import free_port

_STARTUP: Final = 20.0
_GLANCE: Final = 0.01


def executable() -> str:
    """Return the path, after installing the package if possible. Raises `Unavailable`."""
    found = _find()
    if found is None:
        install("nats-server")
        found = _find()
    if found is None:
        raise Unavailable("nats-server could not be installed")
    return found


def version(program: str) -> str:
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return output.stdout.strip().removeprefix("nats-server: v") or "unknown"


def can_sync_always(program: str) -> bool:
    """Return whether the version has `sync_interval`."""
    numbers = version(program).split(".")[:2]
    return all(map(str.isdigit, numbers)) and tuple(map(int, numbers)) >= (2, 10)


class NatsProcess:
    """Accepts anyone; its file store is in `folder`."""

    def __init__(
        self, children: Children, program: str, folder: Path, *, sync: bool = False
    ) -> None:
        """With `sync` each message is on disk before it is acknowledged, where the version can."""
        self.port = free_port()
        self._children = children
        settings = folder / "nats.conf"
        always = ", sync_interval: always" if sync and can_sync_always(program) else ""
        settings.write_text(
            f'host: "127.0.0.1"\nport: {self.port}\n'
            f'jetstream {{ store_dir: "{folder}/store", max_file_store: 64GB{always} }}\n'
            # A reader shares few cores with a hundred others.
            'write_deadline: "60s"\n'
        )
        self._log = folder / "nats.log"
        with open(self._log, "wb") as log:
            self._process = children.start(
                [program, "-c", str(settings)], stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + _STARTUP
        while not is_listening(self.port):
            if children.has_ended(self._process) or time.monotonic() > deadline:
                raise BenchmarkFailed(f"nats-server did not start: {self._last_words()}")
            time.sleep(_GLANCE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._children.stop(self._process)

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace").strip()[-500:]


def _find() -> str | None:
    # Debian's daemons are outside a user's PATH.
    return shutil.which(
        "nats-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    )
