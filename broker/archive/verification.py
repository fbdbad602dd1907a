"""Verification of all listed objects against their hashes and manifests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import attrs

from broker.archive.archive import Archive
from broker.archive.archive_state import ArchiveState
from broker.archive.durable_journal import DurableJournal
from broker.archive.manifest_entry import ArchivedFile, DtdText
from broker.archive.parquet import describe_file
from broker.archive.row_check import check_partition_and_hour, check_rows
from broker.errors import ArchiveCorrupt, ArchiveObjectMissing


@attrs.frozen
class Fault:
    kind: str
    """`file`, `missing` (a file), `dtd`, `manifest`, `durables`, `aside` (a file set aside before)
    or `hole` (a missing range)."""
    name: str
    """A path; for a `hole`, the origin."""
    reason: str


@attrs.define
class VerificationResult:
    files: int = 0
    rows: int = 0
    bytes: int = 0
    dtds: int = 0
    faults: list[Fault] = attrs.field(factory=list)


class Verification:
    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.result = VerificationResult()

    def run(
        self,
        progress: Callable[[int, int], object] = lambda done, of: None,
        *,
        set_aside: bool = True,
    ) -> VerificationResult:
        """Check all objects; `set_aside` marks damaged files as not to be read.

        `progress` receives checked and total bytes. Files replaced meanwhile are skipped. Raises
        `ArchiveUnavailable`.
        """
        with self._archive.open_reader_lease() as lease:
            state = self._archive.state()
            of, done = sum(file.bytes for file in state.files.values()), 0
            for file in sorted(state.files.values(), key=lambda each: each.path):
                fault = self._check_event_file(file)
                if fault is not None:
                    self.result.faults.append(fault)
                    if set_aside:
                        self._archive.set_aside(file, fault.reason)
                done += file.bytes
                progress(done, of)
                lease.renew()
            self.result.faults += self._check_other_objects(state)
        return self.result

    def _check_event_file(self, file: ArchivedFile) -> Fault | None:
        self.result.files += 1
        try:
            check_file(self._archive, file)
        except ArchiveObjectMissing:
            if file.path not in self._archive.state().files:
                return None
            return Fault("missing", file.path, "it is listed but missing")
        except ArchiveCorrupt as error:
            return Fault("file", file.path, error.text)
        self.result.rows += file.rows
        self.result.bytes += file.bytes
        return None

    def _check_other_objects(self, state: ArchiveState) -> Iterator[Fault]:
        for text in sorted(state.manifest.dtds):
            self.result.dtds += 1
            yield from self._check_dtd_text(text)
        for path, reason in state.problems.items():
            yield Fault("manifest", path, reason)
        for path, reason in DurableJournal(self._archive.objects).read_problems().items():
            yield Fault("durables", path, reason)
        for path in state.aside.keys() - state.healed_files:
            yield Fault("aside", path, state.aside[path].reason)
        for origin, ranges in state.missing_ranges.items():
            for after, upto in ranges:
                if after == state.forgotten_upto(origin) and state.covered[origin]:
                    # The archive began later.
                    continue
                yield Fault("hole", origin, f"no manifest covers ({_mark(after)}, {_mark(upto)}]")

    def _check_dtd_text(self, text: DtdText) -> Iterator[Fault]:
        try:
            data = self._archive.objects.get(text.path)
        except ArchiveObjectMissing:
            yield Fault("dtd", text.path, "it is listed but missing")
        else:
            if hashlib.sha256(data).hexdigest() != text.sha256:
                yield Fault("dtd", text.path, "it does not match its hash")


def check_file(archive: Archive, file: ArchivedFile) -> None:
    """Check a file and the digest of each document.

    Raises `ArchiveCorrupt` with the reason, or `ArchiveObjectMissing`.
    """
    parts = check_rows(archive.read(file, checked=True))
    if describe_file(parts, file.partition, file.bytes, file.sha256, file.path) != file:
        raise ArchiveCorrupt("its rows do not match its manifest")
    check_partition_and_hour(file, parts)


def _mark(mark: tuple[int, int]) -> str:
    epoch, offset = mark
    return f"{epoch}:{offset}"
