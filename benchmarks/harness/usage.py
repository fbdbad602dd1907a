"""Resource use of a process, from Linux's `/proc`."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

import attrs

_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: In Linux's clock ids (`CPUCLOCK_SCHED`).
_SCHEDULED: Final = 2
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@attrs.frozen
class Memory:
    """Of one process."""

    resident: int
    """Mapped pages of the event log included."""
    anonymous: int
    """Without files."""


def cpu_seconds(pid: int) -> float:
    """Return the time of all threads, in nanosecond resolution."""
    # Ticks of 10 ms are too coarse.
    return time.clock_gettime(~pid << 3 | _SCHEDULED)


def busy_seconds() -> float:
    """Return the time of all processes, ended children included.

    The machine's own figure in `/proc/stat` misses short processes.
    """
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        # It may end meanwhile.
        with contextlib.suppress(OSError):
            total += sum(_times(process))
    return total / _TICKS


def _times(process: Path) -> list[int]:
    """User and system time of a process and of its ended children, in ticks."""
    # The program's name may contain spaces and brackets.
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]


def memory(pid: int) -> Memory:
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return Memory(resident, int(line.split()[1]) * 1024)
    raise OSError(f"process {pid} has ended: /proc has no RssAnon")
