"""Rate-limited log messages about links that fail to connect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twisted.logger import Logger

from broker.cluster.descriptor import Endpoint
from broker.errors import BrokerError, Overloaded, PeerError
from broker.rate_limited_log import RateLimitedLog
from broker.transport.clock import IClock

_MOST_PLACES: Final = 4
_JOINING: Final = "joining"


class LinkLog:
    """Rate-limited log messages about links that fail to connect."""

    log = Logger()

    def __init__(self, clock: IClock) -> None:
        self._own = RateLimitedLog(lambda text: self.log.warn("{text}", text=text), clock.seconds)
        # Two logs: any number of strangers must not displace messages about own links.
        self._others = RateLimitedLog(
            lambda text: self.log.info("{text}", text=text), clock.seconds
        )

    def log_failed_round(
        self, asked: Sequence[tuple[Endpoint, BrokerError]], error: BrokerError
    ) -> None:
        lines = [f"{place.host}:{place.port}: {why}" for place, why in asked[:_MOST_PLACES]]
        if len(asked) > _MOST_PLACES:
            lines.append(f"and {len(asked) - _MOST_PLACES} others")
        text = "; ".join(lines) or str(error)
        self._own.report(_JOINING, "", f"in no cluster yet, retrying: {text}")

    def reset_joining(self) -> None:
        self._own.clear(_JOINING)

    def log_failed_link(self, key: str, target: str, error: BrokerError) -> None:
        """`key` is that of `reset_link`."""
        self._own.report((key,), error.code, f"no link to {target}, retrying: {error}")

    def reset_link(self, key: str) -> None:
        self._own.clear((key,))

    def log_failed_handshake(self, peer: str, error: BrokerError, by_peer: bool) -> None:
        if isinstance(error, PeerError | Overloaded) or by_peer:
            host = peer.rpartition(":")[0]
            self._others.report(host, error.code, f"no link with {peer}: {error}")
