"""Damage to the file of a log: `python -m tests.simulation.damaged_pages FIRST LAST [KIND]`.

The file is damaged while the node is down and its durable subscriber away. Then the node starts, if
need be after `xmlbroker log verify --repair`. The subscriber must get each event as it was
published, or a gap. Each trial is a process of its own, since LMDB may abort it.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from click.testing import CliRunner

from broker.cli import main as command_line
from broker.client.received import STORED
from broker.errors import LogCorrupt
from broker.log.page_file import FILE
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read

PAGE = 4096
META = 152
#: Events read before the damage, and all events.
READ_BEFORE, EVENTS = 5, 305
TRIAL_SECONDS = 120
GOOD = ("whole", "gap", "repaired, whole", "repaired, gap")


def flip(data: bytearray, at: int, random: Random) -> None:
    data[at] ^= 1 << random.randrange(8)


class LogDamage:
    """Kinds of damage to one file, with older copies of it."""

    def __init__(self, older: list[bytes], data: bytes) -> None:
        self._older = older
        self._data = data
        self._pages = len(data) // PAGE

    def bit(self, data: bytearray, random: Random) -> None:
        flip(data, random.randrange(2 * PAGE, len(data)), random)

    def bits(self, data: bytearray, random: Random) -> None:
        self.bit(data, random)
        self.bit(data, random)

    def page_header(self, data: bytearray, random: Random) -> None:
        """LMDB and the log have their headers in the first 64 bytes."""
        flip(data, random.randrange(2, self._pages) * PAGE + random.randrange(64), random)

    def node(self, data: bytearray, random: Random) -> None:
        """Flip a bit of a key or of LMDB's header of an entry."""
        number = random.choice(self._of_kind(2))
        (lower,) = struct.unpack_from("<H", self._data, number * PAGE + 12)
        index = random.randrange((lower - 16) // 2)
        (offset,) = struct.unpack_from("<H", self._data, number * PAGE + 16 + 2 * index)
        flip(data, number * PAGE + min(offset + random.randrange(24), PAGE - 1), random)

    def branch(self, data: bytearray, random: Random) -> None:
        """Flip a bit of a branch page, of the list of tables or of the list of free pages."""
        newest = max((0, 1), key=lambda n: self._number(n * PAGE + 144))
        roots = [self._number(newest * PAGE + at) for at in (80, 128)]
        begins = random.choice(self._of_kind(1) + roots) * PAGE
        # A page's entries fill it from its end.
        within = random.choice((random.randrange(64), PAGE - 1 - random.randrange(400)))
        flip(data, begins + within, random)

    def meta(self, data: bytearray, random: Random) -> None:
        flip(data, random.randrange(2) * PAGE + random.randrange(META), random)

    def zeros(self, data: bytearray, random: Random) -> None:
        at = random.randrange(2, self._pages) * PAGE
        data[at : at + PAGE] = bytes(PAGE)

    def moved(self, data: bytearray, random: Random) -> None:
        to, of = (random.randrange(2, self._pages) * PAGE for _ in range(2))
        data[to : to + PAGE] = self._data[of : of + PAGE]

    def stale(self, data: bytearray, random: Random) -> None:
        """A write has been lost."""
        while True:
            older = random.choice(self._older)
            at = random.randrange(len(older) // PAGE) * PAGE
            if older[at : at + PAGE] != data[at : at + PAGE]:
                data[at : at + PAGE] = older[at : at + PAGE]
                return

    def _of_kind(self, flags: int) -> list[int]:
        return [n for n in range(2, self._pages) if self._data[n * PAGE + 10] == flags]

    def _number(self, at: int) -> int:
        return int(struct.unpack_from("<Q", self._data, at)[0])


KINDS: dict[str, Callable[[LogDamage, bytearray, Random], None]] = {
    name: getattr(LogDamage, name)
    for name in ("bit", "bits", "page_header", "node", "branch", "meta", "zeros", "moved", "stale")
}


class Trial:
    """The node is down; the content of its log is known."""

    def __init__(self, *, stopped: bool = False) -> None:
        world = self._world = NetworkWorld(7)
        world.add("a", "one")
        world.run(3.0)
        publisher = Publisher(world.client("publisher", "a"))
        world.run(0.5)
        client = world.client("reader", "a")
        reader = Reader(world, client, durable="d")
        world.run_until(lambda: reader.is_flowing)
        self._publish(publisher, READ_BEFORE)
        read(world, reader)
        world.kill_client(client)
        log = world["a"].event_log
        self._path: Path = log._file._folder / FILE
        older = []
        for _ in range(4):
            self._publish(publisher, (EVENTS - READ_BEFORE) // 4)
            world.run(1.0)
            older.append(self._path.read_bytes())
        world.run(4.0)
        events = world.wait(log.read_origin(log.origin, (0, 0), 1 << 20, 1 << 40))
        self._documents = {event.offset: event.document for event in events}
        world.kill_client(publisher.client)
        (world.stop if stopped else world.kill)("a")
        self._data = self._path.read_bytes()
        self._damages = LogDamage(older, self._data)

    def _publish(self, publisher: Publisher, count: int) -> None:
        for number in range(count):
            publisher.publish()
            if number % 4 == 3:
                self._world.run(0.1)
        self._world.run_until(lambda: not publisher.client.unacknowledged)

    def close(self) -> None:
        self._world.close()

    def run_trial(self, kind: str, seed: int) -> str:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            signal.alarm(TRIAL_SECONDS)
            try:
                outcome = self._run(kind, seed)
            except BaseException:
                outcome = traceback.format_exc()[-1500:]
            os.write(writing, json.dumps(outcome).encode())
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        return str(json.loads(said)) if said else f"the process ended with status {status}"

    def _run(self, kind: str, seed: int) -> str:
        data = bytearray(self._data)
        KINDS[kind](self._damages, data, Random(f"{kind} {seed}"))
        self._path.write_bytes(data)
        prefix = self._start()
        world = self._world
        reader = Reader(
            world, world.client("reader", "a", incarnation=2), durable="d", start=STORED
        )
        read(world, reader, seconds=90.0)
        if reader.error is not None:
            return f"the subscription ended: {reader.error!r}"
        got = {each.place.offset: each.event.document for each in reader.events}
        if len(got) != len(reader.events) or list(got) != sorted(got):
            return "events came twice, or out of order"
        if altered := [at for at in got if got[at] != self._documents.get(at)]:
            return f"altered events: {altered}"
        told = {
            at
            for gap in reader.gaps
            for at in range(gap.first.offset, min(gap.last.offset, 2 * EVENTS) + 1)
        }
        due = set(range(READ_BEFORE + 1, EVENTS + 1))
        if lost := due - got.keys() - told:
            return f"lost in silence: {sorted(lost)}, gaps {reader.gaps}"
        publisher = Publisher(world.client("publisher", "a", incarnation=2))
        world.run(0.5)
        self._publish(publisher, 2)
        read(world, reader)
        later = [each.place.offset for each in reader.events[len(got) :]]
        if len(later) != 2 or min(later) in got:
            return f"the subscription does not go on: {later}"
        return prefix + ("gap" if told & due else "whole")

    def _start(self) -> str:
        try:
            self._world.start("a")
            return ""
        except LogCorrupt as error:
            assert "verify --repair" in str(error), error
        folder = str(self._path.parent)
        said = CliRunner().invoke(command_line, ["log", "verify", "--repair", folder])
        assert said.exit_code in (0, 1), said.output
        self._world.start("a")
        return "repaired, "


def main(first: int, last: int, kinds: list[str]) -> int:
    """Return 1 if a trial failed."""
    trial = Trial(stopped=bool(first % 2))
    status = 0
    for kind in kinds or KINDS:
        outcomes: Counter[str] = Counter()
        for seed in range(first, last):
            outcome = trial.run_trial(kind, seed)
            outcomes[outcome if outcome in GOOD else "bad"] += 1
            if outcome not in GOOD:
                status = 1
                print(f"{kind} {seed}: {outcome}", flush=True)
        print(kind, dict(outcomes), flush=True)
    trial.close()
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
