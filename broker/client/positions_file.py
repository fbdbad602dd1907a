"""Where a client's durable subscriptions were left, on its own disk: for its next process (X6).

`<client>.positions` is JSON: `{"format": "xmlbroker-positions-1", "durables": {name: {"node":
address, "position": [[origin, epoch, offset], ...]}}, "check": checksum}`. It is replaced as a
whole; the one before stays as `<client>.positions-before`. If the file is damaged the positions of
that one count: events come again rather than not at all.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

from twisted.logger import Logger

from broker.client.checked_json import decode_checked, encode_checked
from broker.client.effects import ResumePoint
from broker.client.incarnation import incarnation_file
from broker.errors import ConfigurationError, SessionSuperseded
from broker.event.place import Position
from broker.wire import fields

FORMAT = "xmlbroker-positions-1"


class PositionsFile:
    """The file of one process of a client."""

    log = Logger()

    def __init__(self, folder: Path, client_id: str, incarnation: int) -> None:
        self.path = folder / f"{client_id}.positions"
        self._backup = folder / f"{client_id}.positions-before"
        self._lock_path = incarnation_file(folder, client_id)
        self._incarnation = incarnation

    def read(self) -> dict[str, ResumePoint]:
        """What the last process wrote, by the names of durable subscriptions; nothing if there is
        no file. Raises `ConfigurationError` if it can not be read or holds something else, and so
        does the one before."""
        try:
            return self._read(self.path)
        except ConfigurationError as error:
            if not self._backup.exists():
                raise
            self.log.error("{error}; the positions before are used", error=error)
            return self._read(self._backup)

    def _read(self, path: Path) -> dict[str, ResumePoint]:
        try:
            return {
                fields.text(name): ResumePoint(
                    Position.from_wire(fields.position(left["position"])),
                    fields.address(left["node"]),
                )
                for name, left in decode_checked(path.read_bytes(), FORMAT).items()
            }
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigurationError(f"{path} can not be read: {error}") from None
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise ConfigurationError(f"{path} does not hold positions; remove it") from None

    def write(self, durables: Mapping[str, ResumePoint]) -> None:
        """Replace the file, durably. Raises `ConfigurationError` if it can not be written, and
        `SessionSuperseded` when a newer process of this client has begun: then it is that one's."""
        stored = {
            name: {"node": left.node, "position": left.position.to_wire()}
            for name, left in durables.items()
        }
        text = encode_checked(FORMAT, stored)
        new = self.path.with_suffix(".positions-new")
        try:
            # A process raises the incarnation under this lock before it reads the positions.
            with open(self._lock_path, "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if int(lock.read() or b"0") > self._incarnation:
                    raise SessionSuperseded("a newer process of this client keeps its positions")
                with open(new, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                if self.path.exists():
                    self._backup.unlink(missing_ok=True)
                    os.link(self.path, self._backup)
                os.replace(new, self.path)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{self.path} can not be written: {error}") from None
