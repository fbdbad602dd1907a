"""Neighbours that announce or send DTDs that they must not (T25, T26, T42)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from twisted.internet.task import Clock

from broker.cluster.address import Address
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import TableChanged
from broker.cluster.tables.table import TableKey
from broker.cluster.types.announcement import (
    MAX_OF_NODE,
    TYPES,
    UNIT_TYPES,
    Announcement,
    read_node_table,
    read_unit_table,
)
from broker.cluster.types.core import TypeAnnounced, TypeTables
from broker.cluster.types.fetcher import MAX_FETCHES, MAX_PENDING, TypeFetcher
from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd, TooManyTypes
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.test_type_distribution import REPORT, report_text

HASH = "ab" * 32
OWN = Address(("one",), "own")


def announced(number: int, content_hash: str = HASH) -> TypeAnnounced:
    reference = DtdReference(f"t{number}", "1.0")
    return TypeAnnounced(Announcement(reference, content_hash), "bad", ("one",), is_of_unit=False)


def test_announced_types_are_bounded() -> None:
    table: dict[str, Any] = {f"t{number} 1.0": HASH for number in range(1_000_000)}
    found, bad = read_node_table(table)
    assert (len(found), bad) == (MAX_OF_NODE, 1_000_000 - MAX_OF_NODE)
    clock = Clock()
    dtds = DtdCache(Catalogue.load(shipped_folder()), [], CacheLimits(), clock)
    fetcher = TypeFetcher(dtds, clock, lambda _: None)
    for number in range(MAX_PENDING + 100):
        fetcher.fetch_announced(announced(number))
    assert len(fetcher) == MAX_PENDING and fetcher.counts["dropped"] == 100
    assert MAX_FETCHES < 10


@pytest.mark.parametrize(
    "table",
    [
        {"no-version": HASH},
        {"t 1.0": "abc"},
        {"t 1.0": 7},
        {"t 01": HASH},
        {"../x 1.0": HASH},
        {"t 1.0 x": HASH},
    ],
)
def test_invalid_entries_are_counted(table: dict[str, Any]) -> None:
    assert read_node_table(table) == ([], 1)
    assert read_unit_table(table) == ([], 1)


def test_announcements_for_other_nodes_are_ignored() -> None:
    tables = Tables(OWN, 1, lambda: [("origin", 1, 1)])
    types = TypeTables(tables)
    for kind, subject, scope in (
        (TYPES, "victim", ("one",)),
        (TYPES, "bad", ()),
        (UNIT_TYPES, "one", ()),
        (UNIT_TYPES, "two.three", ()),
        (UNIT_TYPES, "..", ()),
    ):
        changes = {"t 1.0": HASH, f"t 1.0 {HASH}": ()}
        effect = TableChanged(TableKey(kind, subject, "bad"), scope, changes)  # type: ignore[arg-type]
        assert types.apply_change(effect, 0.0) == []
    assert list(types.announced_types()) == []


def test_dtd_that_does_not_match_its_hash_is_rejected() -> None:
    clock = Clock()
    dtds = DtdCache(Catalogue.load(shipped_folder()), [], CacheLimits(), clock)
    text = report_text().encode()
    with pytest.raises(BadDtd, match="does not fit"):
        dtds.add(REPORT, text, content_hash=HASH)
    with pytest.raises(BadDtd, match="does not fit"):
        dtds.add(DtdReference("report", "1.0", HASH), text)
    assert dtds.get(REPORT) is None


def test_neighbour_with_a_false_dtd_is_passed_over() -> None:
    with NetworkWorld(0) as world:
        for name in "abc":
            world.add(name, "one", gateways=[])
        world.run(1.0)
        for name in "bc":
            world.kill(name)
            world.change_settings(name, join=("a:1",))
            world.start(name)
        world.run(5.0)
        text, false = report_text().encode(), report_text("forged").encode()
        world["b"].dtds.add(REPORT, false, "node a")
        world.wait(
            world.client("admin", "a").ask(
                "dtd-add", text, type="report", version="1.0", against=""
            )
        )
        world.run(20.0)
        own = world["a"].dtds.known_hash(REPORT)
        assert own is not None and world["c"].dtds.known_hash(REPORT) == own


def test_owner_can_not_use_the_share_of_another(tmp_path: Any) -> None:
    from twisted.internet.defer import succeed

    from broker.dtd.async_store import AsyncDtdStore
    from broker.dtd.store import DtdStore, StoreLimits

    store = DtdStore(tmp_path, StoreLimits(max_versions=3), sync=False)
    stored = AsyncDtdStore(store, lambda call, *of: succeed(call(*of)), lambda: 1000, Clock())
    catalogue = Catalogue.load(shipped_folder())
    dtds = DtdCache(catalogue, [], CacheLimits(), Clock(), store=stored)
    for number in range(3):
        dtds.add(DtdReference(f"t{number}", "1.0"), report_text().encode(), "node bad")
    with pytest.raises(TooManyTypes):
        dtds.add(DtdReference("t3", "1.0"), report_text().encode(), "node bad")
    dtds.add(DtdReference("t3", "1.0"), report_text().encode(), "account good")
    store.needed_since_ms = 2000
    dtds.add(DtdReference("t4", "1.0"), report_text().encode(), "node bad")
    assert store.usage_of("node bad")[0] == 3
    # An evicted DTD is stored again before its next event.
    gone = DtdReference("t0", "1.0")
    assert dtds.get(gone) is None and gone not in store
    with pytest.raises(BadDtd, match="another DTD is known"):
        dtds.add(gone, report_text("other").encode(), "account good")
    again = DtdStore(tmp_path, StoreLimits(), sync=False)
    assert {each.reference for each in again} == {each.reference for each in store}
    (path,) = tmp_path.glob("_account*/t3-1.0-*.dtd")
    text = path.read_bytes()
    assert hashlib.sha256(text).hexdigest() in path.name
    path.write_bytes(text.replace(b"report", b"repost"))
    assert again.read(DtdReference("t3", "1.0")) is None
    assert again.damaged == 1 and not path.exists()
    assert DtdReference("t3", "1.0") not in again


def test_announcement_of_the_origin_overrides_those_of_others() -> None:
    def announce(types: TypeTables, author: str, entries: dict[str, Any]) -> None:
        changed = TableKey(TYPES, author, author)
        changes = {**types._tables.get(changed), **entries}
        types._tables.get = lambda key: changes if key == changed else {}  # type: ignore[method-assign]
        types.apply_change(TableChanged(changed, ("one",), entries), 0.0)

    types = TypeTables(Tables(OWN, 1, lambda: [("origin", 1, 1)]))
    address_of_a, other = Address(("one",), "a"), "cd" * 32
    # The liar claims the log of a, as its own and as one that it knows.
    announce(types, "bad", {"": "log of a", "t 1.0": HASH, f"u 1.0 {HASH}": ("log of a",)})
    assert types.hash_of(DtdReference("t", "1.0"), "log of a", address_of_a) == HASH
    announce(types, "a", {"": "log of a", "t 1.0": other, "u 1.0": other})
    for name in "tu":
        assert types.hash_of(DtdReference(name, "1.0"), "log of a", address_of_a) == other
