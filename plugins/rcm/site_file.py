"""The list of sites on disk, which counts instead of the configuration after the first start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from broker.dtd.atomic_file import read_checksummed, write_checksummed
from broker.errors import ConfigurationError, ProtocolError
from plugins.rcm.site_list import Records, SiteList

FILE = "sites"
_VERSION = 1


class _Stored(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    version: int
    records: Records


class SiteFile:
    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._stored: SiteList | None = None

    def read(self, configured: Mapping[str, str]) -> SiteList:
        """Return the stored list; without one, that of the configuration.

        Raises `ConfigurationError` for a damaged file.
        """
        try:
            data = read_checksummed(self._path)
            if data is None:
                return SiteList.from_configuration(configured)
            self._stored = SiteList.from_records(_decoder.decode(data).records)
            return self._stored
        except (ValueError, msgspec.MsgspecError, ProtocolError) as error:
            raise ConfigurationError(
                f"{self._path} is damaged ({error}). Remove it: then `sites` counts, and the other "
                "sites bring later changes"
            ) from None

    def write(self, sites: SiteList) -> None:
        """Raises `OSError`."""
        if sites == self._stored:
            return
        data = _encode(_Stored(_VERSION, sites.records))
        write_checksummed(self._path, data, sync=True)
        self._stored = sites


_decoder = msgspec.msgpack.Decoder(_Stored)
_encode = msgspec.msgpack.Encoder().encode
