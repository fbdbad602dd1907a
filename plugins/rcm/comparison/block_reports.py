"""Exchange of progress and digests of blocks between the sites of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from plugins.rcm.comparison.block_sequence import LEAF, Digest, Progress
from plugins.rcm.comparison.outbox import Outbox
from plugins.rcm.comparison.packet import (
    MOST_DIGESTS,
    Page,
    PageRequest,
    Report,
    read_report,
)
from plugins.rcm.comparison.peer import Peer
from plugins.rcm.comparison.peer_blocks import MOST_PAGE, PeerBlocks
from plugins.rcm.comparison.variant_record import VariantRecord

#: Seconds between a delivery and the report of it, and between two reports.
REPORT_INTERVAL: Final = 1.0
#: Seconds between a report of another site and the own one that follows from it.
REACTION: Final = 0.25
#: Digests of a variant that wait for a report; the oldest are dropped first.
MOST_UNSENT: Final = 256


class BlockReports:
    def __init__(
        self,
        incarnation: int,
        records: Mapping[str, VariantRecord],
        peers: Mapping[str, Peer],
        out: Outbox,
    ) -> None:
        self._incarnation = incarnation
        self._records = records
        self._peers = peers
        self._out = out
        self._unsent: dict[str, list[Digest]] = {variant: [] for variant in records}
        self._told: dict[str, Progress] = {}
        self._report_at: float | None = None

    def plan(self, time: float) -> None:
        """Report at a time, or before."""
        if self._report_at is None or time < self._report_at:
            self._report_at = time

    def next_timeout(self) -> float | None:
        return self._report_at

    def handle_timeout(self, released: Callable[[str], int], now: float) -> None:
        """Send what has changed since the last report. `released` returns the number of the last
        own message of a variant."""
        if self._report_at is None or now < self._report_at:
            return
        self._report_at = None
        variants = []
        for variant, record in self._records.items():
            self._publish(variant, record, now)
            progress = record.blocks.own_progress(self._incarnation, released(variant))
            unsent = self._unsent[variant]
            if progress is None or (progress == self._told.get(variant) and not unsent):
                continue
            digests, self._unsent[variant] = unsent[:MOST_DIGESTS], unsent[MOST_DIGESTS:]
            self._told[variant] = progress
            variants.append((variant, progress[:3], tuple(digests)))
            if self._unsent[variant]:
                self.plan(now + REPORT_INTERVAL)
        sites = [each.site for each in self._peers.values() if each.takes_part and each.is_linked]
        if variants and sites:
            report = Report(self._incarnation, tuple(variants))
            self._out.add(report, sites)

    def accept_report(self, site: str, report: Report, now: float) -> None:
        for variant, progress, digests in read_report(report):
            record = self._records.get(variant)
            if record is None:
                continue
            record.blocks.record_progress(site, progress)
            peer = record.peers[site]
            for each in digests:
                if peer.add_other(each):
                    self._request(variant, peer)
            if record.blocks.has_unpublished:
                self.plan(now + REACTION)

    def accept_request(self, site: str, request: PageRequest) -> None:
        record = self._records.get(request.variant)
        block = None if record is None else record.blocks.published.get(request.block)
        leaves = b"" if block is None else block.leaves[request.first * LEAF.size :]
        page = bytes(leaves[: MOST_PAGE * LEAF.size])
        self._out.add(Page(request.variant, request.block, request.first, page), [site])

    def accept_page(self, site: str, page: Page) -> None:
        record = self._records.get(page.variant)
        if record is not None and record.peers[site].add_page(page.block, page.first, page.leaves):
            self._request(page.variant, record.peers[site])

    def _publish(self, variant: str, record: VariantRecord, now: float) -> None:
        for digest in record.blocks.publish(now):
            self._unsent[variant].append(digest)
            for peer in record.peers.values():
                if peer.add_own(digest):
                    self._request(variant, peer)
        del self._unsent[variant][:-MOST_UNSENT]
        quiet = record.blocks.next_quiet
        if quiet is not None and quiet > now:
            self.plan(quiet)

    def _request(self, variant: str, peer: PeerBlocks) -> None:
        if peer.inquiry is not None:
            self._out.add(PageRequest(variant, peer.inquiry, peer.next_index), [peer.site])
