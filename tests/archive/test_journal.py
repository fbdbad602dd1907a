from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.archive import journal_writer
from broker.archive.durable_journal import DurableJournal, DurableJournalWriter
from broker.archive.journal import Journal, Page
from broker.archive.journal_writer import JournalWriter
from broker.archive.object_store import LocalObjectStore, ObjectStore
from broker.errors import ArchiveCorrupt
from broker.testing.fragile_disk import FragileDisk
from tests.archive.events import MORNING, Wall

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)


def objects() -> ObjectStore:
    return LocalObjectStore(Path("/archive"), FragileDisk(lambda: MORNING))


def numbers(store: ObjectStore) -> dict[str, list[Any]]:
    journals = Journal(store, "manifests").read()
    return {writer: [page.body["n"] for page in pages.pages] for writer, pages in journals.items()}


@given(st.integers(1, 10**12 - 1), st.booleans(), st.dictionaries(st.text("ab"), _JSON))
def test_a_page_is_read_as_it_was_written(number: int, snapshot: bool, body: Any) -> None:
    page = Page(number, snapshot, body)
    assert Page.decode(page.encode()) == page


@pytest.mark.parametrize("seed", range(50))
def test_a_damaged_page_is_rejected(seed: int) -> None:
    random = Random(seed)
    data = bytearray(Page(3, False, {"adds": ["events/s/x.parquet"], "at": 123}).encode())
    at = random.randrange(len(data) - 1)
    data[at] = random.choice([byte for byte in range(256) if byte != data[at]])
    with pytest.raises(ArchiveCorrupt):
        Page.decode(bytes(data))


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"{}", b"[" * 100_000, b"\xff", b'{"number":1}']
)
def test_invalid_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(ArchiveCorrupt):
        Page.decode(data)


def test_pages_are_read_once() -> None:
    store = objects()
    writer, journal = JournalWriter(store, "manifests", "aa"), Journal(store, "manifests")
    writer.put_page({"n": 1}, dict)
    before = journal.read()
    assert journal.read()["aa"] is before["aa"]
    writer.put_page({"n": 2}, dict)
    pages = journal.read()["aa"].pages
    assert pages[0] is before["aa"].pages[0]
    assert [page.number for page in pages] == [1, 2]


def test_a_snapshot_replaces_all_pages_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writer, "SNAPSHOT_EVERY", 3)
    store = objects()
    writer, reader = JournalWriter(store, "manifests", "aa"), Journal(store, "manifests")
    for n in range(1, 6):
        writer.put_page({"n": n}, lambda: {"n": "all"})
        assert reader.read() == Journal(store, "manifests").read()
    assert numbers(store) == {"aa": ["all", 4, 5]}


def test_snapshots_take_at_most_twice_the_space_of_what_they_repeat() -> None:
    store = objects()
    writer, said = JournalWriter(store, "manifests", "aa"), list[str]()
    for n in range(1500):
        said.append(f"a file of some length, number {n}")
        writer.put_page({"n": said[-1]}, lambda: {"n": said})
    sizes: dict[bool, int] = {False: 0, True: 0}
    for each in store.list_objects("manifests"):
        sizes[Page.decode(store.get(each.path)).snapshot] += each.bytes
    assert 0 < sizes[True] < 2 * sizes[False]
    [pages] = Journal(store, "manifests").read().values()
    assert len(pages.pages) < 1024
    assert [*pages.pages[0].body["n"], *(page.body["n"] for page in pages.pages[1:])] == said


def test_a_restarted_writer_continues_after_its_last_page() -> None:
    store = objects()
    for n in range(3):
        JournalWriter(store, "manifests", "aa").put_page({"n": n}, dict)
    assert numbers(store) == {"aa": [0, 1, 2]}


def test_the_previous_snapshot_is_used_if_one_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writer, "SNAPSHOT_EVERY", 2)
    disk = FragileDisk(lambda: MORNING)
    store = LocalObjectStore(Path("/archive"), disk)
    writer = JournalWriter(store, "manifests", "aa")
    for n in range(1, 6):
        writer.put_page({"n": n}, lambda: {"n": "all"})
    newest = Journal(store, "manifests").read()["aa"]
    path = Path("/archive/manifests/aa") / f"{newest.pages[0].number:012}.json"
    disk.damage_file(path, lambda data: data[:-10])
    assert numbers(store) == {"aa": ["all", 3, 4, 5]}
    assert list(Journal(store, "manifests").read()["aa"].problems) == [
        path.relative_to("/archive").as_posix()
    ]


