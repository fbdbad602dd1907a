"""Matching of events as their origin has validated them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import inf
from typing import Protocol, TypeVar

from broker.errors import SchemaUnusable
from broker.event.envelope import Validation
from broker.log.logged_event import may_state_more, validation_of
from broker.matching.contract import (
    NO_VARIANTS,
    Accepted,
    IMatcher,
    Refused,
    Variants,
    Verdict,
)
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
    events = list(events)
    # Nearly all events are valid by a DTD: one look at all records is enough.
    if events and not may_state_more(b"".join([each.record for each in events])):
        yield Validation.DESCRIBED, events
        return
    for validation, run in groupby(events, lambda event: validation_of(event.record)):
        yield validation, list(run)


def match_as_validated(
    matcher: IMatcher,
    events: Sequence[RecordedEvent],
    seconds: float = inf,
    variants: Variants = NO_VARIANTS,
) -> list[Verdict]:
    """Return the verdicts on the first events, as `IMatcher.match`.

    `variants` are the origin's texts. `seconds` are those of each run. The origin has validated an
    event by its schema, so it is valid if the schema can not be used here at the moment.
    """
    verdicts: list[Verdict] = []
    for validation, run in split_by_validation(events):
        texts = EVERY_TYPE_UNDESCRIBED if validation is Validation.UNDESCRIBED else variants
        documents = [each.document for each in run]
        found = matcher.match(documents, seconds, texts, marked=validation is Validation.MARKED)
        for index, verdict in enumerate(found):
            if isinstance(verdict, Refused) and isinstance(verdict.error, SchemaUnusable):
                found[index] = _match_unchecked(matcher, documents[index], texts)
        verdicts += found
        if len(found) < len(run):
            break
    return verdicts


def _match_unchecked(matcher: IMatcher, document: bytes, variants: Variants) -> Verdict:
    """Match an event that its origin has validated by a DTD, without validation."""
    (verdict,) = matcher.match([document], variants=variants, marked=True)
    if not isinstance(verdict, Accepted):
        return verdict
    header = verdict.header._replace(validation=Validation.DESCRIBED)
    return type(verdict)(header, verdict.subscriptions)
