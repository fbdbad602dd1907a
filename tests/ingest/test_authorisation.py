"""Parts are authorised as if each sequence number were checked and recorded alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.errors import NotValid
from broker.event.envelope import MAX_EVENT_TIME, Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.stream import StreamPattern
from broker.identity import Identity
from broker.identity.rights import Rights
from broker.ingest.authorisation import authorise_part
from broker.ingest.publisher import Publisher
from broker.ingest.submission import Part, Submission
from broker.log.deduplication import Deduplication, Freshness
from broker.log.logged_event import time_of
from broker.matching.contract import Accepted, Refused, Verdict
from broker.wire.event_batch import Batch

KEY = ("alice", 7)


def accepted(
    number: int,
    *,
    stream: str = "open.a",
    level: SecurityLevel = SecurityLevel.LOW,
    client_id: str = "alice",
    incarnation: int = 7,
) -> Accepted:
    event_id = EventId(client_id, 1, number, incarnation)
    return Accepted(Header(event_id, stream, "t", "1.0", level, Liveness.LIVE), (number,))


def publisher() -> Publisher:
    rights = Rights(publish=(StreamPattern.parse("open.>"),))
    identity = Identity("alice", "alice", rights, SecurityLevel.MED, administer=False)
    return Publisher(lambda: None, identity, 7, lambda _: None)


def part(count: int, before: int = 0) -> Part:
    """Behind `before` documents of the batch."""
    batch = Batch(1, [b"<e/>"] * (before + count))
    return Part(Submission(batch), before, before + count)


@given(st.lists(st.lists(st.integers(1, 12) | st.none(), max_size=10), max_size=4))
def test_sequence_numbers_are_checked_as_if_each_were_alone(
    batches: list[list[int | None]],
) -> None:
    """None stands for a refused event."""
    together, alone = (Deduplication(lambda _: None, 2) for _ in range(2))
    for numbers in batches:
        verdicts: list[Verdict] = [
            Refused(NotValid("no")) if number is None else accepted(number) for number in numbers
        ]
        judged = authorise_part(publisher(), part(len(numbers)), verdicts, together, 5)
        found = {
            index: alone.record(KEY, number, 5)
            for index, number in enumerate(numbers)
            if number is not None
        }
        new = [numbers[i] for i, freshness in found.items() if freshness is Freshness.NEW]
        assert judged.matches == [(number,) for number in new]
        assert len(judged.entries) == len(new)
        assert judged.duplicates == [i for i, f in found.items() if f is Freshness.DUPLICATE]
        assert [index for index, _ in judged.refused] == [
            i for i in range(len(numbers)) if found.get(i) in (None, Freshness.OUTSIDE)
        ]
        assert together.take_changed() == alone.take_changed()


def test_a_refused_event_records_no_sequence_number() -> None:
    deduplication = Deduplication(lambda _: None, 64)
    verdicts: list[Verdict] = [
        accepted(1),
        accepted(2, stream="closed"),
        accepted(3, level=SecurityLevel.HIGH),
        accepted(4, client_id="bob"),
        accepted(5, incarnation=8),
        accepted(2),
        accepted(3, stream="open.b", level=SecurityLevel.MED),
    ]
    judged = authorise_part(publisher(), part(7), verdicts, deduplication, 5)
    assert [(index, error.code) for index, error in judged.refused] == [
        (1, "not-allowed"),
        (2, "clearance-too-low"),
        (3, "forged-identity"),
        (4, "forged-identity"),
    ]
    assert [rank for _, rank, _ in judged.entries] == [0, 0, 1]
    assert deduplication.next_number(KEY) == 4


def test_a_time_out_of_range_refuses_its_event_alone() -> None:
    deduplication = Deduplication(lambda _: None, 64)
    times = (7, None, 0, -1, MAX_EVENT_TIME, MAX_EVENT_TIME + 1, 2**64 - 1, 5)
    # The part begins behind the first document.
    whole = Submission(Batch(1, [b"<e/>"] * 8, times))
    verdicts = [accepted(number) for number in (1, 2, 3, 3, 4, 4, 4)]
    judged = authorise_part(publisher(), Part(whole, 1, 8), verdicts, deduplication, 5)
    assert [(index, error.code) for index, error in judged.refused] == [
        *((3, "bad-envelope"), (5, "bad-envelope"), (6, "bad-envelope")),
    ]
    assert str(MAX_EVENT_TIME + 1) in str(judged.refused[1][1])
    assert [time_of(record) for record, *_ in judged.entries] == [None, 0, MAX_EVENT_TIME, 5]
    assert (judged.duplicates, deduplication.next_number(KEY)) == ([], 5)


def test_a_right_for_one_stream_does_not_cover_the_next_event() -> None:
    judged = authorise_part(
        publisher(),
        part(3),
        [accepted(1), accepted(2, stream="closed"), accepted(2)],
        Deduplication(lambda _: None, 64),
        5,
    )
    assert [index for index, _ in judged.refused] == [1]
    assert len(judged.entries) == 2


def test_results_of_a_part_have_indices_in_the_batch() -> None:
    deduplication = Deduplication(lambda _: None, 64)
    verdicts: list[Verdict] = [accepted(1), Refused(NotValid("no")), accepted(1), accepted(2)]
    judged = authorise_part(publisher(), part(4, before=10), verdicts, deduplication, 5)
    assert [index for index, _ in judged.refused] == [11]
    assert (judged.duplicates, judged.first_new_index) == ([12], 10)


def test_the_cache_of_allowed_streams_is_bounded() -> None:
    publishing, deduplication = publisher(), Deduplication(lambda _: None, 2)
    counts = []
    for number in range(1, 2_502):
        stream = f"open.s{number}"
        verdict = accepted(number, stream=stream)
        judged = authorise_part(publishing, part(1), [verdict], deduplication, 5)
        assert not judged.refused and judged.streams == {stream}
        assert publishing.allowed_streams[stream, SecurityLevel.LOW] == 0
        counts.append(len(publishing.allowed_streams))
    assert counts == [*range(1, 1_001)] * 2 + [*range(1, 502)]


def test_an_event_that_no_transport_may_carry_is_refused() -> None:
    def check_carriage(stream: str, level: SecurityLevel) -> None:
        if (stream, level) == ("open.b", SecurityLevel.MED):
            raise NotValid("nothing carries it")

    verdicts: list[Verdict] = [
        accepted(1, stream="open.b"),
        accepted(2, stream="open.b", level=SecurityLevel.MED),
        accepted(3),
    ]
    judged = authorise_part(
        *(publisher(), part(3), verdicts, Deduplication(lambda _: None, 64), 5, check_carriage)
    )
    assert [(index, error.code) for index, error in judged.refused] == [(1, "not-valid")]
    assert judged.streams == {"open.a", "open.b"}
