"""Tables of simple types, made by child processes while nobody waits."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import OrderedDict
from contextlib import suppress
from functools import lru_cache
from typing import IO, Final

import msgspec
from twisted.logger import Logger

from broker.dtd.xsd.slot_types import SlotTypes

#: Tables in memory; the least recently used one is made again on demand.
MAX_TABLES: Final = 64
#: Bytes of an encoded table. A schema with a larger one has no shapes.
MAX_TABLE_BYTES: Final = 2 * 1024 * 1024
_DECODER: Final = msgspec.msgpack.Decoder(SlotTypes)
#: No value may vary.
EMPTY: Final = SlotTypes()


class SlotTables:
    """One process at a time; a schema whose process fails gets an empty table."""

    _log = Logger()

    def __init__(self) -> None:
        self._tables: OrderedDict[str, SlotTypes] = OrderedDict()
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._schema = ""
        """The hash of the schema of the process."""

    def get(self, schema: str, packed: bytes) -> SlotTypes | None:
        """Return the table of a schema; None until its process has ended. Does not block."""
        known = self._tables.get(schema)
        if known is not None:
            self._tables.move_to_end(schema)
            return known
        if self._process is None:
            self._start(schema, packed)
        elif self._process.poll() is not None:
            self._read_result(self._process.returncode)
            return self.get(schema, packed) if schema not in self._tables else self._tables[schema]
        return None

    def wait(self) -> None:
        """Wait for the running process, if any."""
        if self._process is not None:
            self._process.wait()

    def close(self) -> None:
        """End the running process, if any."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._output is not None:
            self._output.close()

    def _start(self, schema: str, packed: bytes) -> None:
        self._schema = schema
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        # A lack of processes or files passes.
        with suppress(OSError), tempfile.TemporaryFile() as given:
            given.write(packed)
            given.seek(0)
            output = tempfile.TemporaryFile()
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "broker.dtd.xsd.table_worker"],
                    stdin=given,
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                )
            except OSError:
                output.close()
                raise
            self._output = output

    def _read_result(self, code: int) -> None:
        self._process, output = None, self._output
        table = EMPTY
        if output is not None:
            with output:
                output.seek(0)
                data = output.read(MAX_TABLE_BYTES + 1)
            with suppress(msgspec.DecodeError):
                table = _DECODER.decode(data) if code == 0 else EMPTY
        if not table.roots:
            self._log.info(
                "events of the schema {schema} are always parsed: its types are not read (code "
                "{code})",
                schema=self._schema[:12],
                code=code,
            )
        self._tables[self._schema] = table
        while len(self._tables) > MAX_TABLES:
            self._tables.popitem(last=False)


@lru_cache(maxsize=1)
def shared_tables() -> SlotTables:
    """Return the tables of this process."""
    return SlotTables()
