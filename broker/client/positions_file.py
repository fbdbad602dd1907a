"""Positions of a client's durable subscriptions, in a file for its next process (X6).

`<client>.positions` is JSON: `{"format": "xmlbroker-positions-1", "durables": {name: {"node":
address, "position": [[origin, epoch, offset], ...]}}, "check": checksum}`. Each write leaves the
previous file as `<client>.positions-before`. It is used if the file is damaged: events come again,
but none is lost.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypedDict

from twisted.logger import Logger

from broker.client.checked_json import decode_checked, encode_checked
from broker.client.effects import ResumePoint
from broker.client.incarnation import incarnation_file
from broker.errors import ConfigurationError, ProtocolError, SessionSuperseded
from broker.event.place import Position
from broker.private_files import open_private
from broker.wire.codec import Address, Schema, WirePosition

FORMAT = "xmlbroker-positions-1"


class _Durable(TypedDict):
    node: Address
    position: WirePosition


_DURABLES: Final = Schema[dict[str, _Durable]](dict[str, _Durable], "positions")


class PositionsFile:
    log = Logger()

    def __init__(self, folder: Path, client_id: str, incarnation: int) -> None:
        self.path = folder / f"{client_id}.positions"
        self._backup = folder / f"{client_id}.positions-before"
        self._lock_path = incarnation_file(folder, client_id)
        self._incarnation = incarnation

    def read(self) -> dict[str, ResumePoint]:
        """Return the previous process's resume points by subscription name; empty without a file.

        Raises `ConfigurationError` if neither the file nor its backup is usable.
        """
        try:
            return self._read(self.path)
        except ConfigurationError as error:
            if not self._backup.exists():
                raise
            self.log.error("{error}; the previous positions are used", error=error)
            return self._read(self._backup)

    def _read(self, path: Path) -> dict[str, ResumePoint]:
        try:
            durables = decode_checked(path.read_bytes(), FORMAT, _DURABLES)
            return {
                name: ResumePoint(Position.from_wire(left["position"]), left["node"])
                for name, left in durables.items()
            }
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigurationError(f"{path} can not be read: {error}") from None
        except ProtocolError:
            raise ConfigurationError(f"{path} does not hold positions; remove it") from None

    def write(self, durables: Mapping[str, ResumePoint]) -> None:
        """Raises `ConfigurationError`, or `SessionSuperseded` if a newer process owns the file."""
        stored = {
            name: {"node": left.node, "position": left.position.to_wire()}
            for name, left in durables.items()
        }
        text = encode_checked(FORMAT, stored)
        new = self.path.with_suffix(".positions-new")
        try:
            # A new process raises the incarnation under this lock, then reads the positions.
            with open(self._lock_path, "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if int(lock.read() or b"0") > self._incarnation:
                    raise SessionSuperseded(
                        "a newer process of this client owns the positions file"
                    )
                with open(new, "w", encoding="utf-8", opener=open_private) as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                if self.path.exists():
                    self._backup.unlink(missing_ok=True)
                    os.link(self.path, self._backup)
                os.replace(new, self.path)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{self.path} can not be written: {error}") from None
