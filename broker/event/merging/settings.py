"""Settings of a subscriber's merge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from broker.errors import ConfigurationError
from broker.event.merging.vocabulary import Rule, parse_rule

_MIB: Final = 1024 * 1024


@attrs.frozen
class Merging:
    """Merge by the events' own linkage, or by one `rule` for all.

    An event is held for `wait` seconds plus the length of its constraint, and at most for `longest`
    (X15).
    """

    rule: Rule | None = None
    wait: float = 1.0
    """Seconds that an event waits for earlier ones. Longer than the delays of all paths; a silent
    stream makes each event of its merge wait so long."""
    idle: float = 30.0
    """After so many seconds of silence the merge ignores a publisher, or a stream of the order,
    until its next event."""
    delay: float = 0.5
    """Longest time in seconds from an event's TimeStamp to its commit, clock differences included.
    An origin whose stream time lies this far behind a TimeStamp has passed it."""
    longest: float = 60.0
    max_events: int = 10_000
    """Held at most; when full, the oldest are released first."""
    max_bytes: int = 16 * _MIB

    def __attrs_post_init__(self) -> None:
        for name in ("wait", "idle", "delay", "longest"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigurationError(f"merge: {name} must be a number of seconds from 0")
        if self.max_events < 1 or self.max_bytes < 1:
            raise ConfigurationError("merge: max_events and max_bytes must be at least 1")

    @classmethod
    def by(
        cls, text: str, order: Iterable[str] = (), *, wait: float = 1.0, idle: float = 30.0
    ) -> Merging:
        """Return settings for `linked` (the events' own linkage) or one rule.

        Rules are `time`, `time within 250ms`, `window 2s` and `bundle`. `order` has streams, or
        `bundle:ID`. Raises `ConfigurationError`.
        """
        if text.strip().lower() != "linked":
            return cls(parse_rule(text, order), wait=wait, idle=idle)
        if list(order):
            raise ConfigurationError(
                "merge: with 'linked' the events give the order; leave out 'order'"
            )
        return cls(wait=wait, idle=idle)

    def hold_limit(self, rule: Rule) -> float:
        """Return the most seconds for which an event of this rule is held."""
        if rule.scheme.value == "bundle":
            # The constraint bounds a bundle's events: waiting longer is useless.
            asked = rule.constraint.seconds
            return min(self.wait, asked or self.wait, self.longest)
        return min(self.wait + rule.constraint.seconds, self.longest)
