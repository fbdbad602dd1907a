"""One member of a multicast group: sends once to all, and receives each sender in order (M9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct

import attrs

from broker.errors import BrokerError, ConfigurationError, Overloaded, ProtocolError
from broker.transport.arq.group_effects import (
    Effect,
    PacketsLost,
    ReachabilityChanged,
    SenderAppeared,
    SenderDisappeared,
    SendToGroup,
)
from broker.transport.arq.group_receiver import GroupReceiver
from broker.transport.arq.group_sender import GroupSender
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.mac import Mac
from broker.transport.arq.wire import (
    ANNOUNCE,
    ASK,
    BYE,
    DATA,
    GONE,
    MAX_RANGES,
    MIN_DATAGRAM_BYTES,
    POLL,
    Reason,
    decode_ask,
    decode_data,
    decode_head,
    decode_numbered,
    encode_ask,
    encode_bye,
    encode_numbered,
)
from broker.transport.effects import DeliverUp, SendDown, WritableChanged
from broker.transport.message import Peer

#: Seconds until the last number is announced, doubled each time.
_FIRST_ANNOUNCE_INTERVAL = 0.02
#: Seconds between polls for a sender's name.
_NAME_POLL_INTERVAL = 0.1
#: Share of `liveness` between later polls.
_CONFIRM_SHARE = 0.4
#: Late datagrams of ended sessions are ignored; the oldest are dropped.
_MAX_ENDED = 1024
MAX_NAME_BYTES = 128

_START = Struct(">Q")


def check_member_name(name: str) -> None:
    """Raises `ConfigurationError` for a name that has no bytes, or more than `MAX_NAME_BYTES`."""
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        raise ConfigurationError(f"a group member's name has 1 to {MAX_NAME_BYTES} bytes")


@attrs.define
class GroupCounts:
    """Counts of dropped datagrams."""

    #: Damaged, or of a host without the key.
    forged: int = 0
    malformed: int = 0
    #: Of a session with another address.
    wrong_address: int = 0
    ignored: int = 0


class GroupCore:
    """One member of a multicast group: sends once to all, and receives each sender in order (M9).

    Delivery is reliable within a sender's history while the receiver keeps up. Other losses are
    reported. No receiver can slow a sender down. `session` is new for each start; `draw` returns 0
    to 1.
    """

    def __init__(
        self,
        settings: GroupSettings,
        mac: Mac,
        name: str,
        session: int,
        draw: Callable[[], float],
        max_frame: int,
        now: float,
    ) -> None:
        self.counts = GroupCounts()
        self.sender = GroupSender(settings, mac, session, now)
        self.receivers: dict[int, GroupReceiver] = {}
        self._settings = settings
        self._mac = mac
        self._name = name.encode()
        self._session = session
        self._random = draw
        self._max_frame = max_frame
        self._is_writable = True
        self._announce_interval = _FIRST_ANNOUNCE_INTERVAL
        self._announce_at = now
        self._session_by_name: dict[str, int] = {}
        self._ended_sessions: dict[int, None] = {}
        self._polled_at: dict[int, float] = {}
        """By sender's session: a POLL for name and confirmation."""
        self._confirmed_at: dict[int, float] = {}
        self._stream_starts: dict[int, int] = {}
        self._pending_effects: list[Effect] = []
        """Effects of removing a silent sender that made room."""

    def submit(self, packets: Sequence[bytes]) -> list[Effect]:
        """Raises `Overloaded`, or ValueError for an empty packet."""
        waiting = self.sender.queued_bytes
        if waiting and waiting + sum(map(len, packets)) > self._settings.send_buffer_bytes:
            raise Overloaded("packets exceed the group's rate: wait and send again")
        self.sender.submit(packets)
        if self._is_writable and self._buffer_fill() > 1 / 2:
            self._is_writable = False
            return [WritableChanged(False)]
        return []

    def flush(self, now: float) -> list[Effect]:
        datagrams = self.sender.take_datagrams(now)
        effects: list[Effect] = []
        if datagrams:
            self._announce_interval = _FIRST_ANNOUNCE_INTERVAL
            self._announce_at = now + self._announce_interval
            effects.append(SendToGroup(datagrams))
        if not self._is_writable and self._buffer_fill() < 1 / 4:
            self._is_writable = True
            effects.append(WritableChanged(True))
        return effects

    def leave(self) -> list[Effect]:
        return [SendToGroup([self._mac.add_tag(encode_bye(self._session, Reason.DONE))])]

    def receive(self, batch: Sequence[tuple[bytes, Peer]], now: float) -> list[Effect]:
        effects: list[Effect] = []
        touched: dict[int, None] = {}
        for datagram, address in batch:
            is_whole = len(datagram) >= MIN_DATAGRAM_BYTES
            contents = self._mac.remove_tag(datagram) if is_whole else None
            if contents is None:
                self.counts.forged += 1
                continue
            kind, session = decode_head(contents)
            try:
                if session == self._session:
                    effects += self._receive_own_session(kind, contents, address, now)
                elif session not in self._ended_sessions:
                    effects += self._receive_from_sender(kind, session, contents, address, now)
                    touched[session] = None
            except BrokerError:
                self.counts.malformed += 1
        for session in touched:
            effects += self._request_missing(session, now)
            effects += self._deliver(session)
        left, self._pending_effects = self._pending_effects, []
        return [*left, *effects]

    def handle_timeout(self, now: float) -> list[Effect]:
        effects = self.flush(now)
        to_all, to_each = self.sender.take_repairs(now)
        if to_all:
            effects.append(SendToGroup(to_all))
        effects += [SendDown(datagrams, asker) for asker, datagrams in to_each.items()]
        if now >= self._announce_at:
            effects.append(SendToGroup([self._create_announcement()]))
            self._announce_interval = min(2 * self._announce_interval, self._settings.announce)
            self._announce_at = now + self._announce_interval
        for session, receiver in list(self.receivers.items()):
            if not receiver.is_present:
                continue
            if now >= receiver.received_at + self._settings.liveness:
                effects += self._mark_silent(session, receiver)
                continue
            effects += self._poll(session, receiver, now)
            effects += self._update_reachability(session, now)
            effects += self._request_missing(session, now)
            effects += self._deliver(session)
        return effects

    def next_timeout(self) -> float:
        due = self._announce_at
        others = [self.sender.next_timeout()]
        liveness = self._settings.liveness
        for session, receiver in self.receivers.items():
            if receiver.is_present:
                others += (receiver.next_timeout(), receiver.received_at + liveness)
                if receiver.name is None or receiver.has_group_traffic:
                    others.append(self._polled_at.get(session, 0.0) + self._poll_interval(receiver))
            if receiver.is_reachable:
                others.append(self._confirmed_at[session] + liveness)
        return min([due, *(each for each in others if each is not None)])

    def _receive_own_session(
        self, kind: int, datagram: bytes, address: Peer, now: float
    ) -> list[Effect]:
        if kind == ASK:
            answer = self.sender.receive_request(address, decode_ask(datagram), now)
            return [] if answer is None else [SendDown([answer], address)]
        if kind == POLL:
            asker, _ = decode_numbered(datagram)
            answer = self._create_announcement(self._stream_start(asker))
            self._confirmed_at.pop(asker, None)
            self._confirmed_at[asker] = now
            if len(self._confirmed_at) > _MAX_ENDED:
                del self._confirmed_at[next(iter(self._confirmed_at))]
            return [SendDown([answer], address), *self._update_reachability(asker, now)]
        return []  # looped back

    def _receive_from_sender(
        self, kind: int, session: int, datagram: bytes, address: Peer, now: float
    ) -> list[Effect]:
        receiver = self.receivers.get(session)
        if receiver is not None and receiver.address != address:
            self.counts.wrong_address += 1
            return []
        if kind == DATA:
            data = decode_data(datagram)
            receiver = receiver or self._add_receiver(session, address, data.number, now)
            if receiver is not None:
                receiver.receive_data(data, now)
                return self._mark_present(session, receiver, now)
        elif kind == ANNOUNCE:
            highest, contents = decode_numbered(datagram)
            start, name = _decode_announcement(contents)
            receiver = receiver or self._add_receiver(session, address, highest + 1, now)
            if receiver is not None:
                receiver.has_group_traffic |= not start
                effects = self._set_name(session, receiver, start, name, now)
                receiver.receive_announcement(highest, now)
                return effects + self._mark_present(session, receiver, now)
        elif kind == GONE and receiver is not None:
            oldest, _ = decode_numbered(datagram)
            receiver.discard_before(oldest)
        elif kind == BYE and receiver is not None:
            return self._remove_receiver(session)
        elif kind not in (GONE, BYE):
            raise ProtocolError(f"a datagram of kind {kind} within a group")
        return []

    def _add_receiver(
        self, session: int, address: Peer, first: int, now: float
    ) -> GroupReceiver | None:
        self._stream_start(session)
        if len(self.receivers) >= self._settings.senders:
            silent = [each for each, other in self.receivers.items() if not other.is_present]
            if not silent:
                self.counts.ignored += 1
                return None
            self._pending_effects += self._remove_receiver(silent[0])
            del self._ended_sessions[silent[0]]  # it is accepted again when there is room
        receiver = GroupReceiver(
            *(self._settings, address, max(first, 1), self._max_frame, self._random, now)
        )
        self.receivers[session] = receiver
        return receiver

    def _stream_start(self, session: int) -> int:
        """Return the first number of this member's stream after contact with a session."""
        if session not in self._stream_starts:
            self._stream_starts[session] = self.sender.highest + 1
            if len(self._stream_starts) > _MAX_ENDED:
                del self._stream_starts[next(iter(self._stream_starts))]
        return self._stream_starts[session]

    def _mark_present(self, session: int, receiver: GroupReceiver, now: float) -> list[Effect]:
        effects = self._poll(session, receiver, now)
        if receiver.name is not None and not receiver.is_present:
            effects.append(SenderAppeared(receiver.name))
        receiver.is_present = True
        return effects + self._update_reachability(session, now)

    def _poll(self, session: int, receiver: GroupReceiver, now: float) -> list[Effect]:
        last = self._polled_at.get(session)
        if last is not None and now < last + self._poll_interval(receiver):
            return []
        if receiver.name is not None and not receiver.has_group_traffic:
            return []
        receiver.has_group_traffic = False
        self._polled_at[session] = now
        question = self._mac.add_tag(encode_numbered(POLL, session, self._session))
        return [SendDown([question], receiver.address)]

    def _poll_interval(self, receiver: GroupReceiver) -> float:
        return (
            _NAME_POLL_INTERVAL
            if receiver.name is None
            else _CONFIRM_SHARE * self._settings.liveness
        )

    def _update_reachability(self, session: int, now: float) -> list[Effect]:
        receiver = self.receivers.get(session)
        if receiver is None or receiver.name is None or not receiver.is_present:
            return []
        confirmed_at = self._confirmed_at.get(session)
        is_reachable = confirmed_at is not None and now < confirmed_at + self._settings.liveness
        if is_reachable == receiver.is_reachable:
            return []
        receiver.is_reachable = is_reachable
        return [ReachabilityChanged(receiver.name, is_reachable)]

    def _set_name(
        self, session: int, receiver: GroupReceiver, start: int, name: str, now: float
    ) -> list[Effect]:
        if receiver.name is not None or not start:
            return []  # known, or without a start for this member
        effects: list[Effect] = []
        if name in self._session_by_name:
            # The last one of a name counts.
            effects += self._remove_receiver(self._session_by_name[name])
        receiver.name = name
        receiver.restart_at(start, now)
        self._session_by_name[name] = session
        effects.append(SenderAppeared(name))
        return effects + self._update_reachability(session, now)

    def _deliver(self, session: int) -> list[Effect]:
        receiver = self.receivers.get(session)
        if receiver is None or receiver.name is None:
            return []
        effects: list[Effect] = []
        for missed, packets in receiver.take_packets():
            if missed:
                effects.append(PacketsLost(receiver.name, missed))
            if packets:
                effects.append(DeliverUp(packets, receiver.name))
        return effects

    def _request_missing(self, session: int, now: float) -> list[Effect]:
        receiver = self.receivers.get(session)
        if receiver is None:
            return []
        ranges = receiver.take_requests(now)
        received = receiver.receive_window.received
        questions = [
            self._mac.add_tag(encode_ask(session, received, ranges[first : first + MAX_RANGES]))
            for first in range(0, len(ranges), MAX_RANGES)
        ]
        return [SendDown(questions, receiver.address)] if questions else []

    def _remove_receiver(self, session: int) -> list[Effect]:
        receiver = self.receivers[session]
        # Missing datagrams can not be requested any more.
        receiver.discard_before(receiver.receive_window.newest + 1)
        effects = self._deliver(session)
        del self.receivers[session]
        self._polled_at.pop(session, None)
        self._confirmed_at.pop(session, None)
        self._ended_sessions[session] = None
        if len(self._ended_sessions) > _MAX_ENDED:
            del self._ended_sessions[next(iter(self._ended_sessions))]
        if receiver.name is None:
            return []
        del self._session_by_name[receiver.name]
        return [*effects, SenderDisappeared(receiver.name)] if receiver.is_present else effects

    def _mark_silent(self, session: int, receiver: GroupReceiver) -> list[Effect]:
        """Missing datagrams of a silent sender are requested when it returns."""
        if receiver.name is None:
            del self.receivers[session]
            self._polled_at.pop(session, None)
            return []
        receiver.is_present = receiver.is_reachable = False
        return [SenderDisappeared(receiver.name)]

    def _create_announcement(self, start: int = 0) -> bytes:
        contents = _START.pack(start) + self._name
        return self._mac.add_tag(
            encode_numbered(ANNOUNCE, self._session, self.sender.highest, contents)
        )

    def _buffer_fill(self) -> float:
        return self.sender.queued_bytes / self._settings.send_buffer_bytes


def _decode_announcement(contents: bytes) -> tuple[int, str]:
    if len(contents) < _START.size:
        raise ProtocolError("an ANNOUNCE without its start")
    (start,) = _START.unpack_from(contents)
    name = contents[_START.size :]
    if not 0 < len(name) <= MAX_NAME_BYTES:
        raise ProtocolError(f"a sender's name of {len(name)} bytes")
    try:
        return start, name.decode()
    except UnicodeDecodeError:
        raise ProtocolError("a sender's name that is not UTF-8") from None
