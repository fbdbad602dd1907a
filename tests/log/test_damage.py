"""No flipped bit of a log is ever read as an event: it is found, named, and repaired."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

import attrs
import lmdb
import pytest

from broker.errors import LogCorrupt
from broker.log.checksum import ValueDamaged
from broker.log.chunk import encode_key
from broker.log.chunk_places import decode_places, places_key
from broker.log.commit import Commit, ReplicaBatch, Retention
from broker.log.damage import Damage, DamageFound, DamageKind
from broker.log.external_reader import ExternalReader
from broker.log.file_rebuild import rebuild_file
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent
from broker.log.stored_chunk import HeadDamaged, StoredChunk, encode_stored_chunk
from broker.log.tables import MAX_TABLES
from tests.log.bit_damage import damage_folder, damage_log, flipped, read_past_damage

KEY = encode_key(7)
STEPS = (1, 1, 3, 1)


def event(offset: int, serial: int, origin: str = "n", size: int = 30) -> LoggedEvent:
    document = b"<e n='%d'>" % offset + b"x" * size + b"</e>"
    return LoggedEvent(1, offset, 5, 1, b"record-%d" % offset, document, origin, serial)


def chunk(first: int, count: int, origin: str = "n", size: int = 30) -> list[LoggedEvent]:
    found, offset = [], first
    for index in range(count):
        found.append(event(offset, first + index, origin, size))
        offset += STEPS[index % 4] if origin == "far" else 1
    return found


def fields(events: list[LoggedEvent]) -> list[tuple[object, ...]]:
    return [attrs.astuple(each) for each in events]


def filled(folder: Path, commits: int = 4, count: int = 5) -> tuple[LogFile, list[LoggedEvent]]:
    log = LogFile(folder, Retention(), sync=False)
    everything: list[LoggedEvent] = []
    offsets = {log.origin: 1, "far": 1}
    for number in range(commits):
        origin = (log.origin, "far")[number % 2]
        made = chunk(offsets[origin], count, "far" if origin == "far" else "own")
        for index, each in enumerate(made):
            each.origin, each.serial = origin, len(everything) + 1 + index
        offsets[origin] = made[-1].offset + 1
        everything += made
        log.commit(Commit(list(made), covered={origin: made[-1].mark}), 1, 0)
    return log, everything


def test_every_bit_of_a_chunk_counts() -> None:
    events = chunk(7, 4)
    value = encode_stored_chunk(KEY, events)
    originals = fields(events)
    for bit in range(len(value) * 8):
        damaged = flipped(value, bit)
        try:
            found = StoredChunk("events", KEY, 7, damaged)
        except HeadDamaged:
            continue
        damages = list(found.damages())
        assert len(damages) == 1 and damages[0].first == damages[0].last, bit
        read = [each for each in found.all_events() if found.is_intact(each)]
        lost = damages[0].first
        assert fields(read) == [each for each in originals if each[7] != lost], bit
        assert damages[0].marks == ((1, lost),)


def test_a_chunk_under_another_key_is_damaged() -> None:
    value = encode_stored_chunk(KEY, chunk(7, 4))
    with pytest.raises(HeadDamaged):
        StoredChunk("events", encode_key(8), 8, value)


@pytest.mark.parametrize("cut", [0, 3, 11, 20, 60, 150])
def test_a_chunk_that_was_cut_short_is_damaged(cut: int) -> None:
    value = encode_stored_chunk(KEY, chunk(7, 4))
    with pytest.raises(HeadDamaged):
        StoredChunk("events", KEY, 7, value[:cut])
    for short in range(cut):
        with pytest.raises(HeadDamaged):
            StoredChunk("events", KEY, 7, bytes(short))


@pytest.mark.parametrize("seed", range(8))
def test_a_flipped_bit_is_named_exactly_and_written_again(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    log, everything = filled(tmp_path)
    for nth in range(4):
        damage_log(log, "events", lambda v: flipped(v, random.randrange(len(v) * 8)), nth)
        intact, damages = read_past_damage(log)
        assert len(damages) == 1, f"seed {seed}, chunk {nth}"
        (damage,) = damages
        lost = [each for each in everything if damage.first <= each.serial <= damage.last]
        assert fields(intact + lost) and len(intact) + len(lost) == len(everything)
        assert [each for each in fields(everything) if each in fields(intact)] == fields(intact)
        assert damage.origin == lost[0].origin
        assert [mark[1] for mark in damage.marks] == [each.offset for each in lost]
        assert damage.upto == lost[-1].mark
        # Another node's serials differ.
        found = [attrs.evolve(each, serial=0, arrival=99) for each in everything]
        assert log.repair(damage, found) is None
        intact, damages = read_past_damage(log)
        if damage.kind is DamageKind.EVENT:
            assert fields(intact) == fields(everything)
        assert [(e.place, e.serial, e.record, e.document, e.level) for e in intact] == [
            (e.place, e.serial, e.record, e.document, e.level) for e in everything
        ]
        assert not damages
    log.close()


@pytest.mark.parametrize("nth", range(4))
def test_a_chunk_that_is_missing_is_noticed_and_written_again(tmp_path: Path, nth: int) -> None:
    log, everything = filled(tmp_path)
    damage_log(log, "events", lambda value: None, nth)
    if nth == 0:
        # As after retention; the places show that it is none.
        with pytest.raises(DamageFound):
            log.read_origin(log.origin, (0, 0), 99, 1 << 30)
        return
    if nth == 3:
        with pytest.raises(DamageFound):
            log.read_origin("far", everything[9].mark, 99, 1 << 30)
        return
    _, damages = read_past_damage(log)
    assert [(d.kind, d.first, d.last) for d in damages] == [
        (DamageKind.MISSING, nth * 5 + 1, nth * 5 + 5)
    ]
    assert log.repair(damages[0], everything) is None
    assert [e.place for e in read_past_damage(log)[0]] == [e.place for e in everything]


def test_unavailable_events_stay_damaged_and_the_rest_is_written(tmp_path: Path) -> None:
    log, everything = filled(tmp_path)
    damage_log(log, "events", lambda value: flipped(value, 45), 0)
    _, (damage,) = read_past_damage(log)
    left = log.repair(damage, everything[:2] + everything[4:])
    assert left is not None and (left.first, left.last, left.kind) == (3, 4, DamageKind.EVENT)
    intact, damages = read_past_damage(log)
    assert [e.serial for e in intact] == [e.serial for e in everything if e.serial not in (3, 4)]
    assert damages == [left]
    assert log.repair(left, everything) is None
    assert len(read_past_damage(log)[0]) == len(everything)


def test_an_altered_event_of_another_source_is_not_taken(tmp_path: Path) -> None:
    log, everything = filled(tmp_path)
    damage_log(log, "events", lambda value: flipped(value, len(value) * 8 - 20), 0)
    _, (damage,) = read_past_damage(log)
    forged = [attrs.evolve(each, document=b"<forged/>") for each in everything]
    assert log.repair(damage, forged) == damage


def test_the_log_goes_on_behind_a_damaged_end(tmp_path: Path) -> None:
    log, everything = filled(tmp_path)
    damage_log(log, "events", lambda value: flipped(value, 45), 3)
    log.crash()
    again = LogFile(tmp_path, Retention(), sync=False)
    assert (again.bounds.first, again.bounds.last) == (1, 20)
    again.commit(Commit([event(11, 21, again.origin)]), 2, 0)
    intact, (damage,) = read_past_damage(again)
    assert (damage.first, damage.last, len(intact)) == (16, 20, 16)
    assert again.position_before(99)["far"] == everything[-1].mark


def test_places_of_chunks_are_written_again_when_the_log_is_opened(tmp_path: Path) -> None:
    for bit in (*range(16), 30, 90, 200):
        folder = tmp_path / str(bit)
        log, everything = filled(folder)
        log.close()
        nth = 2  # After `c` and before `s`: the first chunk of an origin.
        damage_folder(folder, "origins", partial(flipped, bit=bit), nth)
        again = LogFile(folder, Retention(), sync=False)
        assert again.startup_repairs.healed == 1
        for origin in ("far", again.origin):
            wanted = [e.place for e in everything if e.origin == origin]
            assert [e.place for e in again.read_origin(origin, (0, 0), 99, 1 << 30)] == wanted
        again.close()


@pytest.mark.parametrize("nth", [3, 7, 20, 33])
def test_an_entry_whose_key_is_damaged_is_dropped_and_written_again(
    nth: int, tmp_path: Path
) -> None:
    """Such a key misleads LMDB, and the file is rebuilt."""
    log = LogFile(tmp_path, Retention(), sync=False)
    everything = [event(n, n, log.origin) for n in range(1, 41)]
    for each in everything:
        log.commit(Commit([each]), 1, 0)
    log.close()
    file = tmp_path / "data.mdb"
    content = file.read_bytes()
    key = places_key(log.origin, everything[nth].mark)
    for byte in (1, 12, -12, -1):
        damaged = bytearray(key)
        damaged[byte] ^= 0x40
        file.write_bytes(content.replace(key, bytes(damaged)))
        with pytest.raises(LogCorrupt, match="verify --repair"):
            LogFile(tmp_path, Retention(), sync=False)
        rebuild_file(tmp_path)
        again = LogFile(tmp_path, Retention(), sync=False)
        assert again.startup_repairs.healed >= 1
        assert again.position_before(99) == {log.origin: everything[-1].mark}
        found = again.read_origin(log.origin, (0, 0), 99, 1 << 30)
        assert [each.place for each in found] == [each.place for each in everything]
        again.close()


def test_a_damaged_place_is_found_by_its_chunk_while_the_log_is_open(tmp_path: Path) -> None:
    log, everything = filled(tmp_path)
    # After `c`.
    for nth in range(2, 6):
        damage_log(log, "origins", lambda value: flipped(value, 90), nth)
        for origin in (log.origin, "far"):
            wanted = [each.place for each in everything if each.origin == origin]
            assert [each.place for each in log.read_origin(origin, (0, 0), 99, 1 << 30)] == wanted
    log.close()


@pytest.mark.parametrize("value", [b"", b"short", b"x" * 99])
def test_a_place_that_no_chunk_has_is_removed_once(tmp_path: Path, value: bytes) -> None:
    log, everything = filled(tmp_path)
    log.close()
    key = places_key("gone", (1, 5))
    with lmdb.open(str(tmp_path), max_dbs=MAX_TABLES) as env, env.begin(write=True) as txn:
        txn.put(key, value, db=env.open_db(b"origins", txn))
    with pytest.raises(ValueDamaged):
        decode_places(key, value)
    for healed in (1, 0):
        again = LogFile(tmp_path, Retention(), sync=False)
        assert (again.startup_repairs.healed, again.startup_repairs.lost) == (healed, ())
        assert again.read_origin("gone", (0, 0), 9, 1 << 30) == []
        again.close()


def test_damage_covers_damage_within_it() -> None:
    damage = Damage("events", KEY, 5, 9, DamageKind.HEAD, ())
    assert damage.covers(damage) and damage.covers(attrs.evolve(damage, first=6, last=8))
    for other in ({"first": 4}, {"last": 10}, {"key": b"other"}, {"table": "kept"}):
        assert not damage.covers(attrs.evolve(damage, **other))


def test_retention_takes_damaged_chunks_too(tmp_path: Path) -> None:
    log, everything = filled(tmp_path)
    damage_log(log, "events", lambda value: flipped(value, 45), 0)
    log._retention = Retention(max_age_ms=0)
    log.commit(Commit(), 1, 10**9)
    assert log.bounds.first == 21
    assert log.begins_after == {log.origin: everything[14].mark, "far": everything[19].mark}


def test_another_process_reads_no_damaged_event_either(tmp_path: Path) -> None:
    log, everything = filled(tmp_path)
    own = [each for each in everything if each.origin == log.origin]
    for nth, bit in ((0, -20), (2, 45)):
        damage_log(log, "events", partial(flipped, bit=bit), nth)
    log.crash()
    along = ExternalReader(tmp_path)
    (columns,) = along.read((0, 0), 99, 1 << 30)
    assert columns.documents == b"".join(each.document for each in own[:4])
    with pytest.raises(DamageFound) as caught:
        along.read(own[3].mark, 99, 1 << 30)
    assert caught.value.damage.upto == own[4].mark
    with pytest.raises(DamageFound):
        along.read(own[4].mark, 99, 1 << 30)
    along.close()


VALUES = {
    "marks": lambda log: log.stored_window(("a", 3)),
    "durables": lambda log: log.durables(),
    "clients": lambda log: log.newest_incarnation("a"),
    "origins": lambda log: (log.covered, log.begins_after),
    "kept": lambda log: log.replica_spans,
    "meta": lambda log: (log.origin, log.bounds.last),
    "histories": lambda log: log.history_chain.histories[0],
}


def with_values(folder: Path) -> LogFile:
    log = LogFile(folder, Retention(), sync=False)
    keeping = ReplicaBatch("far", (1, 0), (1, 4), chunk(1, 4, "own"), "c/far")
    for each in keeping.events:
        each.origin = "far"
    log.commit(
        Commit(
            marks=[(("a", 3), b"\0" * 24)],
            durables=[(b"a\0d", b"stored")],
            clients=[("a", b"newest")],
            covered={"far": (1, 9)},
            begins_after={"far": (1, 2)},
            replicas=[keeping],
        ),
        1,
        0,
    )
    log.close()
    return LogFile(folder, Retention(), sync=False)


@pytest.mark.parametrize("table", VALUES)
def test_a_damaged_value_is_had_of_its_copy(tmp_path: Path, table: str) -> None:
    log = with_values(tmp_path)
    before = VALUES[table](log)
    entries = log._env.begin().stat(log._env.open_db(table.encode()))["entries"]
    log.close()
    for nth in range(entries):
        for bit in (0, 5, 40, 75):
            damage_folder(tmp_path, table, partial(flipped, bit=bit), nth)
            again = LogFile(tmp_path, Retention(), sync=False)
            assert VALUES[table](again) == before, f"{table} {nth} {bit}"
            again.close()
            if table == "marks":
                damage_folder(tmp_path, table, partial(flipped, bit=bit), nth)
    again = LogFile(tmp_path, Retention(), sync=False)
    assert VALUES[table](again) == before and not again.startup_repairs.healed


def test_a_replica_that_was_damaged_is_named_and_written_again(tmp_path: Path) -> None:
    log = with_values(tmp_path)
    for bit in (45, 2900):
        damage_log(log, "kept", partial(flipped, bit=bit), 1)
        with pytest.raises(DamageFound) as caught:
            log.read_replica("far", (1, 0), 99, 1 << 30)
            log.read_replica("far", (1, 3), 99, 1 << 30)
        damage = caught.value.damage
        assert damage.table == "kept" and damage.origin == "far"
        made = chunk(1, 4, "own")
        for each in made:
            each.origin = "far"
        assert log.repair(damage, made) is None
        assert [e.offset for e in log.read_replica("far", (1, 0), 99, 1 << 30)] == [1, 2, 3, 4]


def test_a_log_with_a_lost_name_is_reported(tmp_path: Path) -> None:
    log = with_values(tmp_path)
    log.close()
    names: list[bytes] = []
    for table in ("meta", "copies"):
        for nth in range(20):
            try:
                key = damage_folder(
                    tmp_path, table, lambda v: v if b"~" not in v and v.isdigit() else v, nth
                )
            except AssertionError:
                break
            if key in (b"origin", b"morigin"):
                damage_folder(tmp_path, table, lambda v: flipped(v, 100), nth)
                names.append(key)
    assert names == [b"origin", b"morigin"]
    with pytest.raises(LogCorrupt, match="name of the event log"):
        LogFile(tmp_path, Retention(), sync=False)
