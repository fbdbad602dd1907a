from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred, succeed

from broker.event.origin import new_origin
from broker.event.place import Mark
from broker.event.record import with_proof
from broker.log.logged_event import LoggedEvent
from broker.order_certificates.signing_key import SigningKey
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.checked_archive import with_checks
from broker.signatures.batch_signer import BatchSigner
from broker.signatures.event_check import find_forged
from tests.log.test_log_file import RECORD
from tests.signatures.placed_event import PlacedEvent

KEY = SigningKey.generate()
ORIGIN = new_origin(1_700_000_000_000, KEY.public.raw)
EARLIER = "0123456789abcdef"


def signed(*offsets: int) -> list[LoggedEvent]:
    documents = [b"<d>%d</d>" % n for n in offsets]
    places = [(1, n) for n in offsets]
    placed = map(PlacedEvent.of, places, repeat(RECORD), documents)
    proofs = BatchSigner(KEY, ORIGIN).sign(list(placed))
    return [
        LoggedEvent(1, n, 1, 1, with_proof(RECORD, proof), document, ORIGIN, 0)
        for n, document, proof in zip(offsets, documents, proofs, strict=True)
    ]


@attrs.define
class FakeReplay:
    batches: list[Sequence[LoggedEvent]]
    scanned_rows: tuple[int, int] = (3, 4)
    is_cancelled: bool = False

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        return succeed(self.batches.pop(0) if self.batches else [])

    def end_marks(self) -> Mapping[str, Mark]:
        return {ORIGIN: (1, 9)}

    def missing_ranges(self) -> Sequence[tuple[str, Mark, Mark]]:
        return [(ORIGIN, (1, 7), (1, 8))]

    def cancel(self) -> None:
        self.is_cancelled = True


def find(flow: str, events: Sequence[LoggedEvent], sender: str) -> list[LoggedEvent]:
    assert sender == "the archive"
    return [event for event, _ in find_forged(flow, events, must_sign=False)]


def replay_of(*batches: Sequence[LoggedEvent]) -> tuple[Any, FakeReplay]:
    fake = FakeReplay(list(batches))
    replays = type("Replays", (), {"start_replay": lambda self, request: fake})()
    access = ArchiveAccess(
        cast(Any, replays), cast(Any, None), cast(Any, None), cast(Any, None), 1.0
    )
    return with_checks(access, find).replays.start_replay(cast(Any, None)), fake


def received(replay: Any) -> list[LoggedEvent]:
    found: list[LoggedEvent] = []
    while True:
        results: list[Sequence[LoggedEvent]] = []
        replay.next_events().addCallback(results.append)
        if not results[0]:
            return found
        found += results[0]


def test_a_forged_event_of_the_archive_is_a_missing_range() -> None:
    events = signed(1, 2, 3, 4)
    forged = attrs.evolve(events[1], document=b"<d>forged</d>")
    unsigned = attrs.evolve(events[2], record=RECORD)
    earlier = LoggedEvent(1, 1, 1, 1, RECORD, b"<d/>", EARLIER, 0)
    # A batch of forged events alone is no end.
    replay, _ = replay_of([forged], [events[0], forged, unsigned, earlier], [events[3]])
    assert received(replay) == [events[0], earlier, events[3]]
    places = [(ORIGIN, (1, 1), (1, 2)), (ORIGIN, (1, 1), (1, 2)), (ORIGIN, (1, 2), (1, 3))]
    assert replay.missing_ranges() == [(ORIGIN, (1, 7), (1, 8)), *places]


def test_the_rest_is_that_of_the_archive() -> None:
    replay, fake = replay_of(signed(1))
    assert replay.scanned_rows == (3, 4) and replay.end_marks() == {ORIGIN: (1, 9)}
    replay.cancel()
    assert fake.is_cancelled
