"""A node relays what an origin has validated, though it can not use the schema at the moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from broker.errors import NotValid, SchemaUnusable
from broker.event.envelope import Header, Liveness, SecurityLevel, Validation
from broker.event.event_id import EventId
from broker.ingest.claimed_validation import match_as_validated
from broker.log.logged_event import encode_header
from broker.matching.contract import AcceptedWithLatestVersion, Refused, Verdict
from broker.matching.undescribed import EVERY_TYPE_UNDESCRIBED

HEADER = Header(EventId("p", 1, 1, 1), "s", "t", "1", SecurityLevel.LOW, Liveness.LIVE)


@attrs.frozen
class Event:
    document: bytes
    validation: Validation = Validation.DESCRIBED

    @property
    def record(self) -> bytes:
        return encode_header(HEADER._replace(validation=self.validation))


class FakeMatcher:
    """Refuses `slow` while it validates, and `bad`."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, bool, bool]] = []

    def match(
        self, documents: Sequence[bytes], seconds: float = 1.0, variants: Any = (), *, marked: bool
    ) -> list[Verdict]:
        self.calls.append((len(documents), variants is EVERY_TYPE_UNDESCRIBED, marked))
        validation = Validation.MARKED if marked else Validation.DESCRIBED
        return [
            Refused(NotValid("bad"))
            if document == b"bad"
            else Refused(SchemaUnusable("slow"))
            if document == b"slow" and not marked
            else AcceptedWithLatestVersion(HEADER._replace(validation=validation), (7,))
            for document in documents
        ]


def test_an_event_whose_schema_can_not_be_used_is_matched_as_valid() -> None:
    matcher: Any = FakeMatcher()
    good, slow, bad = match_as_validated(matcher, [*map(Event, (b"good", b"slow", b"bad"))])
    assert good == slow == AcceptedWithLatestVersion(HEADER, (7,))
    assert isinstance(slow, AcceptedWithLatestVersion)
    assert isinstance(bad, Refused)


@pytest.mark.parametrize("validation", Validation)
def test_runs_are_matched_as_their_origin_has_validated_them(validation: Validation) -> None:
    matcher: Any = FakeMatcher()
    match_as_validated(matcher, [Event(b"1"), Event(b"2", validation), Event(b"3", validation)])
    alike = validation is Validation.DESCRIBED
    expected = (
        validation is Validation.UNDESCRIBED,
        validation is Validation.MARKED,
    )
    assert matcher.calls == ([(3, False, False)] if alike else [(1, False, False), (2, *expected)])
