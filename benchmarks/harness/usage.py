"""What a process uses, as Linux tells it in `/proc`."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

import attrs

_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: Of the numbers of Linux's clocks, the part for all that a process uses (`CPUCLOCK_SCHED`).
_SCHEDULED: Final = 2
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@attrs.frozen
class Memory:
    """Resident bytes of a process."""

    resident: int
    """All pages in memory; the mapped pages of the event log are among them."""
    anonymous: int
    """Of these, what the process allocated itself: files are no part of it."""


def cpu_seconds(pid: int) -> float:
    """Processor time that the process has used in all its threads, to the nanosecond."""
    # `/proc` counts in ticks of 10 ms: a short run may have used none of them.
    return time.clock_gettime(~pid << 3 | _SCHEDULED)


def busy_seconds() -> float:
    """Processor time that all processes of the machine have used together, and those before them.

    The sum over all of them: the machine's own account in `/proc/stat` misses what is short.
    """
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        # It may end while we look.
        with contextlib.suppress(OSError):
            total += sum(_times(process))
    return total / _TICKS


def _times(process: Path) -> list[int]:
    """User and system time of a process, and of its children that are over, in ticks."""
    # The program's name may hold spaces and brackets; the fields after the last one are plain.
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]


def memory(pid: int) -> Memory:
    """How much of the process is in memory now."""
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return Memory(resident, int(line.split()[1]) * 1024)
    raise OSError(f"process {pid} is over: /proc knows nothing of its memory")
