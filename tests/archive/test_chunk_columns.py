from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.archive.chunk_columns import ChunkColumns, chunks_to_batch
from broker.archive.table import events_to_batch
from broker.event.annotation import with_annotation
from broker.event.envelope import MAX_EVENT_TIME, Header, Liveness, SecurityLevel, Validation
from broker.event.event_id import EventId
from broker.log.chunk import Chunk, encode_chunk
from broker.log.logged_event import LoggedEvent, encode_header

NUMBERS = st.integers(0, 2**63 - 1)
HEADERS = st.builds(
    Header,
    st.builds(EventId, st.text(max_size=5), NUMBERS, NUMBERS, NUMBERS),
    *[st.text(max_size=5)] * 3,
    st.sampled_from(SecurityLevel),
    st.sampled_from(Liveness),
    st.sampled_from(Validation),
    st.none() | st.integers(0, MAX_EVENT_TIME),
)
FIELDS = st.tuples(
    *(st.integers(0, 2**32 - 1), NUMBERS, NUMBERS, st.integers(0, 2), HEADERS),
    *(st.binary(max_size=90), st.binary(max_size=3)),
)
CHUNKS = st.lists(
    st.tuples(st.sampled_from(["aa", "bb", "c" * 200]), st.lists(FIELDS, min_size=1, max_size=6)),
    min_size=1,
    max_size=5,
)


def logged(
    origin: str, fields: list[tuple[int, int, int, int, Header, bytes, bytes]]
) -> list[LoggedEvent]:
    return [
        LoggedEvent(
            *(epoch, offset, arrival, level),
            *(with_annotation(encode_header(header), annotation), document, origin, n),
        )
        for n, (epoch, offset, arrival, level, header, document, annotation) in enumerate(fields, 7)
    ]


# The first example imports Arrow.
@given(CHUNKS, st.data())
def test_chunks_give_the_same_rows_as_their_events(
    chunks: list[tuple[str, list[tuple[int, int, int, int, Header, bytes, bytes]]]],
    data: st.DataObject,
) -> None:
    columns, wanted = [], []
    for origin, fields in chunks:
        events = logged(origin, fields)
        first = data.draw(st.integers(0, len(events) - 1))
        most = data.draw(st.integers(1, len(events) + 2))
        value = memoryview(encode_chunk(events))
        columns.append(ChunkColumns.from_chunk(Chunk(7, value), 7 + first, most))
        wanted += events[first : first + most]
    assert sum(each.count for each in columns) == len(wanted)
    batch = chunks_to_batch(columns)
    batch.validate(full=True)
    assert batch.to_pylist() == events_to_batch(wanted).to_pylist()
