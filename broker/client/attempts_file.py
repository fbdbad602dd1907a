"""Delivery attempts that outlive a crashed process, in a file of the client's state folder (Q2).

`<client>.attempts` is JSON: `{"format": "xmlbroker-attempts-1", "durables": {name: {"under_way":
bool, "place": text, "tries": number}}, "check": checksum}`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypedDict

from broker.client.checked_json import decode_checked, encode_checked
from broker.errors import ConfigurationError, ProtocolError
from broker.event.place import Place
from broker.private_files import open_private
from broker.wire.codec import Count, Schema

FORMAT: Final = "xmlbroker-attempts-1"
#: The last thousand events of a crashed process may be unacknowledged.
RECORDED_AFTER_CRASH: Final = 2_000


class _Durable(TypedDict):
    under_way: bool
    place: str
    tries: Count


_DURABLES: Final = Schema[dict[str, _Durable]](dict[str, _Durable], "attempts")


class AttemptsFile:
    def __init__(self, folder: Path, client_id: str) -> None:
        self.path = folder / f"{client_id}.attempts"

    def read(self, name: str) -> tuple[bool, Place | None, int]:
        """Return (crashed, place, tries) of the last process. Raises `ConfigurationError`."""
        return self._read().get(name, (False, None, 0))

    def write(self, name: str, under_way: bool, place: Place | None, tries: int) -> None:
        """Raises `ConfigurationError`."""
        known = {**self._read(), name: (under_way, place, tries)}
        stored = {
            each: {"under_way": died, "place": str(at or ""), "tries": count}
            for each, (died, at, count) in known.items()
        }
        new = self.path.with_suffix(".attempts-new")
        try:
            with open(new, "w", encoding="utf-8", opener=open_private) as file:
                file.write(encode_checked(FORMAT, stored))
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.path)
        except OSError as error:
            raise ConfigurationError(f"{self.path} can not be written: {error}") from None

    def _read(self) -> dict[str, tuple[bool, Place | None, int]]:
        try:
            stored = decode_checked(self.path.read_bytes(), FORMAT, _DURABLES)
            return {
                name: (
                    each["under_way"],
                    Place.parse(each["place"]) if each["place"] else None,
                    each["tries"],
                )
                for name, each in stored.items()
            }
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigurationError(f"{self.path} can not be read: {error}") from None
        except (ValueError, ProtocolError):
            raise ConfigurationError(
                f"{self.path} does not hold delivery attempts; remove it"
            ) from None


class Attempts:
    """Without a file they end with the process."""

    def __init__(self, file: AttemptsFile | None, name: str) -> None:
        self._file = file
        self._name = name
        self._left_to_record = 0
        self._place: Place | None = None
        self._tries = 0

    def start(self) -> None:
        """Mark this process as running. Raises `ConfigurationError`."""
        if self._file is None:
            return
        died, self._place, self._tries = self._file.read(self._name)
        self._left_to_record = RECORDED_AFTER_CRASH if died else 0
        self._file.write(self._name, True, self._place, self._tries)

    def count_tries(self, place: Place) -> int:
        """Return the number of crashed processes that tried this event."""
        return self._tries if place == self._place else 0

    def record_try(self, place: Place, tries: int) -> None:
        """Record an attempt before it begins, while a crash may repeat itself."""
        if self._file is not None and self._left_to_record:
            self._file.write(self._name, True, place, tries)

    def record_done(self) -> None:
        self._left_to_record = max(0, self._left_to_record - 1)

    def finish(self) -> None:
        if self._file is not None:
            self._file.write(self._name, False, None, 0)
