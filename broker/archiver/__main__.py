"""`python -m broker.archiver`: one node's archiver; it ends when its connection closes."""

from __future__ import annotations

import fcntl
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import attrs
import click

from broker.archive.archive import Archive
from broker.archive.missing_range_age import MissingRangeAges
from broker.archiver import messages
from broker.archiver.known_archive import open_archive
from broker.archiver.log_archiver import LogArchiver
from broker.archiver.maintenance_process import MaintenanceProcess
from broker.archiver.maintenance_rules import NO_MAINTENANCE, MaintenanceRules
from broker.child.connection import DESCRIPTOR, MAX_MESSAGE_BYTES
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError
from broker.log.external_reader import ExternalReader
from broker.private_files import PRIVATE_UMASK, open_private, use_umask
from broker.recovery.archive_access import ArchivedDurable, Coverage
from broker.replay.garbage_collection import tune_garbage_collector
from broker.signatures.batch_signer import BatchSigner
from broker.signatures.node_key import find_signer
from broker.transport.clock import wall_clock_ms
from broker.transport.socket import framing

#: Lower priority than the node and its clients.
NICENESS = 10
#: Seconds for the node's answer to a question for DTDs.
DTD_TIMEOUT = 10.0
_READ = 1 << 16
#: Most seconds between checks whether maintenance is due.
MAX_WAIT = 5.0
#: Seconds until the next attempt after an error.
RETRY = 5.0


class NodeConnection:
    """A thread receives the node's messages."""

    def __init__(self) -> None:
        self.received: queue.Queue[messages.Message | None] = queue.Queue()
        self.must_flush = False
        self.questions: list[messages.AskCoverage | messages.AskDurable | messages.AskDtd] = []
        self.dead_origins: tuple[str, ...] = ()
        self.missing_range_ages = MissingRangeAges()
        self.is_ending = False
        self._is_node_gone = False
        self._dtds: dict[DtdReference, bytes | None] = {}
        self._origin = ""
        self._socket = socket.socket(fileno=DESCRIPTOR)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        frames = framing.FrameDecoder(MAX_MESSAGE_BYTES)
        try:
            while data := self._socket.recv(_READ):
                for frame in frames.feed(data):
                    self.received.put(messages.CODEC.decode(frame))
        except (BrokerError, ConnectionError) as error:
            _warn(str(error))
        self.received.put(None)

    def send(self, message: messages.Message) -> None:
        """If the node is gone, this process ends too."""
        try:
            frame = framing.encode_frames([messages.CODEC.encode(message)])
            self._socket.sendall(b"".join(frame))
        except ConnectionError:
            self.is_ending = self._is_node_gone = True

    def receive(self, seconds: float) -> None:
        """Return when a message needs an answer or the time is over."""
        until = time.monotonic() + seconds
        while not (self.is_ending or self.must_flush or self.questions):
            left = until - time.monotonic()
            if left <= 0 or not self._receive_one(left):
                return

    def wait_for_archive(self, seconds: float, problem: str) -> None:
        """Answer questions with nothing, since the archive can not be opened."""
        until = time.monotonic() + seconds
        while not self.is_ending:
            self.must_flush = False
            self.send(messages.Report(problem=problem))
            questions, self.questions = self.questions, []
            for asked in questions:
                match asked:
                    case messages.AskDurable(number):
                        self.send(messages.FoundDurable(number, None))
                    case messages.AskDtd(number):
                        self.send(messages.FoundDtd(number, None))
                    case _:
                        self.send(messages.FoundCoverage(Coverage()))
            if until <= time.monotonic():
                return
            self.receive(until - time.monotonic())

    def fetch_dtds(
        self, references: Sequence[DtdReference], origin: str
    ) -> Mapping[DtdReference, bytes]:
        """Return the node's DTDs for events of an origin, without unknown ones."""
        self._dtds.clear()
        self._origin = origin
        self.send(messages.AskDtds(tuple(map(attrs.astuple, references)), origin))
        until = time.monotonic() + DTD_TIMEOUT
        while not self._is_node_gone and self._dtds.keys() < set(references):
            left = until - time.monotonic()
            if left <= 0 or not self._receive_one(left):
                break
        return {each: text for each, text in self._dtds.items() if text is not None}

    def _receive_one(self, seconds: float) -> bool:
        try:
            message = self.received.get(timeout=seconds)
        except queue.Empty:
            return False
        match message:
            case None:
                self.is_ending = self._is_node_gone = True
            case messages.End():
                self.is_ending = True
            case messages.Flush():
                self.must_flush = True
            case messages.AskCoverage() | messages.AskDurable() | messages.AskDtd():
                self.questions.append(message)
            case messages.DeadOrigins(origins):
                self.dead_origins = origins
            case messages.DtdAnswer(dtd, text, origin):
                if origin == self._origin:
                    self._dtds[DtdReference(*dtd)] = text
        return True


