"""Lists of sites beside the order, for sites that the message of a change has not reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.errors import BrokerError, ProtocolError
from plugins.rcm.certificates.token_bucket import TokenBucket
from plugins.rcm.effects import EndLink, GroupEffect, SendData
from plugins.rcm.marked_codec import MarkedCodec
from plugins.rcm.membership import Membership
from plugins.rcm.observer import GroupObserver
from plugins.rcm.site_change import COST
from plugins.rcm.site_list import Records

MARK = b"s"
#: As long as an offer, which has the list too.
_LONGEST = 64 << 10
#: Seconds after a change until a site sends its list: all that can have delivered the message then.
SETTLING = 10.0

_codec: MarkedCodec[Records] = MarkedCodec(MARK, Records, "with a list of sites", _LONGEST)


class SiteExchange(GroupObserver):
    """Sends the list to connected sites `SETTLING` after its last change.

    A change that a site has delivered may have been lost on the link of another one, while both
    see each other as connected, so that no handshake unites their lists.
    """

    mark = MARK

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._connected: set[str] = set()
        self._buckets: dict[str, TokenBucket] = {}
        self._send_at: float | None = None

    def plan(self, now: float) -> None:
        """Handle that the list has changed."""
        self._send_at = now + SETTLING

    def connect(self, site: str, now: float) -> list[GroupEffect]:
        self._connected.add(site)
        return []

    def disconnect(self, site: str, now: float) -> list[GroupEffect]:
        self._connected.discard(site)
        return []

    def receive(self, site: str, packets: Sequence[bytes], now: float) -> list[GroupEffect]:
        try:
            for packet in packets:
                if not self._buckets.setdefault(site, TokenBucket()).take(COST, now):
                    raise ProtocolError(f"a flood of lists of sites from {site}")
                self._membership.learn(site, _codec.decode(packet))
        except BrokerError as error:
            return [EndLink(site, error)]
        return []

    def handle_timeout(self, now: float) -> list[GroupEffect]:
        if self._send_at is None or now < self._send_at:
            return []
        self._send_at = None
        data = _codec.encode(self._membership.sites.records)
        return [SendData([data], sorted(self._connected))]

    def next_timeout(self) -> float | None:
        return self._send_at

    def snapshot(self) -> Mapping[str, object]:
        return self._membership.snapshot()
