"""Settings of an order. All sites of a group have the same."""

from __future__ import annotations

import attrs

from broker.errors import ConfigurationError


@attrs.frozen(kw_only=True)
class OrderSettings:
    """Times are seconds. Raises `ConfigurationError` for a value that is not above 0."""

    #: A site that has nothing to send answers a message with its clock after this time (K20).
    clock_delay: float = 0.05
    #: Logical: a site is suspected if a message waits longer for its clock. It is more than the
    #: time in which the connection monitor finds a silent site, and at most a round trip more.
    clock_patience: float = 6.5
    #: Real-time and hybrid: a message is delivered when its stamp is this old (L4).
    delta: float = 0.25
    #: Real-time and hybrid: a stamp further ahead of the site clock is an error.
    clock_bound: float = 10.0
    #: Sequencer: a takeover waits this long for answers (L3).
    patience: float = 0.5
    #: Sequencer: a number waits this long for its message, and a message for its number.
    entry_patience: float = 5.0
    #: Sequencer: a message without a number is requested after this time, and again.
    request_after: float = 0.5
    #: Bytes of messages that wait, with `packet.MESSAGE_COST` for each. Beyond it, sites for which
    #: the messages wait are suspected. If nothing waits for a site, further messages are errors of
    #: their senders.
    queue: int = 64 * 1024 * 1024
    #: Ids and stamps of delivered messages, to find the neighbours of a late one.
    history: int = 5_000

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            if value <= 0:
                raise ConfigurationError(f"order {name}: must be more than 0")
