"""Rights of an account to streams, by pattern, and to event types (Q8)."""

from __future__ import annotations

import attrs

from broker.event.stream import StreamPattern


@attrs.frozen
class Rights:
    """Streams and event types that an account may use; none without a pattern (Q8).

    A denied stream is not open, whatever another pattern allows.
    """

    publish: tuple[StreamPattern, ...] = ()
    subscribe: tuple[StreamPattern, ...] = ()
    types: tuple[str, ...] = ()
    """Prefixes of event type names whose DTDs it may register."""
    deny_publish: tuple[StreamPattern, ...] = ()
    deny_subscribe: tuple[StreamPattern, ...] = ()

    @classmethod
    def to_everything(cls) -> Rights:
        every = (StreamPattern.parse(">"),)
        return cls(publish=every, subscribe=every, types=("",))

    def may_register(self, type_name: str) -> bool:
        return any(type_name.startswith(prefix) for prefix in self.types)

    def may_publish(self, stream: str) -> bool:
        return any(pattern.matches(stream) for pattern in self.publish) and not any(
            denied.matches(stream) for denied in self.deny_publish
        )

    def may_subscribe(self, pattern: StreamPattern) -> bool:
        """One allowed pattern must cover `pattern`: one line of the configuration should show the
        right. No denied pattern may overlap it: so no path of delivery has to filter streams."""
        return any(
            allowed.covers(pattern) for allowed in self.subscribe
        ) and not self.denied_streams(pattern)

    def denied_streams(self, pattern: StreamPattern) -> list[str]:
        """Return the denied patterns that `pattern` overlaps."""
        return [denied.text for denied in self.deny_subscribe if denied.overlaps(pattern)]
