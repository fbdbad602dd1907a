from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from broker.archive.table import events_to_batch
from broker.event.annotation import with_annotation
from broker.log.logged_event import LoggedEvent
from broker.replay.engine.part_scan import EVENT_SCHEMA
from broker.replay.spool import PartWriter, Spool, write_request_order
from tests.recovery.world import make_world

EVENTS = list(make_world(1, events=60).events.values())
for annotated in EVENTS[::7]:
    annotated.record = with_annotation(annotated.record, b"a%d" % annotated.offset)


def written(folder: Path) -> None:
    rng = random.Random(0)
    for number in range(3):
        writer = PartWriter(folder, number, EVENT_SCHEMA)
        events = EVENTS[number::3]
        while events:
            size = rng.randrange(1, 9)
            batch = events_to_batch(events[:size]).select(EVENT_SCHEMA.names)
            columns = [
                column.cast(f.type) for column, f in zip(batch.columns, EVENT_SCHEMA, strict=True)
            ]
            writer.write(pa.RecordBatch.from_arrays(columns, schema=EVENT_SCHEMA))
            events = events[size:]
        writer.commit()


def order_of(seed: int) -> list[int]:
    rng = random.Random(seed)
    return rng.sample(range(len(EVENTS)), rng.randrange(1, len(EVENTS)))


def write(folder: Path, number: int, order: list[int]) -> None:
    places = np.array(order)
    sizes = np.array([len(EVENTS[place].document) for place in order])
    write_request_order(folder, number, places % 3, places // 3, sizes)


@pytest.mark.parametrize("seed", range(20))
def test_pages_give_the_events_of_a_request_in_its_order(seed: int, tmp_path: Path) -> None:
    written(tmp_path)
    rng = random.Random(seed)
    order = order_of(seed)
    write(tmp_path, 0, order_of(seed + 100))
    write(tmp_path, 1, order)
    spool = Spool(tmp_path)
    got: list[LoggedEvent] = []
    while len(got) < len(order):
        most, most_bytes = rng.randrange(1, 20), rng.choice([1, 3_000, 1 << 20])
        page = spool.read_events(1, len(got), most, most_bytes)
        size = sum(len(event.document) for event in page)
        assert 1 <= len(page) <= most
        assert len(page) == 1 or size <= most_bytes
        got += page
    for event, place in zip(got, order, strict=True):
        right = EVENTS[place]
        assert (event.place, event.document) == (right.place, right.document)
        assert (event.record, event.arrival) == (right.record, right.arrival)
    assert spool.read_events(1, len(order), 10, 1000) == []


def test_deleting_a_request_keeps_the_others(tmp_path: Path) -> None:
    written(tmp_path)
    write(tmp_path, 0, [1, 2])
    write(tmp_path, 1, [3])
    spool = Spool(tmp_path)
    spool.delete_request(0)
    assert [event.place for event in spool.read_events(1, 0, 10, 1 << 20)] == [EVENTS[3].place]
    assert not (tmp_path / "request-0.arrow").exists()
    spool.delete()
    assert not tmp_path.exists()


def test_an_abandoned_part_leaves_no_file(tmp_path: Path) -> None:
    writer = PartWriter(tmp_path, 0, EVENT_SCHEMA)
    writer.abandon()
    writer = PartWriter(tmp_path, 1, EVENT_SCHEMA)
    writer.commit()
    assert list(tmp_path.iterdir()) == []
