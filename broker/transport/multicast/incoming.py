"""Messages of one peer that wait for their bodies."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

import attrs

from broker.errors import ProtocolError
from broker.transport.arq.round_trip import RoundTrip
from broker.transport.message import Message, Peer
from broker.transport.multicast.wire import Acknowledge, LinkView

#: Bytes of bodies without, or behind, a reference; more are dropped, and come as repairs.
MOST_BODY_BYTES: Final = 2 << 20
#: References whose repairs are on their way.
MOST_ASKED: Final = 64
#: Repaired references whose bodies may still come.
MOST_REPAIRED: Final = 256
#: Before a body has come behind its reference.
_FIRST_GAP: Final = 0.03
#: Seconds after which a body is late, at most.
MOST_PATIENCE: Final = 0.25
#: Consumed references, and seconds, until they are acknowledged.
_ACKNOWLEDGE_EVERY: Final = 64
_ACKNOWLEDGE_DELAY: Final = 0.1


@attrs.define
class _Waiting:
    """A message in its place; None until the body of its reference is there."""

    message: Message | None
    counter: int = 0
    """Of its reference; 0: it came as a copy."""
    since: float = 0.0
    is_asked: bool = False
    is_credited: bool = False
    """Its credit was returned before its delivery."""


class Incoming:
    """The receiving half of a link.

    A message is passed on when the peer's own link has brought its place, and all before it have
    been passed on. While the peer is disconnected, nothing is.
    """

    def __init__(self, peer: Peer, most_held: int) -> None:
        """`most_held` is that of `Bounds`."""
        self._most_held = most_held
        self.key = b""
        self.connected: frozenset[str] = frozenset()
        """Sites that the peer sees as connected."""
        self._peer = peer
        self._epoch = -1
        self._last_counter = 0
        self._is_open = False
        self._is_renewed = False
        """The epoch has changed since the peer was connected."""
        self._waiting: deque[_Waiting] = deque()
        self._missing: dict[int, _Waiting] = {}
        """References without a body, by counter."""
        self._bodies: dict[int, bytes] = {}
        """By counter, before their references."""
        self._stored = 0
        self._repaired: dict[int, float] = {}
        """Times of repaired references by counter."""
        self._gap = RoundTrip()
        self._gap.add_sample(_FIRST_GAP, 0.0)
        self._held = 0
        """Bytes of waiting messages whose credit was returned."""
        self._delivered: deque[tuple[int, bool]] = deque()
        """Counters of messages that the user has not finished, 0 for copies, and whether their
        credit was returned."""
        self._finished = 0
        self._finished_count = 0
        self._acknowledge_at: float | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    # ----------------------------------------------------------------- states

    def accept_view(self, view: LinkView) -> int:
        """Drop the messages that are over: all of an earlier process, and references of an earlier
        epoch without a body. Return the count of those whose credit is due."""
        self.connected = frozenset(view.connected)
        self._is_open = True
        if (view.key, view.epoch) == (self.key, self._epoch):
            return 0
        before = self._count_uncredited()
        if self.key != view.key:
            self._last_counter = 0
        if self.key not in (b"", view.key):
            self._waiting.clear()
            self._bodies.clear()
            self._repaired.clear()
            self._stored = self._held = 0
        self.key, self._epoch = view.key, view.epoch
        self._is_renewed = True
        self._waiting = deque(each for each in self._waiting if each.message is not None)
        for each in self._waiting:
            if each.counter and each.message is not None:
                # It is as a copy from now on.
                self._stored -= len(each.message.payload)
                self._held += len(each.message.payload) if each.is_credited else 0
                each.counter = 0
        self._missing.clear()
        self._delivered = deque((0, is_credited) for _, is_credited in self._delivered)
        self._finished = self._finished_count = 0
        self._acknowledge_at = None
        return before - self._count_uncredited()

    def connect(self, *, is_resumed: bool) -> None:
        """Go on, or wait for the peer's view, which begins another epoch.

        Copies for this process may come before its first view.
        """
        self._is_open = is_resumed or self._is_renewed or not self.key
        self._is_renewed = False

    def suspend(self) -> None:
        """Handle that the peer is not connected any more."""
        self._is_renewed = False
        self.connected = frozenset()

    def disconnect(self) -> None:
        self._is_open = False

    # ----------------------------------------------------------------- messages

    def add_message(self, message: Message) -> None:
        self._waiting.append(_Waiting(message))

    def add_reference(self, counter: int, now: float) -> None:
        """Raises `ProtocolError` for one that does not rise."""
        if counter <= self._last_counter:
            raise ProtocolError(f"reference {counter} came after {self._last_counter}")
        self._last_counter = counter
        body = self._bodies.pop(counter, None)
        if body is not None:
            self._stored -= len(body)
        self._drop_bodies_before(counter)
        message = None if body is None else Message(body, self._peer)
        waiting = _Waiting(message, counter, now)
        self._waiting.append(waiting)
        if body is None:
            self._missing[counter] = waiting
        else:
            self._stored += len(body)
            self._gap.add_sample(0.0, now)

    def add_body(self, counter: int, payload: bytes, now: float) -> None:
        """Store a body that came another way."""
        waiting = self._missing.get(counter)
        if waiting is not None:
            self._gap.add_sample(now - waiting.since, now)
            if self._make_room(len(payload)):
                self._fill(waiting, payload)
        elif counter in self._repaired:
            self._gap.add_sample(now - self._repaired.pop(counter), now)
        elif counter > self._last_counter and self._make_room(len(payload)):
            self._stored += len(payload) - len(self._bodies.get(counter, b""))
            self._bodies[counter] = payload

    def add_repair(self, counter: int, payload: bytes) -> None:
        """Store the body of a reference; without effect if it has come meanwhile."""
        waiting = self._missing.get(counter)
        if waiting is not None and waiting.is_asked:
            self._fill(waiting, payload)
            self._repaired[counter] = waiting.since
            if len(self._repaired) > MOST_REPAIRED:
                del self._repaired[next(iter(self._repaired))]

    def _fill(self, waiting: _Waiting, payload: bytes) -> None:
        waiting.message = Message(payload, self._peer)
        self._stored += len(payload)
        del self._missing[waiting.counter]

    def _drop_bodies_before(self, counter: int) -> None:
        """Drop bodies that came as copies, too."""
        while self._bodies and (first := next(iter(self._bodies))) < counter:
            self._stored -= len(self._bodies.pop(first))

    def _make_room(self, size: int) -> bool:
        """Drop the oldest bodies without a reference. One body of any size is accepted."""
        while self._stored + size > MOST_BODY_BYTES and self._bodies:
            self._stored -= len(self._bodies.pop(next(iter(self._bodies))))
        return not self._stored or self._stored + size <= MOST_BODY_BYTES

    def take_ready(self) -> list[Message]:
        """Remove and return the messages before the first one without a body."""
        ready: list[Message] = []
        while self._is_open and self._waiting and self._waiting[0].message is not None:
            waiting = self._waiting.popleft()
            message = waiting.message
            assert message is not None
            if waiting.counter:
                self._stored -= len(message.payload)
            elif waiting.is_credited:
                self._held -= len(message.payload)
            self._delivered.append((waiting.counter, waiting.is_credited))
            ready.append(message)
        return ready

    def take_credit(self) -> int:
        """Return the count of waiting messages whose credit may be returned.

        A repair comes on the link behind them: it must not wait for their credit.
        """
        count = 0
        for waiting in reversed(self._waiting):
            if waiting.is_credited or self._held > self._most_held:
                break
            waiting.is_credited = True
            if waiting.message is not None and not waiting.counter:
                self._held += len(waiting.message.payload)
            count += 1
        return count

    def _count_uncredited(self) -> int:
        return sum(not each.is_credited for each in self._waiting)

    # ----------------------------------------------------------------- answers

    def record_finished(self, count: int, now: float) -> int:
        """Handle that the user has finished the oldest delivered messages.

        Return the count of those whose credit is due. Raises ValueError for more messages than were
        delivered.
        """
        if count > len(self._delivered):
            raise ValueError(f"{count} messages consumed, and {len(self._delivered)} delivered")
        due = 0
        for _ in range(count):
            counter, is_credited = self._delivered.popleft()
            due += not is_credited
            if counter:
                self._finished = counter
                self._finished_count += 1
        if self._finished_count >= _ACKNOWLEDGE_EVERY:
            self._acknowledge_at = now
        elif self._finished_count and self._acknowledge_at is None:
            self._acknowledge_at = now + _ACKNOWLEDGE_DELAY
        return due

    def take_acknowledgement(self, now: float) -> Acknowledge | None:
        if not self._is_open or self._acknowledge_at is None or now < self._acknowledge_at:
            return None
        self._acknowledge_at, self._finished_count = None, 0
        return Acknowledge(self._finished)

    def take_overdue(self, now: float) -> list[int]:
        """Return the references whose bodies are late, each once."""
        if not self._is_open:
            return []
        patience = self._patience
        overdue: list[int] = []
        for asked, (counter, waiting) in enumerate(self._missing.items()):
            if asked >= MOST_ASKED or now < waiting.since + patience:
                break
            if not waiting.is_asked:
                waiting.is_asked = True
                overdue.append(counter)
        return overdue

    def next_timeout(self) -> float | None:
        if not self._is_open:
            return None
        due = self._acknowledge_at
        for waiting in self._list_first_missing():
            if not waiting.is_asked:
                late_at = waiting.since + self._patience
                return late_at if due is None else min(due, late_at)
        return due

    @property
    def _patience(self) -> float:
        """Seconds: a few of the usual ones between a reference and its body."""
        return min(self._gap.timeout(0.0), MOST_PATIENCE)

    def _list_first_missing(self) -> Iterator[_Waiting]:
        for count, waiting in enumerate(self._missing.values()):
            if count >= MOST_ASKED:
                return
            yield waiting
