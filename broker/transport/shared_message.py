"""A message that many stacks send."""

from __future__ import annotations

from zlib import crc32


class SharedMessage(bytes):
    """A message whose check is computed once, however many peers it goes to."""

    _checks: dict[int, int]

    def check(self, start: int) -> int:
        """Its CRC-32 (that of zlib), from the start value `start` on."""
        try:
            return self._checks[start]
        except AttributeError:
            self._checks = {}
        except KeyError:
            pass
        check = self._checks[start] = crc32(self, start)
        return check
