"""What one member sends to its group, and sends again to who missed it (D43, D45, D50)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from broker.transport.arq.fragmentation import Cutter
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.pacer import Pace
from broker.transport.arq.mac import Seal
from broker.transport.arq.wire import DATA_OVERHEAD, GONE, Range, data, numbered
from broker.transport.effects import Peer

#: Seconds in which askers for one number are gathered.
_GATHERING = 0.004
#: From so many on the group gets it.
_MANY = 3
#: Who asks again within so many seconds (at least) has not had the time to get the answer.
_TOO_EARLY = 0.015
#: Numbers of one ASK that are looked at: a receiver asks again for the rest.
_MOST_ASKED = 1024


@attrs.define
class _Kept:
    datagram: bytes
    repeated_at: float = float("-inf")
    repeated_to: frozenset[Peer] = frozenset()


class GroupSender:
    """Numbered datagrams, at the pace of a setting, and a bounded history of them."""

    def __init__(self, settings: GroupSettings, seal: Seal, session: int, now: float) -> None:
        #: The number of the last datagram sent.
        self.highest = 0
        #: Datagrams sent again to one, and to all.
        self.repaired = 0
        self.repaired_to_all = 0
        self._settings = settings
        self._seal = seal
        self._session = session
        self._cutter = Cutter(settings.datagram_bytes - DATA_OVERHEAD)
        self._pace = Pace(settings.pacing(settings.rate), now)
        self._repair_pace = Pace(settings.pacing(settings.repair_rate), now)
        self._kept: dict[int, _Kept] = {}
        self._kept_bytes = 0
        self._asked: dict[int, frozenset[Peer]] = {}
        self._repair_at: float | None = None
        self._token_at: float | None = None

    @property
    def oldest(self) -> int:
        """The oldest number that is still there; the next one if none is."""
        return next(iter(self._kept), self.highest + 1)

    @property
    def waiting_bytes(self) -> int:
        """Submitted and not yet sent."""
        return self._cutter.bytes

    def add(self, packets: Sequence[bytes]) -> None:
        """Take packets. Raises ValueError for an empty one."""
        self._cutter.add(packets)

    def send(self, now: float) -> list[bytes]:
        """What may go to the group now."""
        datagrams: list[bytes] = []
        self._token_at = None
        while self._cutter:
            if not self._pace.may_send(now):
                self._token_at = self._pace.next_token()
                break
            start, packet, parts = self._cutter.next()
            self.highest += 1
            sealed = self._seal.sealed(data(self._session, self.highest, start, packet, parts))
            self._pace.sent(len(sealed))
            self._keep(sealed)
            datagrams.append(sealed)
        return datagrams

    def asked(self, asker: Peer, ranges: Sequence[Range], now: float) -> bytes | None:
        """Somebody wants datagrams again; an answer if some of them are not there any more."""
        left = _MOST_ASKED
        oldest = self.oldest
        for first, count in ranges:
            start = max(first, oldest)
            for number in range(start, min(first + count, self.highest + 1, start + left)):
                left -= 1
                kept = self._kept[number]
                if asker not in kept.repeated_to or now >= kept.repeated_at + _TOO_EARLY:
                    self._asked[number] = self._asked.get(number, frozenset()) | {asker}
        if self._asked and self._repair_at is None:
            self._repair_at = now + _GATHERING
        if any(first < oldest for first, _ in ranges):
            return self._seal.sealed(numbered(GONE, self._session, oldest))
        return None

    def repairs(self, now: float) -> tuple[list[bytes], dict[Peer, list[bytes]]]:
        """What goes again now: to the group, and to single askers."""
        to_all: list[bytes] = []
        to_each: dict[Peer, list[bytes]] = {}
        if self._repair_at is None or now < self._repair_at:
            return to_all, to_each
        self._repair_at = None
        while self._asked:
            if not self._repair_pace.may_send(now):
                self._repair_at = self._repair_pace.next_token()
                break
            number = next(iter(self._asked))
            askers = self._asked.pop(number)
            kept = self._kept.get(number)
            if kept is None:
                continue  # it went out of the history meanwhile; they will ask again
            if kept.repeated_at + _TOO_EARLY <= now:
                kept.repeated_to = frozenset()
            kept.repeated_at = now
            kept.repeated_to |= askers
            many = len(askers) >= _MANY
            self._repair_pace.sent(len(kept.datagram) * (1 if many else len(askers)))
            if many:
                self.repaired_to_all += 1
                to_all.append(kept.datagram)
                continue
            self.repaired += len(askers)
            for asker in askers:
                to_each.setdefault(asker, []).append(kept.datagram)
        return to_all, to_each

    def next_timeout(self) -> float | None:
        """When to send or repair something."""
        due = [each for each in (self._token_at, self._repair_at) if each is not None]
        return min(due, default=None)

    def _keep(self, datagram: bytes) -> None:
        self._kept[self.highest] = _Kept(datagram)
        self._kept_bytes += len(datagram)
        while self._kept_bytes > self._settings.history_bytes and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._kept_bytes -= len(self._kept.pop(oldest).datagram)
