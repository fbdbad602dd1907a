from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.log.commit import Commit, Retention
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent, encode_header

RECORD = encode_header(
    Header(EventId("c", 1, 1, 1), "s", "t", "1.0", SecurityLevel.LOW, Liveness.LIVE)
)
MIB = 1 << 20


def append(log: LogFile, count: int, size: int) -> None:
    first = log.bounds.offset + 1
    events = [
        LoggedEvent(1, n, 1_000, 0, RECORD, bytes(size), log.origin, n)
        for n in range(first, first + count)
    ]
    log.commit(Commit(events=events, covered={log.origin: events[-1].mark}), 1, 1_000)


class Reader:
    """Another process: LMDB allows one environment each."""

    PROGRAM = """
import sys
from pathlib import Path
from broker.archive.chunk_columns import chunks_to_batch
from broker.log.external_reader import ExternalReader
folder = Path(sys.argv[1])
log = ExternalReader(folder)
print("open", flush=True)
sys.stdin.readline()
def offsets(after):
    found = log.read(after, 99, 1 << 30)
    return chunks_to_batch(found).column("offset").to_pylist() if found else []
print(log.own_extent(), offsets((1, 18)), len(offsets((0, 0))))
"""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.PROGRAM, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "open\n"

    def reads(self) -> str:
        answer, _ = self._process.communicate("\n", timeout=30)
        return answer.strip()


FOUND = "((0, 0), (1, 21)) [19, 20, 21] 21"


def test_a_log_beyond_lmdb_s_default_map_is_read(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_bytes=64 * MIB), sync=False)
    append(log, 1, 10)
    reader = Reader(tmp_path)
    for _ in range(4):
        append(log, 5, MIB)
    assert reader.reads() == FOUND
    log.crash()


def test_a_log_is_read_after_its_writer_enlarged_the_map(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_bytes=MIB), sync=False, max_events_bytes=2 * MIB)
    append(log, 1, 10)
    reader = Reader(tmp_path)
    log.crash()
    log = LogFile(tmp_path, Retention(max_bytes=64 * MIB), sync=False)
    append(log, 20, MIB)
    assert reader.reads() == FOUND
    log.crash()
