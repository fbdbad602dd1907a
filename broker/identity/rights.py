"""What an account may publish to and subscribe to, by stream pattern (Q8)."""

from __future__ import annotations

import attrs

from broker.event.stream import StreamPattern


@attrs.frozen
class Rights:
    """The streams that are open to an account. No pattern, no right."""

    publish: tuple[StreamPattern, ...] = ()
    subscribe: tuple[StreamPattern, ...] = ()

    @classmethod
    def to_everything(cls) -> Rights:
        """The right to every stream."""
        every = (StreamPattern.parse(">"),)
        return cls(publish=every, subscribe=every)

    def may_publish(self, stream: str) -> bool:
        """Whether an event may be published to the (valid) stream name."""
        return any(pattern.matches(stream) for pattern in self.publish)

    def may_subscribe(self, pattern: StreamPattern) -> bool:
        """Whether all that `pattern` matches is open: one allowed pattern must cover it alone.

        Two allowed patterns that cover it only together do not count: what a client may ask for
        should be readable from one line of the configuration.
        """
        return any(allowed.covers(pattern) for allowed in self.subscribe)
