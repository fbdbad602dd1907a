"""State of a site that survives its process: the incarnation, and a bound of its clock.

A site stores a bound ahead of its clock, so that few messages wait for the disk. After a restart
its clock begins at the bound.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from twisted.logger import Logger

from broker.dtd.atomic_file import read_checksummed, write_checksummed
from broker.errors import ConfigurationError

FILE = "site"
#: Logical times that a site may use before it stores another bound. Epochs are stored each.
LEADS = {"logical": 1 << 20, "sequencer": 0}


class _Stored(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    version: int
    incarnation: int
    bound: int


class SiteState:
    """Raises `ConfigurationError` for a damaged file, `OSError` if it can not be written."""

    log = Logger()

    def __init__(self, folder: Path, *, lead: int | None) -> None:
        """`lead` is the distance of a new bound from the clock. None: there is no bound, since the
        clock goes on while the site is down."""
        self._path = folder / FILE
        self._is_failing = False
        self._lead = lead
        previous = self._read()
        #: It rises with each start (K21).
        self.incarnation = previous.incarnation + 1
        #: No clock of an earlier incarnation was above it.
        self.floor = self._bound = previous.bound
        self._write()

    def cover(self, clock: int) -> None:
        """Store a bound that is not below a clock. After a failure the next call tries again."""
        if self._lead is None or clock <= self._bound:
            return
        previous, self._bound = self._bound, clock + self._lead
        try:
            self._write()
        except OSError as error:
            # Stamps of own events are in the log too, which is as full.
            self._bound = previous
            if not self._is_failing:
                self.log.warn("{path} can not be written: {error}", path=self._path, error=error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _read(self) -> _Stored:
        try:
            data = read_checksummed(self._path)
            return _Stored(1, 0, 0) if data is None else _decoder.decode(data)
        except (ValueError, msgspec.MsgspecError) as error:
            # With a lower incarnation the other sites would refuse this one.
            raise ConfigurationError(
                f"{self._path} is damaged ({error}). Remove it if no other site of the group "
                "knows this one, else give the node another name"
            ) from None

    def _write(self) -> None:
        data = _encode(_Stored(1, self.incarnation, self._bound))
        write_checksummed(self._path, data, sync=True)


_decoder = msgspec.msgpack.Decoder(_Stored)
_encode = msgspec.msgpack.Encoder().encode
