"""Comparison of variants of the order at one site, beside the one that delivers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from broker.errors import BrokerError, ProtocolError
from broker.transport.layer import ClockOffset
from broker.transport.order import Instant, MessageId, Stamp
from broker.transport.site_clock import MICROSECONDS
from plugins.rcm.certificates.token_bucket import PAGE_COST
from plugins.rcm.comparison.block_reports import REPORT_INTERVAL, BlockReports
from plugins.rcm.comparison.outbox import Outbox
from plugins.rcm.comparison.packet import (
    MARK,
    Answer,
    Batch,
    Offer,
    Page,
    PageRequest,
    Released,
    Report,
    Suspicion,
    decode_packet,
    read_sent,
)
from plugins.rcm.comparison.peer import Peer
from plugins.rcm.comparison.release_times import Release, ReleaseTimes
from plugins.rcm.comparison.shadow import Shadow
from plugins.rcm.comparison.shadow_group import ShadowGroup
from plugins.rcm.comparison.variant_record import Delivery, VariantRecord
from plugins.rcm.delivered_run import DeliveredRun
from plugins.rcm.effects import DeliverMessage, GroupEffect
from plugins.rcm.observer import GroupObserver

#: Characters of an error.
_LONGEST: Final = 200


class SiteComparison(GroupObserver):
    """Compared variants get the messages that the order has released, without their payloads.

    They have packets of their own, and no effect on the order or its links.
    """

    mark = MARK

    def __init__(
        self,
        stack: str,
        incarnation: int,
        sites: tuple[str, ...],
        shadows: Sequence[Shadow],
        records: Mapping[str, VariantRecord],
        messages: Mapping[str, ReleaseTimes],
        releases: Mapping[str, ReleaseTimes],
        read_clock: Callable[[float], int],
        clock_of: Callable[[str], ClockOffset | None],
    ) -> None:
        """The first record is of the delivering variant, which has `messages`; the others have
        `releases` as their messages. Both are of all sites, this one is the first.

        `clock_of` returns the difference of a site's clock.
        """
        self._stack = stack
        self._site, *others = messages
        self._incarnation = incarnation
        self._sites = sites
        self._delivering, *_ = records.values()
        self._records = records
        self._messages = messages
        self._releases = releases
        self._read_clock = read_clock
        self._clock_of = clock_of
        self._connected: frozenset[str] = frozenset()
        """By the links."""
        self._rejected = 0
        self._peers = {site: Peer(site) for site in others}
        self._out = Outbox(incarnation, self._peers)
        self._shadows = ShadowGroup(
            *(incarnation, sites, shadows, records, self._peers, self._out, self._fail)
        )
        self._reports = BlockReports(incarnation, records, self._peers, self._out)
        self._changes = 0
        """Of all records, as of the last plan of a report."""

    # ----------------------------------------------------------------- the order

    def restore(self, runs: Sequence[DeliveredRun], now: float) -> list[GroupEffect]:
        for each in _deliveries_of(runs):
            self._delivering.restore(each.id, each.stamp, is_late=each.is_late)
        return []

    def send(self, data: Sequence[bytes], sites: Sequence[str], now: float) -> list[GroupEffect]:
        at = self._instant(now)
        for each in data:
            sent = read_sent(each)
            self._delivering.extra_bytes += sent.extra * len(sites)
            if not sent.count or sent.first <= self._shadows.released.messages:
                # Messages for some sites only are sent in several packets.
                continue
            number, clock = self._shadows.released.releases + 1, at.site_clock
            self._record_release(
                *(self._site, self._incarnation, number, sent.first, sent.count, clock)
            )
            self._shadows.released = Released(sent.first + sent.count - 1, number)
            self._shadows.release(sent.count, at)
            self._out.add_release(number, sent.first, sent.count, clock)
        return self._take(now)

    def deliver(self, flow: str, runs: Sequence[DeliveredRun], now: float) -> list[GroupEffect]:
        self._delivering.deliver(_deliveries_of(runs), self._read_clock(now), now)
        return self._take(now)

    def deliver_message(self, message: DeliverMessage, now: float) -> list[GroupEffect]:
        is_late = message.late is not None
        delivery = Delivery(message.id, message.stamp, is_late, message.is_recovered)
        self._delivering.deliver([delivery], self._read_clock(now), now)
        return self._take(now)

    def take_back(self, taken: Sequence[tuple[MessageId, Stamp]], now: float) -> list[GroupEffect]:
        for id, _ in taken:
            self._delivering.take_back(id, now)
        return []

    def move(
        self, id: MessageId, before: Stamp | None, stamp: Stamp, now: float
    ) -> list[GroupEffect]:
        self._delivering.move(now)
        return []

    # ----------------------------------------------------------------- links

    def connect(self, site: str, now: float) -> list[GroupEffect]:
        if site not in self._peers:
            # It has joined since the start.
            return []
        self._connected |= {site}
        self._delivering.change_view(self._connected, now)
        self._shadows.connect(site, self._instant(now))
        return self._take(now)

    def disconnect(self, site: str, now: float) -> list[GroupEffect]:
        if site not in self._peers:
            return []
        self._connected -= {site}
        self._delivering.change_view(self._connected, now)
        self._shadows.disconnect(site, self._instant(now))
        return self._take(now)

    def receive(self, site: str, packets: Sequence[bytes], now: float) -> list[GroupEffect]:
        peer = self._peers.get(site)
        if peer is None:
            return []
        at = self._instant(now)
        try:
            for each in packets:
                self._receive_packet(peer, each, at)
        except ProtocolError as error:
            self._fail(site, error, at)
        return self._take(now)

    def _receive_packet(self, peer: Peer, data: bytes, at: Instant) -> None:
        """Raises `ProtocolError`."""
        packet, site = decode_packet(data), peer.site
        if isinstance(packet, Offer):
            if not peer.bucket.take(1.0, at.now):
                peer.dropped += 1
            elif peer.accept_offer(packet, self._sites, frozenset(self._records)):
                self._skip(site, packet.incarnation, packet.released)
                self._shadows.accept_offer(site, packet, at)
            return
        if not peer.takes_part:
            return
        match packet:
            case Batch():
                self._receive_batch(site, packet, at)
            case Report():
                self._reports.accept_report(site, packet, at.now)
            case Answer():
                self._skip(site, peer.incarnation, packet.released)
                self._shadows.accept_answer(site, packet, at)
            case Page():
                self._reports.accept_page(site, packet)
            case PageRequest() | Suspicion():
                if not peer.bucket.take(PAGE_COST, at.now):
                    peer.dropped += 1
                elif isinstance(packet, PageRequest):
                    self._reports.accept_request(site, packet)
                else:
                    self._shadows.accept_suspicion(site, packet, at)

    def _receive_batch(self, site: str, batch: Batch, at: Instant) -> None:
        if batch.count:
            offset, clock = self._clock_of(site), None
            if offset is not None:
                clock = batch.clock - round(offset.offset * MICROSECONDS)
            self._record_release(
                *(site, batch.incarnation, batch.release, batch.first, batch.count, clock)
            )
            self._delivering.measure_early(site)
        self._shadows.receive(site, batch.parts, at)

    def _record_release(
        self, site: str, incarnation: int, number: int, first: int, count: int, clock: int | None
    ) -> None:
        messages = Release(first, first + count, clock, 1)
        self._messages[site].record(incarnation, messages)
        self._releases[site].record(incarnation, Release(number, number + 1, clock, count))

    def _skip(self, site: str, incarnation: int, released: Released) -> None:
        """Do not expect earlier messages of a site."""
        for record in self._records.values():
            number = self._number_of(record.variant, released)
            record.blocks.record_released(site, incarnation, number)

    def _number_of(self, variant: str, released: Released) -> int:
        """Return the number of a variant's last message."""
        return released.messages if variant == self._delivering.variant else released.releases

    def _fail(self, site: str, error: BrokerError, at: Instant) -> None:
        """End the part of a site until it restarts."""
        self._rejected += 1
        peer = self._peers[site]
        peer.error = peer.error or error.text[:_LONGEST]
        self._shadows.end(site, at)

    # ----------------------------------------------------------------- time

    def handle_timeout(self, now: float) -> list[GroupEffect]:
        self._shadows.handle_timeout(self._instant(now))
        released = self._shadows.released
        self._reports.handle_timeout(lambda variant: self._number_of(variant, released), now)
        return self._take(now)

    def next_timeout(self) -> float | None:
        times = (self._shadows.next_timeout(), self._reports.next_timeout())
        return min((time for time in times if time is not None), default=None)

    def _take(self, now: float) -> list[GroupEffect]:
        changes = sum(each.changes for each in self._records.values())
        if changes != self._changes:
            self._changes = changes
            self._reports.plan(now + REPORT_INTERVAL)
        return list(self._out.take())

    # ----------------------------------------------------------------- state

    def snapshot(self) -> dict[str, object]:
        clocks = [clock for site in self._peers if (clock := self._clock_of(site)) is not None]
        found = {
            "rejected": self._rejected,
            "clock_uncertainty": max((clock.uncertainty for clock in clocks), default=None),
            "variants": list(map(self._describe_variant, self._records.values())),
        }
        return {"comparison": found}

    def _describe_variant(self, record: VariantRecord) -> dict[str, object]:
        if record is self._delivering:
            return {"delivers": True, **record.snapshot()}
        return {"delivers": False, **record.snapshot(), "suspicions": record.suspicions}

    def describe_site(self, site: str, now: float) -> dict[str, object]:
        peer = self._peers.get(site)
        if peer is None:
            return {}
        return {
            "compares": sorted(peer.variants),
            "comparison_error": peer.error,
            "comparison_dropped": peer.dropped,
        }

    # ----------------------------------------------------------------- within

    def _instant(self, now: float) -> Instant:
        return Instant(now, self._read_clock(now))


def _deliveries_of(runs: Iterable[DeliveredRun]) -> Iterator[Delivery]:
    for run in runs:
        id, stamp = run.id, run.stamp
        for index in range(len(run.events)):
            place = None if stamp is None else stamp.after(index)
            yield Delivery(id.after(index), place, run.is_late, run.is_recovered)
