"""`python -m broker.archiver`: one node's archiver, until its standard input ends.

It speaks JSON lines: see `broker.archiver.protocol`.
"""

from __future__ import annotations

import fcntl
import os
import queue
import signal
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
from broker.archive.noticed_holes import NoticedHoles
from broker.archiver import protocol as lines
from broker.archiver.known_archive import opened_archive
from broker.archiver.log_archiver import Archiving
from broker.archiver.maintenance_process import Caring
from broker.archiver.maintenance_rules import NO_CARE, CareRules
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError
from broker.log.reading_along import LogAlong
from broker.recovery.archive_access import Covered
from broker.replay.collector import quieten_collector
from broker.transport.clock import wall_clock_ms

#: Less than the node and its clients: what is urgent comes first.
NICENESS = 10
#: Seconds that the node has to tell a DTD.
DTD_TIMEOUT = 10.0
_STDIN = 0
_READ = 1 << 16
#: Seconds between two looks at the care.
GLANCE = 5.0
#: Seconds after which an archive that could not be written is tried again.
RETRY = 5.0


class Conversation:
    """What the node says, read by a thread, and what it is told."""

    def __init__(self) -> None:
        self.said: queue.Queue[lines.Said | None] = queue.Queue()
        self.flushes: list[int] = []
        self.questions: list[lines.AskCovered | lines.AskDurable | lines.AskText] = []
        self.dead: tuple[str, ...] = ()
        self.noticed = NoticedHoles()
        self.over = False
        """This process is to end."""
        self._gone = False
        """The node is."""
        self._texts: dict[DtdReference, bytes | None] = {}
        self._origin = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        # Not by `sys.stdin`, whose lock this thread would hold when the interpreter ends.
        begun = b""
        try:
            while data := os.read(_STDIN, _READ):
                *complete, begun = (begun + data).split(b"\n")
                for line in complete:
                    self.said.put(lines.decode(line))
        except ValueError as error:
            # Another version of the node: it starts one that understands it.
            _complain(str(error))
        self.said.put(None)

    def tell(self, line: bytes) -> None:
        """Say something to the node; its end ends this process too."""
        try:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            self.over = self._gone = True

    def listen(self, seconds: float) -> None:
        """Take what the node says, until it wants something or the time is over."""
        until = time.monotonic() + seconds
        while not (self.over or self.flushes or self.questions):
            left = until - time.monotonic()
            if left <= 0 or not self._take(left):
                return

    def wait(self, seconds: float, problem: str) -> None:
        """Wait while the archive can not be opened; whatever is asked is answered with nothing."""
        until = time.monotonic() + seconds
        while not self.over:
            numbers, self.flushes = self.flushes, []
            self.tell(lines.report(lines.Report(flushed=numbers, problem=problem)))
            questions, self.questions = self.questions, []
            for asked in questions:
                match asked:
                    case lines.AskDurable(number):
                        self.tell(lines.found(number, "", None))
                    case lines.AskText(number):
                        self.tell(lines.found_text(number, None))
                    case _:
                        self.tell(lines.coverage(Covered()))
            if until <= time.monotonic():
                return
            self.listen(until - time.monotonic())

    def ask_dtds(self, wanted: Sequence[DtdReference], origin: str) -> Mapping[DtdReference, bytes]:
        """The texts that the node knows, for events of an origin."""
        self._texts.clear()
        self._origin = origin
        self.tell(lines.ask_dtds(wanted, origin))
        until = time.monotonic() + DTD_TIMEOUT
        while not self._gone and self._texts.keys() < set(wanted):
            left = until - time.monotonic()
            if left <= 0 or not self._take(left):
                break
        return {each: text for each, text in self._texts.items() if text is not None}

    def _take(self, seconds: float) -> bool:
        try:
            said = self.said.get(timeout=seconds)
        except queue.Empty:
            return False
        match said:
            case None:
                self.over = self._gone = True
            case lines.End():
                self.over = True
            case lines.Flush(number):
                self.flushes.append(number)
            case lines.AskCovered() | lines.AskDurable() | lines.AskText():
                self.questions.append(said)
            case lines.Dead(origins):
                self.dead = origins
            case lines.TellDtd(reference, text, origin):
                if origin == self._origin:
                    self._texts[reference] = text
        return True


