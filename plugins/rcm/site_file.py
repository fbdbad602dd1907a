"""The list of sites on disk, which counts instead of the configuration after the first start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from broker.dtd.atomic_file import read_checksummed, write_checksummed
from broker.errors import ConfigurationError, ProtocolError
from plugins.rcm.options import MOST_SITES
from plugins.rcm.site_list import Records, SiteList

FILE = "sites"
#: Records of version 1 have no versions of their own.
_VERSION = 2


class _Stored(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    version: int
    records: Records
    refusing: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_SITES)] = ()
    """Sites of a group to which the node was never admitted; empty: it is a site, or was one."""


class SiteFile:
    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._stored: _Stored | None = None

    def read(self, configured: Mapping[str, str]) -> tuple[SiteList, Sequence[str]]:
        """Return the stored list, and the sites that have refused this node; without a file, the
        list of the configuration.

        Raises `ConfigurationError` for a damaged file.
        """
        try:
            data = read_checksummed(self._path)
            if data is None:
                return SiteList.from_configuration(configured), ()
            stored = self._stored = _decoder.decode(data)
            records = stored.records
            if stored.version == 1:
                records = tuple(
                    msgspec.structs.replace(each, version=int(each.change is not None))
                    for each in records
                )
            return SiteList.from_records(records), stored.refusing
        except (ValueError, msgspec.MsgspecError, ProtocolError) as error:
            raise ConfigurationError(
                f"{self._path} is damaged ({error}). Remove it: then `sites` counts, and the other "
                "sites bring later changes"
            ) from None

    def write(self, sites: SiteList, refusing: Sequence[str]) -> None:
        """Raises `OSError`."""
        stored = _Stored(_VERSION, sites.records, tuple(refusing))
        if stored == self._stored:
            return
        write_checksummed(self._path, _encode(stored), sync=True)
        self._stored = stored


_decoder = msgspec.msgpack.Decoder(_Stored)
_encode = msgspec.msgpack.Encoder().encode
