"""Reports of the sites of a group about what each has logged and delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from broker.errors import ProtocolError
from broker.event.place import Mark
from broker.event.site_coverage import CoverageTable, CoveredMessages
from broker.event.site_notice import SiteCoverage
from broker.transport.order import MessageId, Stamp
from broker.wire.site_notice import covered_to_rows, rows_to_covered
from plugins.rcm.certificates.token_bucket import PAGE_COST, TokenBucket
from plugins.rcm.coverage.deliveries import Deliveries
from plugins.rcm.coverage.packet import MARK, Report, decode_packet, encode_packet
from plugins.rcm.delivered_run import DeliveredRun
from plugins.rcm.effects import DeliverMessage, EndLink, GroupEffect, PassNotice, SendPacket
from plugins.rcm.observer import GroupObserver

#: Seconds between two reports, and two looks into the log.
INTERVAL: Final = 1.0
#: Seconds from a delivery to its report: its commit takes part of them.
SETTLING: Final = 0.25


class _Peer:
    """Another site. The table bounds what it has told."""

    def __init__(self) -> None:
        self.incarnation = -1
        self.table = CoverageTable()
        """As told by its present process."""
        self.dropped = 0
        """Rows beyond the bounds of the table."""
        self.bucket = TokenBucket()

    def accept(self, report: Report) -> list[CoveredMessages]:
        """Return the rows that are new. Raises `ProtocolError`."""
        if report.incarnation < self.incarnation:
            raise ProtocolError(f"a report of the earlier incarnation {report.incarnation}")
        if report.incarnation > self.incarnation:
            self.incarnation, self.table = report.incarnation, CoverageTable()
        found: list[CoveredMessages] = []
        for row in rows_to_covered(report.covered):
            known = self.table.find(row.site, row.incarnation)
            if known is not None and row.last < known.last:
                raise ProtocolError(
                    f"delivered messages of {row.site} fall from {known.last} to {row.last}"
                )
            new = self.table.add(row)
            if new is not None:
                found.append(new)
            elif known is None:
                self.dropped += 1
        return found


class CoverageExchange(GroupObserver):
    """Sends at most one report a second to each connected site, and none without news.

    A report has the rows that have changed; the first one after a connection has all. A lost report
    is made good by the next one that has the row, or after the next connection.
    """

    mark = MARK

    def __init__(
        self,
        stack: str,
        site: str,
        incarnation: int,
        coverage_of: Callable[[str], Mark],
        count_released: Callable[[], int],
    ) -> None:
        """`coverage_of` returns the place up to which the log has a flow, `count_released` the
        number of the last own message of this process."""
        self._stack = stack
        self._site = site
        self._incarnation = incarnation
        self._count_released = count_released
        self._deliveries = Deliveries(coverage_of)
        self._told: frozenset[CoveredMessages] = frozenset()
        """Rows of the last report."""
        self._connected: set[str] = set()
        self._new: set[str] = set()
        """Connected sites that have got no report yet."""
        self._peers: dict[str, _Peer] = {}
        self._report_at: float | None = None
        self._reported_at = -INTERVAL
        self._rejected = 0

    # ----------------------------------------------------------------- the order

    def restore(self, runs: Sequence[DeliveredRun], now: float) -> list[GroupEffect]:
        """Take up what earlier processes delivered, and name this site to subscriptions."""
        self._deliveries.restore(runs)
        return [PassNotice(SiteCoverage(self._stack, self._site, ()))]

    def deliver(self, flow: str, runs: Sequence[DeliveredRun], now: float) -> list[GroupEffect]:
        self._deliveries.add_events(flow, runs)
        return self._plan(now)

    def deliver_message(self, message: DeliverMessage, now: float) -> list[GroupEffect]:
        self._deliveries.add_message(message.id)
        return self._plan(now)

    def take_back(self, taken: Sequence[tuple[MessageId, Stamp]], now: float) -> list[GroupEffect]:
        self._deliveries.take_back(id for id, _ in taken)
        return []

    def miss(
        self, site: str, incarnation: int, first: int, last: int, now: float
    ) -> list[GroupEffect]:
        self._deliveries.add_missing(site, incarnation, first, last)
        return self._plan(now)

    # ----------------------------------------------------------------- other sites

    def connect(self, site: str, now: float) -> list[GroupEffect]:
        self._connected.add(site)
        self._new.add(site)
        return self._plan(now)

    def disconnect(self, site: str, now: float) -> list[GroupEffect]:
        self._connected.discard(site)
        self._new.discard(site)
        return []

    def receive(self, site: str, packets: Sequence[bytes], now: float) -> list[GroupEffect]:
        peer = self._peers.setdefault(site, _Peer())
        found: dict[tuple[str, int], CoveredMessages] = {}
        try:
            for packet in packets:
                if not peer.bucket.take(PAGE_COST, now):
                    raise ProtocolError("a flood of reports about delivered messages")
                report = decode_packet(packet)
                self._check_own(report)
                found |= {(row.site, row.incarnation): row for row in peer.accept(report)}
        except ProtocolError as error:
            self._rejected += 1
            return [EndLink(site, error)]
        rows = tuple(found.values())
        return [PassNotice(SiteCoverage(self._stack, site, rows))] if rows else []

    def _check_own(self, report: Report) -> None:
        """Raises `ProtocolError` for own messages that were not sent."""
        released = self._incarnation, self._count_released()
        for site, incarnation, _, last, _ in report.covered:
            # Not all messages of earlier processes are known.
            is_known = site == self._site and incarnation >= self._incarnation
            if is_known and (incarnation, last) > released:
                raise ProtocolError(f"message {incarnation}/{last} of this site was not sent")

    # ----------------------------------------------------------------- time

    def _plan(self, now: float) -> list[GroupEffect]:
        if self._report_at is None:
            self._report_at = max(now + SETTLING, self._reported_at + INTERVAL)
        return []

    def handle_timeout(self, now: float) -> list[GroupEffect]:
        if self._report_at is None or now < self._report_at:
            return []
        self._deliveries.settle()
        rows = self._deliveries.table.rows
        changed = [row for row in rows if row not in self._told]
        effects: list[GroupEffect] = []
        for each, sites in ((rows, self._new), (changed, self._connected - self._new)):
            if each and sites:
                report = Report(self._incarnation, covered_to_rows(each))
                effects.append(SendPacket(encode_packet(report), sorted(sites)))
        self._told = frozenset(rows)
        self._new = set()
        self._reported_at = now
        self._report_at = now + INTERVAL if self._deliveries.has_waiting else None
        return effects

    def next_timeout(self) -> float | None:
        return self._report_at

    # ----------------------------------------------------------------- state

    def snapshot(self) -> Mapping[str, object]:
        return {"released": self._count_released(), "rejected_reports": self._rejected}

    def describe_site(self, site: str, now: float) -> Mapping[str, object]:
        """Return how many own messages of this process a site has."""
        peer = self._peers.get(site, _Peer())
        row = peer.table.find(self._site, self._incarnation)
        delivered = 0
        if row is not None:
            delivered = row.last - sum(last + 1 - first for first, last in row.missing)
        return {"delivered": delivered, "dropped_rows": peer.dropped}
