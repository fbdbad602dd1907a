"""What one member of a group hears of another: in order, with its holes (D43, D44)."""

from __future__ import annotations

from collections.abc import Callable

from broker.errors import BrokerError
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.receive_window import ReceiveWindow
from broker.transport.arq.wire import MAX_RANGES, NO_START, Data, Range
from broker.transport.effects import Peer
from broker.transport.socket.framing import FrameDecoder

#: Seconds between two questions for the same holes, at first and at most.
_FIRST_REQUEST_INTERVAL = 0.02
_MAX_REQUEST_INTERVAL = 0.5
#: Askers draw a delay of up to so many seconds, so that an answer to one may reach all (D46).
_MAX_RANDOM_DELAY = 0.005
#: Datagrams of questions at once: at 20% loss one does not hold the holes of 20 ms.
_MAX_REQUEST_DATAGRAMS = 8
#: Packets are counted modulo this.
_PACKET_MODULUS = 2**32


class GroupReceiver:
    """One sender's stream. It begins with the first datagram heard, or after an announcement."""

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
        #: What the sender calls itself; None until it has said so.
        self.name: str | None = None
        self.received_at = now
        #: Packets that were larger than this end accepts.
        self.oversized = 0
        #: It was heard within `liveness`.
        self.is_present = True
        #: Something of it came that was sent to the whole group: since we last said so.
        self.has_group_traffic = True
        #: It was told to hear us.
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
        self._number = first - 1  # of the last datagram whose contents went into the decoder
        self._is_resynchronising = first > 1  # what comes first may be the middle of a packet
        self._packet: int | None = (
            None if self._is_resynchronising else 0
        )  # the next one's number, if known
        self._request_interval = _FIRST_REQUEST_INTERVAL
        self._request_at: float | None = None

    def restart_at(self, first: int, now: float) -> None:
        """The sender says where our share of its stream begins; nothing was taken yet."""
        held = self.receive_window.buffered()
        self._start(first)
        for said in held:
            if said.number >= first:
                self.receive_data(said, now)

    def receive_data(self, said: Data, now: float) -> None:
        """A datagram of this sender."""
        self.received_at = now
        reception = self.receive_window
        if self.name is None and reception.ready_count >= self._settings.window:
            return  # it will be asked for again
        before = reception.received
        if said.number > reception.limit:
            self._make_room(said.number)
        if said.number in reception.missing:
            # Answers come: what is still missing is worth asking for soon.
            self._request_soon(now)
        else:
            self.has_group_traffic = True
        reception.insert(said.number, said, now)
        self._window_moved(before, now)

    def receive_announcement(self, highest: int, now: float) -> None:
        """The sender has sent so many."""
        self.received_at = now
        self.receive_window.mark_sent_until(highest, now)
        self._window_moved(self.receive_window.received, now)

    def discard_before(self, oldest: int) -> None:
        """The sender has nothing below a number any more."""
        self.receive_window.skip_to(min(oldest, self.receive_window.newest + 1))

    def take_requests(self, now: float) -> list[Range]:
        """What to ask the sender for now; gives up what was asked for too long."""
        if self._request_at is None or now < self._request_at:
            return []
        reception = self.receive_window
        given_up = 0
        for number, since in reception.missing.items():
            if now < since + self._settings.patience:
                break
            given_up = number
        if given_up:
            reception.skip_to(given_up + 1)
        wanted = reception.missing_ranges(now, _MAX_REQUEST_DATAGRAMS * MAX_RANGES)
        late_at = reception.next_missing_at(now)
        self._request_at = None
        if wanted:
            self._request_at = now + self._request_interval + self._random() * _MAX_RANDOM_DELAY
            self._request_interval = min(2 * self._request_interval, _MAX_REQUEST_INTERVAL)
        elif late_at is not None:
            self._request_at = late_at + self._random() * _MAX_RANDOM_DELAY
        return wanted

    def next_timeout(self) -> float | None:
        """When to ask."""
        return self._request_at

    def take_packets(self) -> list[tuple[int, list[bytes]]]:
        """What can be delivered: packets, and how many are missing before them."""
        runs: list[tuple[int, list[bytes]]] = []
        pieces: list[bytes] = []
        for said in self.receive_window.take_ready():
            piece = said.piece
            if said.number != self._number + 1 and not self._is_resynchronising:
                self._decode_pieces(pieces, runs)
                self._is_resynchronising = True
            self._number = said.number
            if self._is_resynchronising:
                if said.start == NO_START:
                    continue
                piece = piece[said.start :]
                self._start_packet(said.packet, runs)
            pieces.append(piece)
        self._decode_pieces(pieces, runs)
        return [run for run in runs if run[0] or run[1]]

    def _make_room(self, number: int) -> None:
        """Give up the oldest holes: behind them there is no room any more."""
        reception, window = self.receive_window, self._settings.window
        if not reception.missing or number > reception.limit + window:
            reception.skip_to(number - window // 2)
        while reception.missing and number > reception.limit:
            reception.skip_to(next(iter(reception.missing)) + 1)

    def _request_soon(self, now: float) -> None:
        self._request_interval = _FIRST_REQUEST_INTERVAL
        if self._request_at is not None:
            self._request_at = min(self._request_at, now + _FIRST_REQUEST_INTERVAL)

    def _start_packet(self, packet: int, runs: list[tuple[int, list[bytes]]]) -> None:
        self._is_resynchronising = False
        self._decoder = FrameDecoder(self._max_frame)
        if self._packet is None:
            # How many were lost before what is the first that came is not known: at least one.
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
            # Too large, or nonsense of somebody with the key: go on where another packet begins.
            self.oversized += 1
            self._is_resynchronising = True
            packets = []
        pieces.clear()
        if not runs:
            runs.append((0, []))
        runs[-1][1].extend(packets)
        self._packet = ((self._packet or 0) + len(packets)) % _PACKET_MODULUS

    def _window_moved(self, before: int, now: float) -> None:
        reception = self.receive_window
        if reception.received > before:
            self._request_interval = _FIRST_REQUEST_INTERVAL
        if not reception.missing:
            self._request_at = None
        elif self._request_at is None:
            late_at = reception.next_missing_at(now)
            self._request_at = (
                now if late_at is None else late_at
            ) + self._random() * _MAX_RANDOM_DELAY
