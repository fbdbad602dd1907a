"""Record of one variant of the order at a site: delays, counts, and the checker's verdict."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.transport.order import MessageId, Stamp
from broker.transport.order.delivery_check import DeliveryCheck
from broker.transport.site_clock import MICROSECONDS
from plugins.rcm.comparison.block_sequence import BlockSequence
from plugins.rcm.comparison.histogram import DelayHistogram
from plugins.rcm.comparison.peer_blocks import PeerBlocks
from plugins.rcm.comparison.release_times import ReleaseTimes
from plugins.rcm.options import TIMED

#: Deliveries of a site whose releases are not known yet; the oldest are not measured.
MOST_EARLY: Final = 1_024
#: Width of a block of numbers. One of times is a second.
NUMBER_WIDTH: Final = 32
#: Seconds after a failed commit: others may be under way, and its messages come again.
UNCHECKED: Final = 60.0
#: Seconds after a move until it has reached all connected sites.
MOVING: Final = 5.0
#: Characters of a violation.
_LONGEST: Final = 200


class Delivery(NamedTuple):
    id: MessageId
    stamp: Stamp | None
    is_late: bool
    is_recovered: bool = False
    """It came from a log, so that it has no delay."""


class VariantRecord:
    """Its memory is bounded by the number of sites, and the bounds of `BlockSequence`."""

    def __init__(
        self,
        variant: str,
        site: str,
        sites: Sequence[str],
        releases: Mapping[str, ReleaseTimes],
        reference: Callable[[float], int],
    ) -> None:
        """`sites` are all of the group. `reference` returns a time that is not below any stamp of
        earlier messages."""
        self.variant = variant
        self.extra_bytes = 0
        """Sent to other sites beside payloads."""
        self.suspicions = 0
        self.changes = 0
        """Deliveries, and changes of the connected sites."""
        self.messages = self.late = 0
        self.own, self.others = DelayHistogram(), DelayHistogram()
        self.violations = 0
        self.first_violation = ""
        self.check = DeliveryCheck()
        self._checked_from = 0.0
        numbers = {each: number for number, each in enumerate(sites)}
        width = MICROSECONDS if variant in TIMED else NUMBER_WIDTH
        self.blocks = BlockSequence(site, numbers, width)
        self.peers = {each: PeerBlocks(each, self.blocks, sites) for each in sites if each != site}
        self._site = site
        self._releases = releases
        self._reference = reference
        self._early: dict[str, deque[tuple[MessageId, int]]] = {
            each: deque(maxlen=MOST_EARLY) for each in sites
        }

    def deliver(self, deliveries: Iterable[Delivery], clock: int, now: float) -> None:
        """Record deliveries, in their order, at a time of the site clock."""
        check, blocks, releases = self.check.check, self.blocks, self._releases
        for each in deliveries:
            id, stamp, is_late, is_recovered = each
            times = releases.get(id.site)
            if times is None:
                continue
            release = times.find(id.incarnation, id.number)
            size = 1 if release is None else release.size
            self.messages += size
            self.changes += 1
            wrong = check(id, stamp, is_late=is_late)
            if wrong is not None and now >= self._checked_from:
                self._record_violation(wrong)
            if is_late:
                self.late += size
            elif stamp is not None:
                blocks.add(id, stamp, now, is_recovered=is_recovered)
                if release is None and not is_recovered:
                    self._early[id.site].append((id, clock))
                elif release is not None and release.clock is not None and not is_recovered:
                    histogram = self.own if id.site == self._site else self.others
                    histogram.add((clock - release.clock) / MICROSECONDS, size)
            blocks.pass_number(id)

    def measure_early(self, site: str) -> None:
        """Measure deliveries of messages whose release has become known."""
        times, early = self._releases[site], self._early[site]
        while early and early[0][0][1:] <= times.last:
            id, clock = early.popleft()
            release = times.find(id.incarnation, id.number)
            if release is not None and release.clock is not None:
                self.others.add((clock - release.clock) / MICROSECONDS, release.size)

    def restore(self, id: MessageId, stamp: Stamp | None, *, is_late: bool) -> None:
        """Record a delivery of an earlier process."""
        if id.site in self._releases:
            self.check.check(id, stamp, is_late=is_late)

    def take_back(self, id: MessageId, now: float) -> None:
        """Handle that a delivered message was not logged after all. It comes again."""
        self.check.take_back(id)
        self._suspend(now + UNCHECKED)

    def move(self, now: float) -> None:
        """Handle that a delivered message has another place from now on, at other sites later."""
        self.check.lower()
        self._suspend(now + MOVING)

    def _suspend(self, until: float) -> None:
        self._checked_from = max(self._checked_from, until)
        self.blocks.suspend(until)

    def change_view(self, connected: frozenset[str], now: float) -> None:
        """Handle a change of the connected sites, if it is one."""
        self.changes += self.blocks.change_view(connected, self._reference(now), now)

    def _record_violation(self, text: str) -> None:
        self.violations += 1
        self.first_violation = self.first_violation or text[:_LONGEST]

    # ----------------------------------------------------------------- the verdict

    @property
    def has_violation(self) -> bool:
        return bool(self.violations or any(each.different for each in self.peers.values()))

    def verdict(self) -> str:
        """Return the first violation, or the checks that all deliveries have passed."""
        if self.first_violation:
            return f"violated: {self.first_violation}"
        for peer in self.peers.values():
            if peer.different:
                return f"differs from {peer.site}: {peer.difference}"
        if not self.messages:
            return "nothing delivered"
        equal = [peer.site for peer in self.peers.values() if peer.equal]
        return f"in order, equal with {', '.join(equal)}" if equal else "in order at this site"

    def snapshot(self) -> dict[str, object]:
        """Return plain values, delays in seconds."""
        return {
            "variant": self.variant,
            "messages": self.messages,
            "late": self.late,
            "own_median": _rounded(self.own.quantile(0.5)),
            "own_p99": _rounded(self.own.quantile(0.99)),
            "others_median": _rounded(self.others.quantile(0.5)),
            "others_p99": _rounded(self.others.quantile(0.99)),
            "extra_bytes": self.extra_bytes,
            "violations": self.violations,
            "sites": [
                {
                    "site": each.site,
                    "equal": each.equal,
                    "different": each.different,
                    "first_difference": each.difference,
                }
                for each in self.peers.values()
            ],
            "verdict": self.verdict(),
            "kept": not self.has_violation,
        }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 5)
