from __future__ import annotations

from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.archive.chunk_encoding import rows_to_chunks
from broker.archive.table import SCHEMA, events_to_batch
from broker.errors import ArchiveCorrupt
from broker.log.chunk import encode_chunk
from broker.log.logged_event import LoggedEvent
from tests.archive.events import events
from tests.archive.test_table import logged


def chunks(made: list[LoggedEvent]) -> list[bytes]:
    return [encode_chunk(list(run)) for _, run in groupby(made, key=attrgetter("origin"))]


@given(st.lists(logged(), max_size=6), st.data())
def test_rows_give_the_same_chunks_as_their_events(
    made: list[LoggedEvent], data: st.DataObject
) -> None:
    batch = events_to_batch(made)
    assert rows_to_chunks(batch) == chunks(made)
    start = data.draw(st.integers(0, len(made)))
    end = data.draw(st.integers(start, len(made)))
    assert rows_to_chunks(batch.slice(start, end - start)) == chunks(made[start:end])
    order = data.draw(st.permutations(range(len(made))))
    taken = batch.take(pa.array(order, pa.int64()))
    assert rows_to_chunks(taken) == chunks([made[place] for place in order])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("level", 3), ("level", -4), ("liveness", 6), ("arrival", -1), ("offset", -1)),
        *(("arrival", None), ("document", None), ("client", None)),
    ],
)
def test_an_invalid_row_raises_archive_corrupt(column: str, value: int | None) -> None:
    batch = events_to_batch(events([1]))
    index = SCHEMA.get_field_index(column)
    field = SCHEMA.field(index).with_nullable(True)
    damaged = batch.set_column(index, field, pa.array([value], field.type))
    with pytest.raises(ArchiveCorrupt):
        rows_to_chunks(damaged)


def test_an_epoch_too_large_for_a_chunk_raises_archive_corrupt() -> None:
    batch = events_to_batch(events([1]))
    index = SCHEMA.get_field_index("epoch")
    damaged = batch.set_column(index, "epoch", pa.array(np.array([1 << 32])))
    with pytest.raises(ArchiveCorrupt):
        rows_to_chunks(damaged)
