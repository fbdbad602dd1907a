"""A message that is sent on many stacks."""

from __future__ import annotations

from zlib import crc32


class SharedMessage(bytes):
    """A message whose checksum is computed once for all its recipients."""

    _checksums: dict[int, int]

    def checksum(self, start: int) -> int:
        """Return the CRC-32 (of zlib) with this start value."""
        try:
            return self._checksums[start]
        except AttributeError:
            self._checksums = {}
        except KeyError:
            pass
        check = self._checksums[start] = crc32(self, start)
        return check
