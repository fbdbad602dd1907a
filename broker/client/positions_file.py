"""Where a client's durable subscriptions were left, on its own disk: for its next process (X6).

`<client>.positions` is JSON: `{"format": "xmlbroker-positions-1", "durables": {name: {"node":
address, "position": [[origin, epoch, offset], ...]}}}`. It is replaced as a whole.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path

from broker.client.effects import Left
from broker.client.incarnation import incarnation_file
from broker.errors import ConfigurationError, SessionSuperseded
from broker.event.place import Position
from broker.session import fields

FORMAT = "xmlbroker-positions-1"


class PositionsFile:
    """The file of one process of a client."""

    def __init__(self, folder: Path, client_id: str, incarnation: int) -> None:
        self.path = folder / f"{client_id}.positions"
        self._incarnations = incarnation_file(folder, client_id)
        self._incarnation = incarnation

    def read(self) -> dict[str, Left]:
        """What the last process wrote, by the names of durable subscriptions; nothing if there is
        no file. Raises `ConfigurationError` if it can not be read or holds something else."""
        try:
            stored = json.loads(self.path.read_bytes())
            if stored["format"] != FORMAT:
                raise ValueError("another format")
            return {
                fields.text(name): Left(
                    Position.from_wire(fields.position(left["position"])),
                    fields.address(left["node"]),
                )
                for name, left in stored["durables"].items()
            }
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigurationError(f"{self.path} can not be read: {error}") from None
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise ConfigurationError(f"{self.path} does not hold positions; remove it") from None

    def write(self, durables: Mapping[str, Left]) -> None:
        """Replace the file, durably. Raises `ConfigurationError` if it can not be written, and
        `SessionSuperseded` when a newer process of this client has begun: then it is that one's."""
        stored = {
            name: {"node": left.node, "position": left.position.to_wire()}
            for name, left in durables.items()
        }
        text = json.dumps({"format": FORMAT, "durables": stored})
        new = self.path.with_suffix(".positions-new")
        try:
            # A process raises the incarnation under this lock before it reads the positions.
            with open(self._incarnations, "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if int(lock.read() or b"0") > self._incarnation:
                    raise SessionSuperseded("a newer process of this client keeps its positions")
                with open(new, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(new, self.path)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{self.path} can not be written: {error}") from None
