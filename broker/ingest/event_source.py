"""A source of events for the log: a session that publishes, or another node's origin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, OurError
from broker.matching.contract import TypeMissing, Verdict


@attrs.define(eq=False)
class EventSource:
    """Events of one source. They keep their order: all wait for the DTD that the first one lacks.

    A source that waits for a DTD delays no other source.
    """

    on_resumed: Callable[[], None]
    """Called when the source no longer waits. The owner then matches its events in a time slice."""
    is_paused: bool = attrs.field(default=False, kw_only=True)
    """Waiting for a DTD."""
    missing_types: dict[DtdReference, BrokerError] = attrs.field(factory=dict, kw_only=True)
    """Failed look-ups of types of the waiting events."""

    def fetch_hint(self, system_id: str) -> FetchHint:
        """Return the hint for the DTD with this pointer of an event of the source."""
        raise NotImplementedError

    def pause(self) -> None:
        self.is_paused = True

    def resume(self, _: object = None) -> None:
        self.is_paused = False
        self.on_resumed()

    @property
    def skippable_types(self) -> frozenset[DtdReference]:
        """Missing types that do not stop their events; a temporary error does."""
        return frozenset(
            each for each, error in self.missing_types.items() if not isinstance(error, OurError)
        )


def find_retry_error(
    missing_types: Mapping[DtdReference, BrokerError], verdicts: Iterable[Verdict]
) -> OurError | None:
    """Return a temporary error among the look-ups for these events: they may come again later."""
    missing = (missing_types[each.reference] for each in verdicts if isinstance(each, TypeMissing))
    return next((error for error in missing if isinstance(error, OurError)), None)
