"""What a node says in its log of links that do not come about: whom it wanted, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twisted.logger import Logger

from broker.cluster.descriptor import Endpoint
from broker.errors import BrokerError, PeerError
from broker.rate_limited_log import Troubles
from broker.transport.clock import IClock

#: Places named in one line; those behind are counted.
_MOST_PLACES: Final = 4
_JOINING: Final = "joining"


class LinkLog:
    """Of one node. Each is told when it comes first, then ever less often."""

    log = Logger()

    def __init__(self, clock: IClock) -> None:
        self._own = Troubles(lambda text: self.log.warn("{text}", text=text), clock.seconds)
        # Apart: strangers without number must not take the place of what the node itself wants.
        self._others = Troubles(lambda text: self.log.info("{text}", text=text), clock.seconds)

    def log_failed_round(
        self, asked: Sequence[tuple[Endpoint, BrokerError]], error: BrokerError
    ) -> None:
        """A round of asking is over, and nobody has taken the node."""
        lines = [f"{place.host}:{place.port}: {why}" for place, why in asked[:_MOST_PLACES]]
        if len(asked) > _MOST_PLACES:
            lines.append(f"and {len(asked) - _MOST_PLACES} others")
        text = "; ".join(lines) or str(error)
        self._own.came(_JOINING, "", f"in no cluster yet, asking on: {text}")

    def reset_joining(self) -> None:
        """The node is a member."""
        self._own.over(_JOINING)

    def log_failed_link(self, key: str, target: str, error: BrokerError) -> None:
        """Somebody whom the node wants a link to could not be reached, or does not want one.

        `key` is what `linked` is told, `whom` what a person reads.
        """
        self._own.came((key,), error.code, f"no link to {target}, trying on: {error}")

    def reset_link(self, key: str) -> None:
        """There is a link."""
        self._own.over((key,))

    def log_failed_handshake(self, peer: str, error: BrokerError, by_peer: bool) -> None:
        """Somebody connected, and no link came of it. `peer` is address and port."""
        if isinstance(error, PeerError) or by_peer:
            host = peer.rpartition(":")[0]
            self._others.came(host, error.code, f"no link with {peer}: {error}")
