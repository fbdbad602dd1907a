from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from broker.cli.publishing.portion_record import PortionRecord
from broker.cli.publishing.publication import PortionEnd
from broker.cli.publishing.published_table import PublishedTable

END = PortionEnd(b"end", b"value")


@pytest.fixture
def table(tmp_path: Path) -> Iterator[PublishedTable]:
    with closing(PublishedTable(tmp_path / "t.db")) as table:
        yield table


def settle(record: PortionRecord, results: str, *, with_keys: bool) -> None:
    """End a portion, whose events are accepted, refused or lost by letter, in reverse order."""
    keys = [f"{number}".encode() if with_keys else None for number in range(len(results))]
    assert not any(map(record.is_known, keys))
    portions = [record.begin_event(key) for key in keys]
    record.end_portion(END)
    for key, portion, result in zip(keys, portions, results, strict=True):
        if result == "a":
            record.accept_event(key, portion)
        elif result == "r":
            record.refuse_event(key, portion)
        else:
            record.lose_event(portion)


@pytest.mark.parametrize(
    ("results", "with_keys", "is_recorded"),
    [
        ("", False, True),
        ("aa", False, True),
        ("aa", True, True),
        # Reading it again would repeat the accepted event.
        ("ar", False, True),
        ("ar", True, False),
        ("rr", False, False),
        ("al", False, False),
        ("la", True, False),
    ],
)
def test_a_portion_is_recorded_if_the_next_process_need_not_read_it(
    table: PublishedTable, results: str, with_keys: bool, is_recorded: bool
) -> None:
    settle(PortionRecord(table), results, with_keys=with_keys)
    assert table.find(b"end") == (b"value" if is_recorded else None)
    found = [table.find(str(number).encode()) is not None for number in range(len(results))]
    assert found == [with_keys and result == "a" for result in results]


def test_a_portion_is_recorded_after_its_last_receipt(table: PublishedTable) -> None:
    record = PortionRecord(table)
    first, second = record.begin_event(None), record.begin_event(None)
    record.end_portion(END)
    later = record.begin_event(None)
    record.accept_event(None, second)
    record.refuse_event(None, later)
    assert table.find(b"end") is None
    record.accept_event(None, first)
    assert table.find(b"end") == b"value"


def test_an_end_without_a_key_separates_portions(table: PublishedTable) -> None:
    record = PortionRecord(table)
    record.refuse_item()
    record.end_portion(PortionEnd(None))
    record.end_portion(END)
    assert table.find(b"end") == b"value"


def test_a_key_is_known_while_its_event_is_under_way(table: PublishedTable) -> None:
    record = PortionRecord(table)
    portion = record.begin_event(b"1")
    assert record.is_known(b"1")
    record.refuse_event(b"1", portion)
    assert not record.is_known(b"1")
    record.accept_event(b"1", record.begin_event(b"1"))
    assert record.is_known(b"1")


def test_without_a_table_nothing_is_known() -> None:
    record = PortionRecord(None)
    settle(record, "aa", with_keys=True)
    assert not record.is_known(b"0")
    record.flush()
