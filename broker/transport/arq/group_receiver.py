"""Receiving half of a group member for one sender: in order, with reported losses (D43, D44)."""

from __future__ import annotations

from collections.abc import Callable

from broker.errors import BrokerError
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.receive_window import ReceiveWindow
from broker.transport.arq.wire import MAX_RANGES, NO_START, Data, Range
from broker.transport.message import Peer
from broker.transport.socket.framing import FrameDecoder

#: Seconds.
_FIRST_REQUEST_INTERVAL = 0.02
_MAX_REQUEST_INTERVAL = 0.5
#: Seconds, so that one repair may serve all (D46).
_MAX_RANDOM_DELAY = 0.005
#: At 20% loss one datagram can not name the missing ranges of 20 ms.
_MAX_REQUEST_DATAGRAMS = 8
_PACKET_MODULUS = 2**32


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
        #: Larger than this end accepts.
        self.oversized = 0
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
        self._decoder = FrameDecoder(self._max_frame)
        self._first = first
        self._number = first - 1
        self._is_resynchronising = first > 1  # the first datagram may begin within a packet
        self._packet: int | None = None if self._is_resynchronising else 0  # the next one, if known
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
        if data.number > receive_window.limit:
            self._make_room(data.number)
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
        last_given_up = 0
        for number, since in receive_window.missing.items():
            if now < since + self._settings.patience:
                break
            last_given_up = number
        if last_given_up:
            receive_window.skip_to(last_given_up + 1)
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
        runs: list[tuple[int, list[bytes]]] = []
        pieces: list[bytes] = []
        for data in self.receive_window.take_ready():
            piece = data.piece
            if data.number != self._number + 1 and not self._is_resynchronising:
                self._decode_pieces(pieces, runs)
                self._is_resynchronising = True
            self._number = data.number
            if self._is_resynchronising:
                if data.start == NO_START:
                    continue
                piece = piece[data.start :]
                self._start_packet(data.packet, runs)
            pieces.append(piece)
        self._decode_pieces(pieces, runs)
        return [run for run in runs if run[0] or run[1]]

    def _make_room(self, number: int) -> None:
        receive_window, window = self.receive_window, self._settings.window
        if not receive_window.missing or number > receive_window.limit + window:
            receive_window.skip_to(number - window // 2)
        while receive_window.missing and number > receive_window.limit:
            receive_window.skip_to(next(iter(receive_window.missing)) + 1)

    def _request_soon(self, now: float) -> None:
        self._request_interval = _FIRST_REQUEST_INTERVAL
        if self._request_at is not None:
            self._request_at = min(self._request_at, now + _FIRST_REQUEST_INTERVAL)

    def _start_packet(self, packet: int, runs: list[tuple[int, list[bytes]]]) -> None:
        self._is_resynchronising = False
        self._decoder = FrameDecoder(self._max_frame)
        if self._packet is None:
            # The count is unknown.
            missed = int(self._number > self._first)
        else:
            missed = (packet - self._packet) % _PACKET_MODULUS
        self._packet = packet
        runs.append((missed, []))

    def _decode_pieces(self, pieces: list[bytes], runs: list[tuple[int, list[bytes]]]) -> None:
        if not pieces:
            return
        try:
            packets = self._decoder.feed(b"".join(pieces))
        except BrokerError:
            # Continue where another packet begins.
            self.oversized += 1
            self._is_resynchronising = True
            packets = []
        pieces.clear()
        if not runs:
            runs.append((0, []))
        runs[-1][1].extend(packets)
        self._packet = ((self._packet or 0) + len(packets)) % _PACKET_MODULUS

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
