"""Matching of events as their origin has validated them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import inf
from typing import Protocol, TypeVar

from broker.event.envelope import Validation
from broker.log.logged_event import validation_of
from broker.matching.contract import NO_VARIANTS, IMatcher, Variants, Verdict
from broker.matching.undescribed import EVERY_TYPE_UNDESCRIBED


class RecordedEvent(Protocol):
    """The parts of `LoggedEvent` and `CarriedEvent` that are read."""

    @property
    def record(self) -> bytes: ...
    @property
    def document(self) -> bytes: ...


E = TypeVar("E", bound=RecordedEvent)


def split_by_validation(events: Iterable[E]) -> Iterator[tuple[Validation, list[E]]]:
    """Yield runs of events that their origin has validated alike."""
    for validation, run in groupby(events, lambda event: validation_of(event.record)):
        yield validation, list(run)


def match_as_validated(
    matcher: IMatcher,
    events: Sequence[RecordedEvent],
    seconds: float = inf,
    variants: Variants = NO_VARIANTS,
) -> list[Verdict]:
    """Return the verdicts on the first events, as `IMatcher.match`.

    `variants` are the origin's texts. `seconds` are those of each run.
    """
    verdicts: list[Verdict] = []
    for validation, run in split_by_validation(events):
        is_undescribed = validation is Validation.UNDESCRIBED
        found = matcher.match(
            [each.document for each in run],
            seconds,
            EVERY_TYPE_UNDESCRIBED if is_undescribed else variants,
            marked=validation is Validation.MARKED,
        )
        verdicts += found
        if len(found) < len(run):
            break
    return verdicts
