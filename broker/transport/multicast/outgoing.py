"""References sent to one peer, and their bodies, until they are acknowledged."""

from __future__ import annotations

from typing import Final

from broker.errors import ProtocolError

#: Successive references without a body, after which the peer gets copies for some time.
MOST_NEEDED: Final = 8
#: Seconds: at first, doubled each time, and at most.
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 80.0


class Outgoing:
    """The sending half of a link."""

    def __init__(self, epoch: int, most_unacknowledged: int) -> None:
        """The bound is that of `Bounds`."""
        self._most_unacknowledged = most_unacknowledged
        self.epoch = epoch
        self.is_introduced = False
        """The peer has got a view of this epoch."""
        self._last = 0
        """Counter of the last reference."""
        self._count = 0
        self._bodies: dict[int, tuple[int, bytes]] = {}
        """Count of references with this one, and body, by counter."""
        self._size = 0
        self._last_needed = 0
        """Count of references up to the last one without a body."""
        self._needed = 0
        """Successive references without a body."""
        self._copies_until = 0.0
        self._pause = FIRST_PAUSE

    def may_refer(self, size: int, now: float) -> bool:
        return self._size + size <= self._most_unacknowledged and now >= self._copies_until

    def refer(self, counter: int, payload: bytes) -> None:
        """Keep a body. The counters of references rise."""
        self._count += 1
        self._last = counter
        self._bodies[counter] = self._count, payload
        self._size += len(payload)

    def acknowledge(self, counter: int) -> None:
        """Raises `ProtocolError` for a reference that was never sent."""
        self._check(counter)
        while self._bodies and (first := next(iter(self._bodies))) <= counter:
            count, payload = self._bodies.pop(first)
            self._size -= len(payload)
            if count > self._last_needed:
                self._pause = FIRST_PAUSE

    def find_body(self, counter: int, now: float) -> bytes | None:
        """Return a body that has not reached the peer; None for a reference of an earlier epoch.

        Raises `ProtocolError` for a reference that was never sent.
        """
        self._check(counter)
        if counter not in self._bodies:
            return None
        count, payload = self._bodies[counter]
        self._needed = self._needed + 1 if count == self._last_needed + 1 else 1
        self._last_needed = count
        if self._needed >= MOST_NEEDED and now >= self._copies_until:
            self._copies_until = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return payload

    def reset(self, epoch: int) -> int:
        """Begin an epoch. Return the count of references that the peer has not acknowledged."""
        lost = len(self._bodies)
        self.epoch, self.is_introduced = epoch, False
        self._bodies.clear()
        self._size = 0
        return lost

    def _check(self, counter: int) -> None:
        if counter > self._last:
            raise ProtocolError(
                f"the peer names reference {counter}, and {self._last} is the last one"
            )
