"""The sending half of a group member, and its repairs (D43, D45, D50)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from broker.transport.arq.fragmentation import Fragmenter
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.mac import Mac
from broker.transport.arq.pacer import Pacer
from broker.transport.arq.settings import constant_rate
from broker.transport.arq.wire import DATA_OVERHEAD, GONE, Range, encode_data, encode_numbered
from broker.transport.message import Peer

#: Seconds.
_REQUEST_DELAY = 0.004
_GROUP_REPAIR_AT = 3
#: Seconds; an earlier request was sent before the repair arrived.
_REPAIR_INTERVAL = 0.015
#: A receiver asks again for the rest.
_MAX_REQUESTED = 1024


@attrs.define
class _HistoryEntry:
    datagram: bytes
    repeated_at: float = float("-inf")
    repeated_to: frozenset[Peer] = frozenset()


class GroupSender:
    """Numbered datagrams at a set rate, with a bounded history for repairs (D43, D45, D50)."""

    def __init__(self, settings: GroupSettings, mac: Mac, session: int, now: float) -> None:
        self.highest = 0
        #: To one member, and to all.
        self.repaired = 0
        self.repaired_to_all = 0
        self._settings = settings
        self._mac = mac
        self._session = session
        self._fragmenter = Fragmenter(settings.datagram_bytes - DATA_OVERHEAD - mac.overhead)
        size = settings.datagram_bytes
        self._pacer = Pacer(constant_rate(settings.rate, size), now)
        self._repair_pacer = Pacer(constant_rate(settings.repair_rate, size), now)
        self._history: dict[int, _HistoryEntry] = {}
        self._history_bytes = 0
        self._requests: dict[int, frozenset[Peer]] = {}
        self._repair_at: float | None = None
        self._token_at: float | None = None

    @property
    def oldest(self) -> int:
        """Oldest number in the history; the next one if it is empty."""
        return next(iter(self._history), self.highest + 1)

    @property
    def queued_bytes(self) -> int:
        return self._fragmenter.queued_bytes

    def submit(self, packets: Sequence[bytes]) -> None:
        """Raises ValueError for an empty packet."""
        self._fragmenter.add_packets(packets)

    def take_datagrams(self, now: float) -> list[bytes]:
        datagrams: list[bytes] = []
        self._token_at = None
        while self._fragmenter:
            if not self._pacer.may_send(now):
                self._token_at = self._pacer.next_send_at()
                break
            start, packet, parts = self._fragmenter.next_fragment()
            self.highest += 1
            datagram = self._mac.add_tag(
                encode_data(self._session, self.highest, start, packet, parts)
            )
            self._pacer.record_sent(len(datagram))
            self._add_to_history(datagram)
            datagrams.append(datagram)
        return datagrams

    def receive_request(self, asker: Peer, ranges: Sequence[Range], now: float) -> bytes | None:
        """Return a GONE if the history lacks some."""
        remaining = _MAX_REQUESTED
        oldest = self.oldest
        for first, count in ranges:
            start = max(first, oldest)
            for number in range(start, min(first + count, self.highest + 1, start + remaining)):
                remaining -= 1
                entry = self._history[number]
                if asker not in entry.repeated_to or now >= entry.repeated_at + _REPAIR_INTERVAL:
                    self._requests[number] = self._requests.get(number, frozenset()) | {asker}
        if self._requests and self._repair_at is None:
            self._repair_at = now + _REQUEST_DELAY
        if any(first < oldest for first, _ in ranges):
            return self._mac.add_tag(encode_numbered(GONE, self._session, oldest))
        return None

    def take_repairs(self, now: float) -> tuple[list[bytes], dict[Peer, list[bytes]]]:
        """Return the repairs to the group, and by member."""
        to_all: list[bytes] = []
        to_each: dict[Peer, list[bytes]] = {}
        if self._repair_at is None or now < self._repair_at:
            return to_all, to_each
        self._repair_at = None
        while self._requests:
            if not self._repair_pacer.may_send(now):
                self._repair_at = self._repair_pacer.next_send_at()
                break
            number = next(iter(self._requests))
            askers = self._requests.pop(number)
            entry = self._history.get(number)
            if entry is None:
                continue  # dropped meanwhile; the members will ask again
            if entry.repeated_at + _REPAIR_INTERVAL <= now:
                entry.repeated_to = frozenset()
            entry.repeated_at = now
            entry.repeated_to |= askers
            to_group = len(askers) >= _GROUP_REPAIR_AT
            self._repair_pacer.record_sent(len(entry.datagram) * (1 if to_group else len(askers)))
            if to_group:
                self.repaired_to_all += 1
                to_all.append(entry.datagram)
                continue
            self.repaired += len(askers)
            for asker in askers:
                to_each.setdefault(asker, []).append(entry.datagram)
        return to_all, to_each

    def next_timeout(self) -> float | None:
        due = [each for each in (self._token_at, self._repair_at) if each is not None]
        return min(due, default=None)

    def _add_to_history(self, datagram: bytes) -> None:
        self._history[self.highest] = _HistoryEntry(datagram)
        self._history_bytes += len(datagram)
        while self._history_bytes > self._settings.history_bytes and len(self._history) > 1:
            oldest = next(iter(self._history))
            self._history_bytes -= len(self._history.pop(oldest).datagram)
