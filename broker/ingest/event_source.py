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
    """Events of one source, in order: all wait for the DTD that the first one lacks."""

    on_resumed: Callable[[], None]
    """The owner then matches the waiting events in a time slice."""
    is_paused: bool = attrs.field(default=False, kw_only=True)
    missing_types: dict[DtdReference, BrokerError] = attrs.field(factory=dict, kw_only=True)
    """Failed look-ups of types of the waiting events."""

    def fetch_hint(self, system_id: str) -> FetchHint:
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
    """Return a temporary error of a look-up for these events."""
    missing = (missing_types[each.reference] for each in verdicts if isinstance(each, TypeMissing))
    return next((error for error in missing if isinstance(error, OurError)), None)