def run(
    log: LogAlong, archive: Archive, every: float, conversation: Conversation, caring: Caring
) -> None:
    """Archive what is new, again and again, and care for the archive; once more when the node is
    gone."""
    archiving = Archiving(log, archive, conversation.ask_dtds, wall_clock_ms)
    last = False
    while not last:
        last = conversation.over
        numbers, conversation.flushes = conversation.flushes, []
        problem = ""
        try:
            while archiving.flush(conversation.dead):
                _answer(archive, conversation)
                conversation.tell(lines.report(_report(archiving, caring)))
        except BrokerError as error:
            problem = str(error)
        conversation.tell(lines.report(_report(archiving, caring, numbers, problem)))
        due = time.monotonic() + (RETRY if problem else every)
        while not (conversation.over or conversation.flushes) and due > time.monotonic():
            caring.look(time.monotonic())
            _answer(archive, conversation)
            conversation.listen(min(due - time.monotonic(), GLANCE))


def _answer(archive: Archive, conversation: Conversation) -> None:
    """Tell the node what it has asked about the archive."""
    questions, conversation.questions = conversation.questions, []
    for asked in questions:
        if isinstance(asked, lines.AskDurable):
            conversation.tell(lines.found(asked.number, *_stored(archive, asked)))
            continue
        if isinstance(asked, lines.AskText):
            conversation.tell(lines.found_text(asked.number, _text(archive, asked.reference)))
            continue
        try:
            state = archive.state()
            healing = conversation.noticed.healing(state, archive.wall_clock())
            ends = state.lost_ends
            covered = Covered(state.covered, healing, lost_ends=ends, is_known=True)
        except BrokerError:
            # It is asked again, until it can be read or the node has no patience any more.
            covered = Covered()
        conversation.tell(lines.coverage(covered))


def _text(archive: Archive, reference: DtdReference) -> bytes | None:
    try:
        return archive.read_dtd(reference)
    except BrokerError:
        return None


def _stored(archive: Archive, asked: lines.AskDurable) -> tuple[str, bytes | None]:
    try:
        found = archive.durables().get((asked.client_id, asked.name))
    except BrokerError:
        found = None
    return ("", None) if found is None else found[:2]


def _report(
    archiving: Archiving, caring: Caring, flushed: Sequence[int] = (), problem: str = ""
) -> lines.Report:
    figures = {**attrs.asdict(archiving.figures), **caring.figures}
    return lines.Report(archiving.reached, flushed, problem, figures)


def _complain(problem: str) -> None:
    """The node logs what comes here."""
    print(problem, file=sys.stderr, flush=True)


def alone(folder: Path) -> BinaryIO:
    """Wait until no other archiver carries this log: one of a process of the node that was killed
    may still be at its last flush."""
    file = open(folder / "archiver.lock", "ab")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


@click.command(help=__doc__)
@click.option("--log", type=click.Path(path_type=Path), required=True)
@click.option("--archive", "uri", required=True)
@click.option("--every", type=float, required=True)
@click.option("--care", type=CareRules.decode, default=NO_CARE)
def main(log: Path, uri: str, every: float, care: CareRules) -> None:
    os.nice(NICENESS)
    # A Ctrl-C is for the node: what it logs until its end is still to be archived.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    quieten_collector()
    conversation = Conversation()
    held = alone(log)
    while True:
        try:
            # Closed before the next try: LMDB opens a folder once in a process.
            with closing(LogAlong(log)) as along:
                archive = opened_archive(uri, log)
                caring = Caring(archive, along.origin, log, care, _complain, time.monotonic())
                with closing(caring):
                    run(along, archive, every, conversation, caring)
        except BrokerError as error:
            conversation.wait(RETRY, str(error))
        if conversation.over:
            break
    held.close()


if __name__ == "__main__":
    main()
