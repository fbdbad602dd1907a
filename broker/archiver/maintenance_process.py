"""The archiver's side of maintenance: it starts the child process when there is work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker.archive.archive import Archive
from broker.archive.layout import MAINTENANCE_PREFIX
from broker.archiver.maintenance import Maintenance, MaintenanceResult
from broker.archiver.maintenance_rules import MaintenanceRules
from broker.errors import BrokerError

#: Seconds between two runs, and until the first one.
RUN_INTERVAL: Final = 60.0
FIRST_RUN_DELAY: Final = 5.0
#: Logged bytes, from the end of a failed process's output.
_MAX_ERROR_BYTES: Final = 500


def maintainer_name(origin: str) -> str:
    """Return the name under which a log's maintenance writes manifests."""
    return f"{MAINTENANCE_PREFIX}{origin}"


class MaintenanceProcess:
    def __init__(
        self,
        archive: Archive,
        origin: str,
        folder: Path,
        rules: MaintenanceRules,
        warn: Callable[[str], object],
        now: float,
    ) -> None:
        """`folder` has the log. `now` is seconds of the clock of `run_if_due`."""
        self._name = maintainer_name(origin)
        self._maintenance = Maintenance(archive, rules, self._name)
        self._arguments = [
            *(sys.executable, "-m", "broker.archiver.maintenance"),
            *("--archive", archive.objects.access_uri, "--name", self._name),
            *("--lock", str(folder / "care.lock")),
            *("--rules", rules.encode()),
        ]
        self._warn = warn
        self._process: subprocess.Popen[bytes] | None = None
        self._due = now + FIRST_RUN_DELAY
        self._reported: list[str] = []
        self.counters = {"merged": 0, "removed": 0, "deleted": 0}
        """Files since the archiver began."""

    def run_if_due(self, now: float) -> None:
        """Start a due process, or read the result of one. Does not block."""
        if self._process is not None:
            if self._process.poll() is not None:
                self._read_result(self._process)
                self._process, self._due = None, now + RUN_INTERVAL
        elif now >= self._due:
            self._due = now + RUN_INTERVAL
            try:
                due = self._maintenance.is_due()
            except BrokerError:
                # Flushes meet the same error and report it.
                return
            if due:
                self._process = subprocess.Popen(
                    self._arguments,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _read_result(self, process: subprocess.Popen[bytes]) -> None:
        output, error_output = process.communicate()
        try:
            result = MaintenanceResult(**json.loads(output))
        except (ValueError, TypeError):
            self._warn_once(
                [
                    f"archive maintenance ended with code {process.returncode}: "
                    f"{error_output[-_MAX_ERROR_BYTES:]!r}"
                ]
            )
            return
        for name in self.counters:
            self.counters[name] += getattr(result, name)
        held = f"events of {result.held} stay because a durable subscription needs them"
        self._warn_once([*result.problems, held] if result.held else result.problems)

    def _warn_once(self, problems: list[str]) -> None:
        for problem in problems:
            if problem not in self._reported:
                self._warn(problem)
        self._reported = problems
