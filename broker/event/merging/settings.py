"""How a subscriber wants its events merged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from broker.errors import ConfigurationError
from broker.event.merging.vocabulary import Rule, parse_rule

_MIB: Final = 1024 * 1024


@attrs.frozen
class Merging:
    """Merge as the events' own linkage says, or by one `rule` whatever they say.

    Every wait is bounded: an event is given out `wait` seconds after it came, and as much later as
    its constraint is long, but never more than `longest` seconds after it came (X15).
    """

    rule: Rule | None = None
    wait: float = 1.0
    """Seconds that an event waits for what belongs before it. The delays of all paths must fit in;
    a stream that is silent makes every event of its merge wait so long."""
    idle: float = 30.0
    """A publisher, or a stream of the order, that was silent for so many seconds is not waited
    for, until it speaks."""
    delay: float = 0.5
    """Seconds from an event's TimeStamp to its commit, at most, clock differences included. An
    origin whose stream time lies this far behind a TimeStamp has passed it."""
    longest: float = 60.0
    max_events: int = 10_000
    """Held at most; when full, the oldest go first."""
    max_bytes: int = 16 * _MIB

    def __attrs_post_init__(self) -> None:
        for name in ("wait", "idle", "delay", "longest"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigurationError(f"merge: {name} is not a number of seconds")
        if self.max_events < 1 or self.max_bytes < 1:
            raise ConfigurationError("merge: max_events and max_bytes are at least 1")

    @classmethod
    def by(
        cls, text: str, order: Iterable[str] = (), *, wait: float = 1.0, idle: float = 30.0
    ) -> Merging:
        """`linked`: as the events say. Or one rule for all: `time`, `time within 250ms`,
        `window 2s`, `bundle`; then `order` has streams, or `bundle:ID`, as BundleOrder does.

        Raises `ConfigurationError`.
        """
        if text.strip().lower() != "linked":
            return cls(parse_rule(text, order), wait=wait, idle=idle)
        if list(order):
            raise ConfigurationError("merge: with 'linked' the events say the order")
        return cls(wait=wait, idle=idle)

    def patience(self, rule: Rule) -> float:
        """Seconds that an event of this rule is held at most."""
        if rule.scheme.value == "bundle":
            # The constraint says how far apart a bundle's events may be: no use in waiting longer.
            asked = rule.constraint.seconds
            return min(self.wait, asked or self.wait, self.longest)
        return min(self.wait + rule.constraint.seconds, self.longest)
