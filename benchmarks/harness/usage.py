"""What a process uses, as Linux tells it in `/proc`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import attrs

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@attrs.frozen
class Memory:
    """Resident bytes of a process."""

    resident: int
    """All pages in memory; the mapped pages of the event log are among them."""
    anonymous: int
    """Of these, what the process allocated itself: files are no part of it."""


def cpu_seconds(pid: int) -> float:
    """Processor time that the process has used in all its threads, to 10 ms."""
    # The program's name may hold spaces and brackets; the fields after the last one are plain.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory(pid: int) -> Memory:
    """How much of the process is in memory now."""
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return Memory(resident, int(line.split()[1]) * 1024)
    raise OSError(f"/proc/{pid}/status has no RssAnon: the process is over, or this is no Linux")
