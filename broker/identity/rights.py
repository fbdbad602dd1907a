"""What an account may publish to and subscribe to, by stream pattern (Q8)."""

from __future__ import annotations

import attrs

from broker.event.stream import StreamPattern


@attrs.frozen
class Rights:
    """The streams and event types that are open to an account. No pattern, no right."""

    publish: tuple[StreamPattern, ...] = ()
    subscribe: tuple[StreamPattern, ...] = ()
    types: tuple[str, ...] = ()
    """Prefixes of the names of event types that it may register."""

    @classmethod
    def to_everything(cls) -> Rights:
        """The right to every stream and type."""
        every = (StreamPattern.parse(">"),)
        return cls(publish=every, subscribe=every, types=("",))

    def may_register(self, type_name: str) -> bool:
        """Whether a DTD may be registered under the name of an event type."""
        return any(type_name.startswith(prefix) for prefix in self.types)

    def may_publish(self, stream: str) -> bool:
        """Whether an event may be published to the (valid) stream name."""
        return any(pattern.matches(stream) for pattern in self.publish)

    def may_subscribe(self, pattern: StreamPattern) -> bool:
        """Whether all that `pattern` matches is open: one allowed pattern must cover it alone.

        Two allowed patterns that cover it only together do not count: what a client may ask for
        should be readable from one line of the configuration.
        """
        return any(allowed.covers(pattern) for allowed in self.subscribe)
