"""What one member of a group hears of another: in order, with its holes (D43, D44)."""

from __future__ import annotations

from collections.abc import Callable

from broker.errors import BrokerError
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.receive_window import Reception
from broker.transport.arq.wire import MOST_RANGES, NO_START, Data, Range
from broker.transport.effects import Peer
from broker.transport.socket.framing import FrameDecoder

#: Seconds between two questions for the same holes, at first and at most.
_FIRST_ASKING = 0.02
_MOST_ASKING = 0.5
#: Askers draw a delay of up to so many seconds, so that an answer to one may reach all (D46).
_SPREAD = 0.005
#: Datagrams of questions at once: at 20% loss one does not hold the holes of 20 ms.
_QUESTIONS = 8
#: Packets are counted modulo this.
_PACKETS = 2**32


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
        self.heard_at = now
        #: Packets that were larger than this end accepts.
        self.refused = 0
        #: It was heard within `liveness`.
        self.present = True
        #: Something of it came that was sent to the whole group: since we last said so.
        self.heard_in_group = True
        #: It was told to hear us.
        self.hears = False
        self._settings = settings
        self._max_frame = max_frame
        self._draw = draw
        self._start(first)

    def _start(self, first: int) -> None:
        settings = self._settings
        self.reception: Reception[Data] = Reception(
            settings.window, settings.reorder_delay, first, credit=False
        )
        self._decoder = FrameDecoder(self._max_frame)
        self._first = first
        self._number = first - 1  # of the last datagram whose contents went into the decoder
        self._torn = first > 1  # what comes first may be the middle of a packet
        self._packet: int | None = None if self._torn else 0  # the next one's number, if known
        self._asking = _FIRST_ASKING
        self._ask_at: float | None = None

    def begin_at(self, first: int, now: float) -> None:
        """The sender says where our share of its stream begins; nothing was taken yet."""
        held = self.reception.held()
        self._start(first)
        for said in held:
            if said.number >= first:
                self.arrived(said, now)

    def arrived(self, said: Data, now: float) -> None:
        """A datagram of this sender."""
        self.heard_at = now
        reception = self.reception
        if self.name is None and reception.waiting >= self._settings.window:
            return  # it will be asked for again
        before = reception.received
        if said.number > reception.limit:
            self._make_room(said.number)
        if said.number in reception.missing:
            # Answers come: what is still missing is worth asking for soon.
            self._ask_again_soon(now)
        else:
            self.heard_in_group = True
        reception.arrived(said.number, said, now)
        self._moved(before, now)

    def announced(self, highest: int, now: float) -> None:
        """The sender has sent so many."""
        self.heard_at = now
        self.reception.known_until(highest, now)
        self._moved(self.reception.received, now)

    def gone(self, oldest: int) -> None:
        """The sender has nothing below a number any more."""
        self.reception.skip_to(min(oldest, self.reception.newest + 1))

    def questions(self, now: float) -> list[Range]:
        """What to ask the sender for now; gives up what was asked for too long."""
        if self._ask_at is None or now < self._ask_at:
            return []
        reception = self.reception
        given_up = 0
        for number, since in reception.missing.items():
            if now < since + self._settings.patience:
                break
            given_up = number
        if given_up:
            reception.skip_to(given_up + 1)
        wanted = reception.wanted(now, _QUESTIONS * MOST_RANGES)
        late_at = reception.late_at(now)
        self._ask_at = None
        if wanted:
            self._ask_at = now + self._asking + self._draw() * _SPREAD
            self._asking = min(2 * self._asking, _MOST_ASKING)
        elif late_at is not None:
            self._ask_at = late_at + self._draw() * _SPREAD
        return wanted

    def next_timeout(self) -> float | None:
        """When to ask."""
        return self._ask_at

    def take(self) -> list[tuple[int, list[bytes]]]:
        """What can be delivered: packets, and how many are missing before them."""
        runs: list[tuple[int, list[bytes]]] = []
        pieces: list[bytes] = []
        for said in self.reception.take():
            piece = said.piece
            if said.number != self._number + 1 and not self._torn:
                self._feed(pieces, runs)
                self._torn = True
            self._number = said.number
            if self._torn:
                if said.start == NO_START:
                    continue
                piece = piece[said.start :]
                self._begin(said.packet, runs)
            pieces.append(piece)
        self._feed(pieces, runs)
        return [run for run in runs if run[0] or run[1]]

    def _make_room(self, number: int) -> None:
        """Give up the oldest holes: behind them there is no room any more."""
        reception, window = self.reception, self._settings.window
        if not reception.missing or number > reception.limit + window:
            reception.skip_to(number - window // 2)
        while reception.missing and number > reception.limit:
            reception.skip_to(next(iter(reception.missing)) + 1)

    def _ask_again_soon(self, now: float) -> None:
        self._asking = _FIRST_ASKING
        if self._ask_at is not None:
            self._ask_at = min(self._ask_at, now + _FIRST_ASKING)

    def _begin(self, packet: int, runs: list[tuple[int, list[bytes]]]) -> None:
        self._torn = False
        self._decoder = FrameDecoder(self._max_frame)
        if self._packet is None:
            # How many were lost before what is the first that came is not known: at least one.
            missed = int(self._number > self._first)
        else:
            missed = (packet - self._packet) % _PACKETS
        self._packet = packet
        runs.append((missed, []))

    def _feed(self, pieces: list[bytes], runs: list[tuple[int, list[bytes]]]) -> None:
        if not pieces:
            return
        try:
            packets = self._decoder.feed(b"".join(pieces))
        except BrokerError:
            # Too large, or nonsense of somebody with the key: go on where another packet begins.
            self.refused += 1
            self._torn = True
            packets = []
        pieces.clear()
        if not runs:
            runs.append((0, []))
        runs[-1][1].extend(packets)
        self._packet = ((self._packet or 0) + len(packets)) % _PACKETS

    def _moved(self, before: int, now: float) -> None:
        reception = self.reception
        if reception.received > before:
            self._asking = _FIRST_ASKING
        if not reception.missing:
            self._ask_at = None
        elif self._ask_at is None:
            late_at = reception.late_at(now)
            self._ask_at = (now if late_at is None else late_at) + self._draw() * _SPREAD
