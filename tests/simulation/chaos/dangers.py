"""Dangers of a run of chaos: what may happen to a network, and to its archive.

`ArchiveFaults` damages a local archive's objects; it needs nothing of a simulation, so tests with
processes use it, too.
"""

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

#: What a log keeps where it keeps little: some dozens of the events of `chaos`.
_SHORT: int = 4 << 20


@attrs.frozen
class Dangers:
    """Links are cut and slow, nodes are killed and started again, in every run."""

    archived: bool = False
    """What nodes log is archived within seconds."""
    guarded: bool = False
    """A neighbour has a copy of what is acknowledged."""
    disks: bool = False
    """Once, a node that is killed loses its disk."""
    moving: bool = False
    """Clients of durable subscriptions end, and come back at any node, without memory."""
    short: bool = False
    """Logs keep little, and events are large."""
    clocks: bool = False
    """Clocks of nodes step by hours."""
    busy: bool = False
    """Matching takes longer now and then."""
    torn: bool = False
    """Objects of the archive are cut, flipped, deleted and late, archivers are killed, and files
    are merged meanwhile."""
    wandering: bool = False
    """Publishers go to other nodes while theirs is away, and repeat what was not acknowledged."""
    joining: bool = False
    """Once, a node joins that was not there before."""

    @property
    def settings(self) -> Settings:
        """Of each node."""
        settings = Settings()
        if self.guarded:
            everything = StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour")
            settings = attrs.evolve(settings, streams=(everything,))
        if self.short:
            settings = attrs.evolve(settings, log=attrs.evolve(settings.log, max_bytes=_SHORT))
        return settings

    @property
    def may_lose(self) -> bool:
        """Whether what is told as gone may be missing, unless the archive has it: what retention
        took, maybe before it was archived; and without an archive what lies at a node that can not
        be asked while a client goes on at another."""
        return self.short or not self.archived

    def allowances(self, archived: Callable[[Place], bool]) -> Allowances:
        """Exceptions from the guarantees that these dangers justify."""
        return Allowances(
            justifies_gap=lambda key, place, gap: (
                self.may_lose and (self.torn or not archived(place))
            ),
            unknown_origins=self.clocks,
            fifo_across_origins=not self.wandering,
        )

    @property
    def size(self) -> int:
        """Characters that the largest events have more than they need."""
        return 50_000 if self.short else 0


@attrs.define
class ArchiveFaults:
    """Cuts, deletes and delays objects of an archive in a folder of this machine."""

    root: Path
    random: Random
    now: Callable[[], float]
    """Seconds of a clock that does not go back."""
    _hidden: list[tuple[float, Path, bytes]] = attrs.field(factory=list, init=False)

    def strike(self) -> str:
        """Damage one object, and return what was done; empty if there is none yet."""
        objects = self._objects(self.random.choice(self.FOLDERS))
        if not objects:
            return ""
        # The newest objects are those that somebody is about to read.
        path = self.random.choice(objects if self.random.random() < 0.5 else objects[-3:])
        ways = [self._cut, self._delete, self._delay]
        if path.parent != self.root:
            # A marker of another format is refused, and rightly so.
            ways.append(self._flip)
        done = self.random.choice(ways)(path)
        return f"{done} {path.relative_to(self.root)}"

    #: Folders of an archive; the empty one is the root, where its marker lies.
    FOLDERS = ("manifests", "manifests", "events", "events", "durables", "")

    def restore_late(self, *, at_once: bool = False) -> None:
        """Put objects back that were late, once their time has come."""
        due = [each for each in self._hidden if at_once or each[0] <= self.now()]
        self._hidden = [each for each in self._hidden if each not in due]
        for _, path, data in due:
            if not path.exists():
                _write(path, data)

    def _objects(self, folder: str) -> list[Path]:
        if not folder and not (self.root / "manifests").exists():
            # Nothing shows yet that it is an archive.
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
