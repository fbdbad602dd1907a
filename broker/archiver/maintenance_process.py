"""The archiver's side of the care: when it is due, and the process that does it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker.archive.archive import Archive
from broker.archive.layout import CARER
from broker.archiver.maintenance import Care, Cared
from broker.archiver.maintenance_rules import CareRules
from broker.errors import BrokerError

#: Seconds between two looks, and until the first one.
CARE_EVERY: Final = 60.0
FIRST_CARE: Final = 5.0
#: Of what a process wrote that failed, the end that is told.
_LAST_WORDS: Final = 500


def carer_of(origin: str) -> str:
    """The name under which the carer of a log's archiver writes manifests."""
    return f"{CARER}{origin}"


class Caring:
    """One archiver's."""

    def __init__(
        self,
        archive: Archive,
        origin: str,
        folder: Path,
        rules: CareRules,
        complain: Callable[[str], object],
        now: float,
    ) -> None:
        """`folder` is that of the log; `complain` is told what somebody should know; `now` is in
        seconds, by the clock that `look` goes by."""
        self._name = carer_of(origin)
        self._care = Care(archive, rules, self._name)
        self._arguments = [
            *(sys.executable, "-m", "broker.archiver.maintenance"),
            *("--archive", archive.objects.source, "--name", self._name),
            *("--lock", str(folder / "care.lock")),
            *("--rules", rules.encode()),
        ]
        self._complain = complain
        self._process: subprocess.Popen[bytes] | None = None
        self._due = now + FIRST_CARE
        self._told: list[str] = []
        self.figures = {"merged": 0, "removed": 0, "deleted": 0}
        """Files that became fewer, that were too old, and of which nothing is left: since the
        archiver began."""

    def look(self, now: float) -> None:
        """Begin, if it is time and there is something to do; take what came of it. Does not wait
        for it."""
        if self._process is not None:
            if self._process.poll() is not None:
                self._take(self._process)
                self._process, self._due = None, now + CARE_EVERY
        elif now >= self._due:
            self._due = now + CARE_EVERY
            try:
                due = self._care.is_due()
            except BrokerError:
                # Flushes meet the same problem, and tell it.
                return
            if due:
                self._process = subprocess.Popen(
                    self._arguments,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )

    def close(self) -> None:
        """The archiver ends: so does the carer, wherever it is."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _take(self, process: subprocess.Popen[bytes]) -> None:
        said, complaint = process.communicate()
        try:
            cared = Cared(**json.loads(said))
        except (ValueError, TypeError):
            self._tell([f"the care ended with {process.returncode}: {complaint[-_LAST_WORDS:]!r}"])
            return
        for name in self.figures:
            self.figures[name] += getattr(cared, name)
        held = f"events of {cared.held} stay, as a durable subscription needs them"
        self._tell([*cared.problems, held] if cared.held else cared.problems)

    def _tell(self, problems: list[str]) -> None:
        """Once, and not each time."""
        for problem in problems:
            if problem not in self._told:
                self._complain(problem)
        self._told = problems
