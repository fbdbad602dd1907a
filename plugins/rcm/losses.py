"""Messages that the links between sites have lost, and their recovery from logs.

A link loses messages for which its buffers have no room, and those of an end that is made anew. Two
sites tell each other, before they are connected, up to which message that may be so. Each counts
the other one as connected when its node has all events up to there, or knows that no log has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import attrs

from broker.event.flow import make_flow
from broker.event.place import Mark
from plugins.rcm.handshake import Loss

#: Bits of the number of a link's end for the ends of one process.
_LINK_BITS = 24
#: Seconds without progress after which a site is connected although events are missing: they come
#: later, and others of that site behind them.
RECOVERY_PATIENCE = 60.0
#: Seconds after which it is in any case.
MOST_RECOVERY = 600.0


class FlowProgress:
    """The places up to which the node has the flows of other sites.

    The node has given these events to the group, or has logged them.
    """

    def __init__(self, patterns: Iterable[str], coverage_of: Callable[[str], Mark]) -> None:
        self._patterns = tuple(patterns)
        self._coverage_of = coverage_of
        self._ordered: dict[str, Mark] = {}

    def record(self, flow: str, upto: Mark) -> None:
        """Record that the group has got all events of a flow up to a place."""
        self._ordered[flow] = upto

    def lowest(self, origin: str) -> Mark:
        """Return the place up to which the node has all flows of a site."""
        flows = [make_flow(origin, pattern) for pattern in self._patterns]
        places = [max(self._coverage_of(each), self._ordered.get(each, (0, 0))) for each in flows]
        # Without patterns there are no events to wait for.
        return min(places, default=_END)


_END: Final[Mark] = (1 << 63, 0)


@attrs.define
class _Site:
    lost: Loss
    """Of own messages to the site."""
    peer: Loss | None = None
    """Of messages of the site, as told last."""
    since: float | None = None
    """Begin of the recovery; None: nothing is being recovered."""
    changed_at: float = 0.0
    """Time of its last progress."""
    reached: Mark = (0, 0)
    given_up: Mark = (0, 0)
    """Events up to here are not waited for any more."""


class Losses:
    """The losses between a site and each other one."""

    def __init__(self, incarnation: int, progress: FlowProgress) -> None:
        self._incarnation = incarnation
        self._links = 0
        self._released = Loss(0)
        self._progress = progress
        self._sites: defaultdict[str, _Site] = defaultdict(lambda: _Site(Loss(0)))
        """Also sites that have left: the list of sites bounds them."""

    # ----------------------------------------------------------------- of own messages

    def record_released(self, incarnation: int, number: int, mark: Mark | None) -> None:
        """Record an own message, also of an earlier process: the last one counts.

        `mark` is the place of its event; None for one that is no event.
        """
        last = self._released
        if (incarnation, number) > (last.incarnation, last.number):
            self._released = Loss(0, incarnation, number, mark or last.mark)

    @property
    def released(self) -> int:
        """Number of the last own message of this process; 0 before the first one."""
        last = self._released
        return last.number if last.incarnation == self._incarnation else 0

    def begin_link(self, site: str) -> None:
        """Record that the own end of a link is new."""
        self._links += 1
        link = (self._incarnation << _LINK_BITS) + self._links
        found = self._sites[site]
        found.lost = Loss(link, found.lost.incarnation, found.lost.number, found.lost.mark)
        self.record_loss(site)

    def record_loss(self, site: str, *, keeps_earlier: bool = False) -> None:
        """Record that own messages up to now may not reach a site over its link.

        With `keeps_earlier` some of them still do, and the site waits for the next one to find
        what is missing.
        """
        released, found = self._released, self._sites[site]
        number = 0 if keeps_earlier else released.number
        found.lost = Loss(found.lost.link, released.incarnation, number, released.mark)

    def loss_to(self, site: str) -> Loss:
        return self._sites[site].lost

    # ----------------------------------------------------------------- of another site's messages

    def accept(self, site: str, loss: Loss) -> None:
        """Record the losses that a site tells."""
        found = self._sites[site]
        if found.peer is not None and found.peer.link != loss.link:
            # The other end has none of the messages that wait for the site.
            self.record_loss(site)
        found.peer = loss

    def is_recovering(self, site: str, origin: str, now: float) -> bool:
        """Return whether lost events of a site are still expected."""
        found = self._sites[site]
        if found.peer is None:
            return False
        wanted, reached = found.peer.mark, self._progress.lowest(origin)
        if reached >= wanted or wanted <= found.given_up:
            found.since = None
            return False
        if found.since is None:
            found.since = found.changed_at = now
        if reached > found.reached:
            found.reached, found.changed_at = reached, now
        if now < min(found.changed_at + RECOVERY_PATIENCE, found.since + MOST_RECOVERY):
            return True
        found.since, found.given_up = None, wanted
        return False

    def pause(self, site: str) -> None:
        """Record that the connection to a site is over: time does not count until the next one."""
        self._sites[site].since = None

    def recovered_loss(self, site: str, origin: str) -> Loss | None:
        """Return the losses of a site's messages if the node has all their events that any has."""
        loss = self._sites[site].peer
        if loss is None or self._progress.lowest(origin) < loss.mark:
            return None
        return loss
