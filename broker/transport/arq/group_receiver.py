"""Receiving half of a group member for one sender: in order, with reported losses (D43, D44)."""

from __future__ import annotations

from collections.abc import Callable

from broker.transport.arq.fragmentation import Reassembler
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.receive_window import ReceiveWindow
from broker.transport.arq.wire import MAX_RANGES, Data, Range
from broker.transport.message import Peer

#: Seconds.
_FIRST_REQUEST_INTERVAL = 0.02
_MAX_REQUEST_INTERVAL = 0.5
#: Seconds, so that one repair may serve all (D46).
_MAX_RANDOM_DELAY = 0.005
#: At 20% loss one datagram can not name the missing ranges of 20 ms.
_MAX_REQUEST_DATAGRAMS = 8


class GroupReceiver:
    """The stream of one sender: in order, with reported losses (D43, D44)."""

    def __init__(
        self,
        settings: GroupSettings,
        address: Peer,
        first: int,
        max_frame: int,
        draw: Callable[[], float],
        now: float,
    ) -> None:
        self.address = address
        self.name: str | None = None
        self.received_at = now
        #: A datagram arrived within `liveness`.
        self.is_present = True
        #: A datagram to the group arrived since the last confirmation.
        self.has_group_traffic = True
        #: The sender receives this member.
        self.is_reachable = False
        self._settings = settings
        self._max_frame = max_frame
        self._random = draw
        self._start(first)

    def _start(self, first: int) -> None:
        settings = self._settings
        self.receive_window: ReceiveWindow[Data] = ReceiveWindow(
            settings.window, settings.reorder_delay, first, credit=False
        )
        self._reassembler = Reassembler(self._max_frame, first)
        self._request_interval = _FIRST_REQUEST_INTERVAL
        self._request_at: float | None = None

    def restart_at(self, first: int, now: float) -> None:
        """Restart before anything was read, at a number announced by the sender."""
        held = self.receive_window.buffered()
        self._start(first)
        for data in held:
            if data.number >= first:
                self.receive_data(data, now)

    def receive_data(self, data: Data, now: float) -> None:
        self.received_at = now
        receive_window = self.receive_window
        if self.name is None and receive_window.ready_count >= self._settings.window:
            return  # it will be requested again
        received_before = receive_window.received
        receive_window.make_room(data.number)
        if data.number in receive_window.missing:
            # Repairs arrive: request the rest soon.
            self._request_soon(now)
        else:
            self.has_group_traffic = True
        receive_window.insert(data.number, data, now)
        self._window_moved(received_before, now)

    def receive_announcement(self, highest: int, now: float) -> None:
        self.received_at = now
        self.receive_window.mark_sent_until(highest, now)
        self._window_moved(self.receive_window.received, now)

    def discard_before(self, oldest: int) -> None:
        """Give up missing numbers that the sender has dropped."""
        self.receive_window.skip_to(min(oldest, self.receive_window.newest + 1))

    def take_requests(self, now: float) -> list[Range]:
        """Return the ranges to request; give up numbers missing for longer than `patience`."""
        if self._request_at is None or now < self._request_at:
            return []
        receive_window = self.receive_window
        receive_window.give_up_late(now, self._settings.patience)
        ranges = receive_window.missing_ranges(now, _MAX_REQUEST_DATAGRAMS * MAX_RANGES)
        late_at = receive_window.next_missing_at(now)
        self._request_at = None
        if ranges:
            self._request_at = now + self._request_interval + self._random() * _MAX_RANDOM_DELAY
            self._request_interval = min(2 * self._request_interval, _MAX_REQUEST_INTERVAL)
        elif late_at is not None:
            self._request_at = late_at + self._random() * _MAX_RANDOM_DELAY
        return ranges

    def next_timeout(self) -> float | None:
        return self._request_at

    def take_packets(self) -> list[tuple[int, list[bytes]]]:
        """Return runs of packets, each with the count of packets lost before it."""
        return self._reassembler.add_fragments(self.receive_window.take_ready())

    def _request_soon(self, now: float) -> None:
        self._request_interval = _FIRST_REQUEST_INTERVAL
        if self._request_at is not None:
            self._request_at = min(self._request_at, now + _FIRST_REQUEST_INTERVAL)

    def _window_moved(self, received_before: int, now: float) -> None:
        receive_window = self.receive_window
        if receive_window.received > received_before:
            self._request_interval = _FIRST_REQUEST_INTERVAL
        if not receive_window.missing:
            self._request_at = None
        elif self._request_at is None:
            late_at = receive_window.next_missing_at(now)
            self._request_at = (
                now if late_at is None else late_at
            ) + self._random() * _MAX_RANDOM_DELAY
