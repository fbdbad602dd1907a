"""Rights of an account to streams, by pattern, and to event types (Q8)."""

from __future__ import annotations

import attrs

from broker.event.stream import StreamPattern


@attrs.frozen
class Rights:
    """Streams and event types that an account may use; none without a pattern (Q8)."""

    publish: tuple[StreamPattern, ...] = ()
    subscribe: tuple[StreamPattern, ...] = ()
    types: tuple[str, ...] = ()
    """Prefixes of event type names whose DTDs it may register."""

    @classmethod
    def to_everything(cls) -> Rights:
        every = (StreamPattern.parse(">"),)
        return cls(publish=every, subscribe=every, types=("",))

    def may_register(self, type_name: str) -> bool:
        return any(type_name.startswith(prefix) for prefix in self.types)

    def may_publish(self, stream: str) -> bool:
        return any(pattern.matches(stream) for pattern in self.publish)

    def may_subscribe(self, pattern: StreamPattern) -> bool:
        """One allowed pattern must cover `pattern`: one line of the configuration should show the
        right."""
        return any(allowed.covers(pattern) for allowed in self.subscribe)
