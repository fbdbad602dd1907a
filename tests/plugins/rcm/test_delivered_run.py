"""Runs of delivered events, read from their entries."""

from __future__ import annotations

from random import Random

import pytest

from broker.event.order_entry import OrderEntry, encode_order_entry
from broker.streams.contract import CarriedEvent
from broker.transport.order import MessageId, Stamp
from plugins.rcm.delivered_run import DeliveredRun, join_runs, read_runs
from tests.plugins.rcm.test_group import RECORD
from tests.seeds import seeds


def make_entry(random: Random, before: OrderEntry) -> OrderEntry:
    """Return an entry that often follows another one."""
    stamp = None if before.stamp is None else before.stamp + random.choice([1, 1, 1, 2])
    return OrderEntry(
        *("g", before.site if random.random() < 0.9 else random.choice("ab"), 1),
        before.number + random.choice([1, 1, 1, 2]),
        random.choice([stamp, stamp, stamp, 7, None]),
        *("logical", 0, random.random() < 0.1),
        is_recovered=random.random() < 0.1,
        tie=random.choice(["", "", "", "c"]),
    )


def single_runs(runs: list[DeliveredRun]) -> list[DeliveredRun]:
    return [
        run._replace(
            id=run.id.after(index),
            stamp=None if run.stamp is None else run.stamp.after(index),
            events=[event],
        )
        for run in runs
        for index, event in enumerate(run.events)
    ]


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_runs_say_of_each_event_what_its_entry_says(seed: int) -> None:
    random = Random(seed)
    entries = [OrderEntry("g", "a", 1, 1, 1, "logical")]
    for _ in range(60):
        entries.append(make_entry(random, entries[-1]))
    events = [
        CarriedEvent((1, offset), RECORD, b"<e/>").with_annotation(encode_order_entry(entry))
        for offset, entry in enumerate(entries)
    ]
    runs = read_runs("g", events)
    expected = [
        DeliveredRun(
            MessageId(*entry.id),
            None if entry.stamp is None else Stamp(entry.stamp, entry.tie or entry.site),
            *(entry.is_late, entry.is_recovered, [event]),
        )
        for entry, event in zip(entries, events, strict=True)
    ]
    assert single_runs(runs) == expected
    assert len(runs) < len(events)
    assert join_runs(runs) == runs
    assert all(run.stamp is not None and not run.is_late for run in runs if len(run.events) > 1)


def test_events_of_another_stack_are_in_no_run() -> None:
    entry = encode_order_entry(OrderEntry("other", "a", 1, 1, 1, "logical"))
    event = CarriedEvent((1, 1), RECORD, b"<e/>")
    assert read_runs("g", [event, event.with_annotation(entry)]) == []
