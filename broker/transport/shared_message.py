"""A message that many stacks send."""

from __future__ import annotations

from zlib import crc32


class SharedMessage(bytes):
    """A message whose check is computed once, however many peers it goes to."""

    _checksums: dict[int, int]

    def checksum(self, start: int) -> int:
        """Its CRC-32 (that of zlib), from the start value `start` on."""
        try:
            return self._checksums[start]
        except AttributeError:
            self._checksums = {}
        except KeyError:
            pass
        check = self._checksums[start] = crc32(self, start)
        return check
