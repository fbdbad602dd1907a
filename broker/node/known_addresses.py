"""Addresses of earlier logins, stored across restarts.

Places are reserved for them while strangers flood a port (`PendingConnections`): a restart in a
flood must not shut them out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.dtd.atomic_file import write_atomically
from broker.transport.pending_connections import PendingConnections

#: Seconds between two writes.
SAVE_INTERVAL: Final = 60.0
#: Longer texts are no addresses.
_MAX_TEXT: Final = 64


class KnownAddresses:
    """A file with the known addresses of tables of connections, by the names of the tables.

    A file that can not be read counts as empty: the addresses only give precedence.
    """

    log = Logger()

    def __init__(self, path: Path, tables: Mapping[str, PendingConnections[Any]]) -> None:
        self._path = path
        self._tables = tables
        self._saved: Mapping[str, Sequence[str]] = {}

    def load(self) -> None:
        try:
            stored = json.loads(self._path.read_bytes())
            for name, table in self._tables.items():
                for address in map(str, stored.get(name, ())):
                    if len(address) <= _MAX_TEXT:
                        table.add_known_address(address)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, AttributeError, TypeError) as error:
            self.log.warn("{path} is not read: {error}", path=str(self._path), error=error)
        self._saved = self._present()

    def save_later(self, run_in_thread: Callable[..., Deferred[Any]]) -> None:
        """Write the file in a thread, if it has changed."""
        present = self._present()
        if present != self._saved:
            self._saved = present
            run_in_thread(self._write, present).addErrback(
                lambda failure: self.log.failure("the known addresses were not written", failure)
            )

    def save(self) -> None:
        present = self._present()
        if present != self._saved:
            self._write(present)

    def _present(self) -> Mapping[str, Sequence[str]]:
        return {name: table.known_addresses for name, table in self._tables.items()}

    def _write(self, present: Mapping[str, Sequence[str]]) -> None:
        data = json.dumps(present).encode()
        try:
            write_atomically(self._path, data, sync=False, is_private=True)
        except OSError as error:
            self.log.warn("{path} is not written: {error}", path=str(self._path), error=error)
