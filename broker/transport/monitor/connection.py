"""State of one connection for the monitor."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from broker.errors import ProtocolError
from broker.transport.monitor.measurement import Measurements
from broker.transport.monitor.settings import MonitorSettings
from broker.transport.monitor.wire import Heartbeat

#: Of packets that come before the peer is connected: RESUME of p2p, data of a baseline, or those of
#: a peer that has already connected this end again after a disconnection.
MOST_HELD_BYTES = 8 * 1024 * 1024
_PACKET_COST = 64
#: Heartbeats without anything heard after which no echo is on its way.
_QUIET = 1.1


@attrs.define
class Connection:
    """One connection. Times are monotonic; None: not planned."""

    settings: MonitorSettings
    since: float
    heard_at: float = attrs.field(init=False)
    measurements: Measurements = attrs.field(init=False)
    is_shaken: bool = False
    """The peer's HELLO has come."""
    was_connected: bool = False
    """The peer was told as connected on this connection."""
    passes: bool = False
    """Received packets go up at once. Otherwise they are held."""
    sent: int = 0
    received: int = 0
    """Packets of the monitor and of the layer above."""
    reads: int = 0
    beat_at: float = 0.0
    silent_since: float | None = None
    poor_until: float | None = None
    poor_reason: str = ""
    peer_reason: str = ""
    """Reason for which the peer suspects this end."""
    sent_reason: str = ""
    """Reason in the last heartbeat to the peer."""
    echo: int = 0
    """Number of the peer's last heartbeat."""
    echo_at: float = 0.0
    echo_clock: int = 0
    offers: int = 0
    first_offer: int = 0
    """Number of the first offer since the peer could not be told as connected."""
    offer_at: float | None = None
    """Time of another offer, while an answer is expected."""
    unanswered: tuple[int, bytes] | None = None
    """Offer of the peer that the owner could not answer yet."""
    answer_at: float = 0.0
    _held: list[bytes] = attrs.field(factory=list)
    _held_bytes: int = 0

    def __attrs_post_init__(self) -> None:
        self.heard_at = self.since
        self.measurements = Measurements(self.settings, self.since)

    @property
    def own_reason(self) -> str:
        """Reason for which this end suspects the peer; empty: it does not."""
        return "silent" if self.silent_since is not None else self.poor_reason

    @property
    def reason(self) -> str:
        """Reason for which the peer can not be told as connected, of either end."""
        if not self.own_reason and self.peer_reason:
            return f"suspected by the peer: {self.peer_reason}"
        return self.own_reason

    def silent_at(self) -> float:
        """Return the time at which the peer is silent, if nothing more is heard.

        Without an echo for `liveness` it need not be silent for so long itself: the other direction
        may be, and then this one too. But echoes may wait behind data that come.
        """
        settings = self.settings
        silent_at = self.heard_at + settings.liveness
        oldest_at = self.measurements.oldest_at
        if oldest_at is None:
            return silent_at
        quiet_at = self.heard_at + _QUIET * settings.heartbeat
        return min(silent_at, max(quiet_at, oldest_at + settings.liveness))

    def check_silence(self, now: float) -> None:
        if now < self.silent_at() and not self.measurements.is_unheard:
            self.silent_since = None
        elif self.silent_since is None:
            self.silent_since = now

    def suspect(self, reason: str, now: float) -> None:
        """Suspect the peer for its quality until `liveness` has passed well."""
        self.poor_until, self.poor_reason = now + self.settings.liveness, reason

    def check_quality(self, now: float) -> None:
        poor = self.measurements.find_poor(now, self.poor_until is not None)
        if poor:
            self.suspect(poor, now)
        elif self.poor_until is not None and now >= self.poor_until:
            self.poor_until, self.poor_reason = None, ""

    def accept_heartbeat(self, beat: Heartbeat, clock: int, now: float) -> None:
        """Raises `ProtocolError` for missing packets, and for an echo of what was never sent."""
        if beat.number > self.received:
            raise ProtocolError(
                f"the peer has sent {beat.number} packets, and {self.received} have come: "
                "some are missing"
            )
        if beat.echo > self.sent:
            raise ProtocolError(f"HEARTBEAT echoes packet {beat.echo}, and {self.sent} were sent")
        self.measurements.record_heartbeat(beat, clock, now)
        self.echo, self.echo_at, self.echo_clock = beat.number, now, clock
        self.peer_reason = beat.reason

    def hold(self, packets: Sequence[bytes]) -> None:
        """Keep packets until the peer is connected.

        Raises `ProtocolError` beyond `MOST_HELD_BYTES`.
        """
        self._held_bytes += sum(map(len, packets)) + _PACKET_COST * len(packets)
        if self._held_bytes > MOST_HELD_BYTES:
            raise ProtocolError("the peer sends too much before it is connected")
        self._held += packets

    def take_held(self) -> list[bytes]:
        held, self._held = self._held, []
        self._held_bytes = 0
        return held

    def next_timeout(self) -> float:
        if not self.is_shaken:
            return min(self.since + self.settings.reconnect, self.beat_at)
        due = self.beat_at
        if self.silent_since is None:
            due = min(due, self.silent_at())
        else:
            due = min(due, self.silent_since + self.settings.silence)
        for each in (self.poor_until, self.offer_at):
            if each is not None and each < due:
                due = each
        return due if self.unanswered is None else min(due, self.answer_at)
