"""References to one peer, with their bodies, until the peer has finished them."""

from __future__ import annotations

from typing import Final

from broker.errors import ProtocolError

#: Bytes of bodies that a peer has not acknowledged; further messages go as copies.
MOST_UNACKNOWLEDGED: Final = 1 << 20
#: Successive references without a body, after which the peer gets copies for some time.
MOST_NEEDED: Final = 8
#: Seconds: at first, doubled each time, and at most.
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 80.0


class Outgoing:
    """The sending half of a link."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_introduced = False
        """The peer has got a view of this epoch."""
        self._number = 0
        self._bodies: dict[int, bytes] = {}
        """By number of the reference."""
        self._size = 0
        self._last_needed = 0
        self._needed = 0
        """Successive references without a body."""
        self._copies_until = 0.0
        self._pause = FIRST_PAUSE

    def may_refer(self, size: int, now: float) -> bool:
        return self._size + size <= MOST_UNACKNOWLEDGED and now >= self._copies_until

    def refer(self, payload: bytes) -> int:
        """Return the number of a new reference."""
        self._number += 1
        self._bodies[self._number] = payload
        self._size += len(payload)
        return self._number

    def acknowledge(self, number: int) -> None:
        """Raises `ProtocolError` for a reference that was never sent."""
        self._check(number)
        while self._bodies and (first := next(iter(self._bodies))) <= number:
            self._size -= len(self._bodies.pop(first))
            if first > self._last_needed:
                self._pause = FIRST_PAUSE

    def find_body(self, number: int, now: float) -> bytes | None:
        """Return a body that has not reached the peer; None for a reference of an earlier epoch.

        Raises `ProtocolError` for a reference that was never sent.
        """
        self._check(number)
        payload = self._bodies.get(number)
        if payload is None:
            return None
        self._needed = self._needed + 1 if number == self._last_needed + 1 else 1
        self._last_needed = number
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

    def _check(self, number: int) -> None:
        if number > self._number:
            raise ProtocolError(
                f"the peer names reference {number}, and {self._number} is the last one"
            )