def archive_until_end(
    log: ExternalReader,
    archive: Archive,
    every: float,
    node: NodeConnection,
    maintenance: MaintenanceProcess,
    signer: BatchSigner | None,
) -> None:
    """Flush at intervals, run due maintenance, and flush once more at the end."""
    archiver = LogArchiver(log, archive, node.fetch_dtds, wall_clock_ms, signer)
    last = False
    while not last:
        last = node.is_ending
        node.must_flush = False
        problem = ""
        try:
            while archiver.flush(node.dead_origins):
                _answer_questions(archive, node)
                node.send(_report(archiver, maintenance))
        except BrokerError as error:
            problem = str(error)
        node.send(_report(archiver, maintenance, problem))
        due = time.monotonic() + (RETRY if problem else every)
        while not (node.is_ending or node.must_flush) and due > time.monotonic():
            maintenance.run_if_due(time.monotonic())
            _answer_questions(archive, node)
            node.receive(min(due - time.monotonic(), MAX_WAIT))


def _answer_questions(archive: Archive, node: NodeConnection) -> None:
    questions, node.questions = node.questions, []
    for asked in questions:
        if isinstance(asked, messages.AskDurable):
            node.send(messages.FoundDurable(asked.number, _find_durable(archive, asked)))
            continue
        if isinstance(asked, messages.AskDtd):
            node.send(messages.FoundDtd(asked.number, _read_dtd(archive, DtdReference(*asked.dtd))))
            continue
        try:
            state = archive.state()
            healing = node.missing_range_ages.healing_origins(state, archive.wall_clock())
            ends = state.lost_ends
            covered = Coverage(state.covered, healing, lost_ends=ends, is_known=True)
        except BrokerError:
            # The node asks again, for a limited time.
            covered = Coverage()
        node.send(messages.FoundCoverage(covered))


def _read_dtd(archive: Archive, reference: DtdReference) -> bytes | None:
    try:
        return archive.read_dtd(reference)
    except BrokerError:
        return None


def _find_durable(archive: Archive, asked: messages.AskDurable) -> ArchivedDurable | None:
    try:
        found = archive.read_durables().get((asked.client_id, asked.name))
    except BrokerError:
        found = None
    return None if found is None else ArchivedDurable(*found[:2])


def _report(
    archiver: LogArchiver, maintenance: MaintenanceProcess, problem: str = ""
) -> messages.Report:
    figures = {**attrs.asdict(archiver.counters), **maintenance.counters}
    return messages.Report(archiver.reached, problem, figures)


def _warn(problem: str) -> None:
    """Write to standard error, which the node logs."""
    print(problem, file=sys.stderr, flush=True)


def lock_log(folder: Path) -> BinaryIO:
    """Wait for the archiver of a killed node, which may still flush."""
    file = open(folder / "archiver.lock", "ab", opener=open_private)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


@click.command(help=__doc__)
@click.option("--log", type=click.Path(path_type=Path), required=True)
@click.option("--archive", "uri", required=True)
@click.option("--every", type=float, required=True)
@click.option(
    "--maintenance", "rules", type=MaintenanceRules.decode, default=NO_MAINTENANCE.encode()
)
@click.option("--umask", type=int, default=PRIVATE_UMASK)
def main(log: Path, uri: str, every: float, rules: MaintenanceRules, umask: int) -> None:
    use_umask(umask)
    os.nice(NICENESS)
    # Ctrl-C ends the node. The last events must still be archived.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tune_garbage_collector()
    node = NodeConnection()
    held = lock_log(log)
    while True:
        try:
            # A process can open an LMDB folder only once.
            with closing(ExternalReader(log)) as along:
                archive = open_archive(uri, log)
                maintenance = MaintenanceProcess(
                    archive, along.origin, log, rules, _warn, time.monotonic()
                )
                with closing(maintenance):
                    signer = find_signer(log.parent, along.origin)
                    archive_until_end(along, archive, every, node, maintenance, signer)
        except BrokerError as error:
            node.wait_for_archive(RETRY, str(error))
        if node.is_ending:
            break
    held.close()


if __name__ == "__main__":
    main()