@pytest.mark.parametrize("which", [1, 2, 3])
@pytest.mark.parametrize("cut", [False, True])
def test_a_page_lost_after_reading_is_reported(which: int, cut: bool) -> None:
    disk = FragileDisk(lambda: MORNING)
    store = LocalObjectStore(Path("/archive"), disk)
    writer, journal = JournalWriter(store, "manifests", "aa"), Journal(store, "manifests")
    for n in range(1, 4):
        writer.put_page({"n": n}, dict)
    journal.read()
    path = f"manifests/aa/{which:012}.json"
    if cut:
        disk.damage_file(Path("/archive") / path, lambda data: data[:-10])
    else:
        store.delete([path])
    for _ in range(2):
        pages = journal.read()["aa"]
        assert [page.number for page in pages.pages] == [n for n in (1, 2, 3) if n != which]
        assert list(pages.problems) == [path]
        assert journal.is_damaged("aa")
    assert pages is journal.read()["aa"]


def test_a_page_written_again_is_read_again() -> None:
    store = objects()
    journal = Journal(store, "manifests")
    for n in range(1, 3):
        JournalWriter(store, "manifests", "aa").put_page({"n": n}, dict)
    journal.read()
    store.delete(["manifests/aa/000000000002.json"])
    JournalWriter(store, "manifests", "aa").put_page({"n": "another"}, dict)
    assert [page.body["n"] for page in journal.read()["aa"].pages] == [1, "another"]


def test_other_objects_in_the_folder_are_ignored() -> None:
    store = objects()
    JournalWriter(store, "manifests", "aa").put_page({"n": 1}, dict)
    store.put([("manifests/aa/note.txt", b"x"), ("manifests/000000000001.json", b"x")])
    assert numbers(store) == {"aa": [1]}


class Nodes:
    def __init__(self) -> None:
        self.wall = Wall()
        self.store = objects()

    def put(self, writer: str, stored: bytes | None) -> None:
        self.wall.now += 1
        DurableJournalWriter(self.store, writer, self.wall).put_changes(
            [("desk", "alarms", stored)]
        )

    def stored(self) -> Any:
        return DurableJournal(self.store).read_newest().get(("desk", "alarms"), ("", None, 0))[:2]


def test_the_newest_of_several_writers_wins() -> None:
    nodes = Nodes()
    nodes.put("aa", b"1")
    nodes.put("bb", b"2")
    assert nodes.stored() == ("bb", b"2")
    nodes.put("aa", b"3")
    assert nodes.stored() == ("aa", b"3")


def test_removal_at_the_old_node_does_not_affect_the_new_node() -> None:
    nodes = Nodes()
    nodes.put("aa", b"1")
    nodes.put("bb", b"2")
    nodes.put("aa", None)
    assert nodes.stored() == ("bb", b"2")


def test_a_removed_subscription_does_not_return_from_an_earlier_node() -> None:
    nodes = Nodes()
    nodes.put("aa", b"1")
    nodes.put("bb", b"2")
    nodes.put("bb", None)
    assert nodes.stored() == ("", None)
    nodes.put("aa", b"3")
    assert nodes.stored() == ("aa", b"3")


def test_snapshots_keep_all_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writer, "SNAPSHOT_EVERY", 3)
    wall, store = Wall(), objects()
    writer = DurableJournalWriter(store, "aa", wall)
    random, expected = Random(1), {}
    for n in range(60):
        wall.now += 1
        name, stored = f"n{random.randrange(5)}", random.choice([None, b"%d" % n])
        writer.put_changes([("desk", name, stored)])
        expected[name] = stored
        found = {key[1]: each[1] for key, each in DurableJournal(store).read_newest().items()}
        assert found == {key: each for key, each in expected.items() if each is not None}
