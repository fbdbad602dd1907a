"""Fault options of a chaos run, and faults of an archive, also for tests with real processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import attrs

from broker.config import Settings, StreamSettings
from broker.event.place import Place
from broker.event.stream import StreamPattern
from broker.testing.guarantees import Allowances

#: In bytes: some dozens of events.
_SHORT: int = 4 << 20


@attrs.frozen
class FaultOptions:
    """Every run also cuts and delays links and restarts nodes."""

    archived: bool = False
    """Within seconds."""
    guarded: bool = False
    """A neighbour stores a copy before an event is acknowledged."""
    disks: bool = False
    """One killed node loses its disk."""
    moving: bool = False
    """Clients of durable subscriptions end and resume at any node, without a state folder."""
    short: bool = False
    """Logs are short, and events are large."""
    clocks: bool = False
    """Clocks of nodes step by hours."""
    busy: bool = False
    """Matching takes longer at random."""
    torn: bool = False
    """Objects of the archive are cut, flipped, deleted and delayed; archivers are killed; files are
    compacted."""
    wandering: bool = False
    """Publishers move to other nodes while theirs is away, and resend unacknowledged events."""
    joining: bool = False
    """One node joins during the run."""
    mesh: bool = False
    """A mesh carries some of the streams, and loses datagrams."""

    @property
    def settings(self) -> Settings:
        settings = Settings()
        if self.guarded:
            everything = StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour")
            settings = attrs.evolve(settings, streams=(everything,))
        if self.short:
            settings = attrs.evolve(settings, log=attrs.evolve(settings.log, max_bytes=_SHORT))
        return settings

    @property
    def allows_gaps(self) -> bool:
        """True if a reported gap may be justified although the archive lacks the event.

        Retention may remove events before they are archived. Without an archive, an unreachable
        node may hold the only copy.
        """
        return self.short or not self.archived

    def allowances(self, archived: Callable[[Place], bool]) -> Allowances:
        return Allowances(
            justifies_gap=lambda key, place, gap: (
                self.allows_gaps and (self.torn or not archived(place))
            ),
            unknown_origins=self.clocks,
            fifo_across_origins=not self.wandering,
        )

    @property
    def size(self) -> int:
        """Largest padding of an event, in characters."""
        return 50_000 if self.short else 0


@attrs.define
class ArchiveFaults:
    root: Path
    random: Random
    now: Callable[[], float]
    """Monotonic seconds."""
    _hidden: list[tuple[float, Path, bytes]] = attrs.field(factory=list, init=False)

    def inject_one(self) -> str:
        """Return a description; empty if there is no object."""
        objects = self._objects(self.random.choice(self.FOLDERS))
        if not objects:
            return ""
        # These are most likely to be read next.
        path = self.random.choice(objects if self.random.random() < 0.5 else objects[-3:])
        ways = [self._cut, self._delete, self._delay]
        if path.parent != self.root:
            # A marker of another format is rejected, which is correct.
            ways.append(self._flip)
        done = self.random.choice(ways)(path)
        return f"{done} {path.relative_to(self.root)}"

    #: The empty name is the root with the marker.
    FOLDERS = ("manifests", "manifests", "events", "events", "durables", "")

    def restore_delayed(self, *, at_once: bool = False) -> None:
        due = [each for each in self._hidden if at_once or each[0] <= self.now()]
        self._hidden = [each for each in self._hidden if each not in due]
        for _, path, data in due:
            if not path.exists():
                _write(path, data)

    def _objects(self, folder: str) -> list[Path]:
        if not folder and not (self.root / "manifests").exists():
            return []
        found = (self.root / folder).rglob("*") if folder else self.root.glob("*.json")
        files = [path for path in found if path.is_file()]
        return sorted(files, key=lambda path: (path.stat().st_mtime_ns, path))

    def _cut(self, path: Path) -> str:
        data = path.read_bytes()
        _write(path, data[: self.random.randrange(len(data) + 1)])
        return "cut"

    def _flip(self, path: Path) -> str:
        data = bytearray(path.read_bytes())
        if data:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        _write(path, bytes(data))
        return "flip"

    def _delete(self, path: Path) -> str:
        path.unlink()
        return "delete"

    def _delay(self, path: Path) -> str:
        self._hidden.append((self.now() + self.random.uniform(0.5, 20.0), path, path.read_bytes()))
        path.unlink()
        return "delay"


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.fault")
    temporary.write_bytes(data)
    os.replace(temporary, path)
