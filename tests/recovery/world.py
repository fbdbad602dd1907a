"""A seeded archive and the expected result of a request to it.

Publishers move and repeat events, and clocks differ.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import msgpack
from lxml import etree

from broker.archive.archive import Archive
from broker.archive.writer import ArchiveWriter
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.event.annotation import annotation_of, with_annotation
from broker.event.envelope import (
    MAX_EVENT_TIME,
    NAMESPACE,
    EventType,
    Header,
    Liveness,
    SecurityLevel,
)
from broker.event.event_id import EventId
from broker.event.order_entry import OrderEntry, decode_order_entry, encode_order_entry
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.event.writer import write_event
from broker.log.logged_event import LoggedEvent, encode_header, header_from_fields
from broker.replay.request import ReplayRequest
from tests.replay.plain_order import Row, plainly, run_of, without_copies

CATALOGUE = Catalogue.load(shipped_folder())
ORIGINS = ("0a" * 8, "1b" * 8, "2c" * 8, "3d" * 8)
#: 2026-11-20T07:57 UTC, so that some events are of the next hour.
BEGIN = 1_795_161_420_000
STEP_MS = 5_000
STREAMS = ("asdi.zbw.tz", "asdi.zny.tz", "notes", "notes.more.of.them")
LEVELS = tuple(sorted(SecurityLevel))
NOTE = """<!ENTITY %% Mspaces.content ", note">
<!ENTITY %% Mspaces.envelope
 PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope %s//EN" "mspaces-%s.mod">
%%Mspaces.envelope;
<!ELEMENT note (#PCDATA)>
<!ATTLIST note kind CDATA "%s">
"""
#: The two versions of a type have different defaults in their DTDs.
KINDS = {"1.0": "old", "1.1": "new"}

PATTERNS = (">", "asdi.>", "asdi.*.tz", "notes", "notes.>", "nowhere.>")
QUERIES = (
    "true()",
    "/flight/id = 'UAL7'",
    "/flight/flightleg[altitude > 300]",
    "//flightleg[@status = 'active' and altitude < 250]",
    "/note/@kind = 'old'",
    "/note[@kind = 'new' and . != 'x']",
    "$StreamId = 'notes' or $ClientId = 'p1'",
    "$Liveness = 'recovery' and //altitude > 200",
    "$Liveness = 'live'",
    "$Securitylevel = 'high'",
    "$EventType = 'note' and $VersionNum = '1.0'",
    "sum(//altitude) > 700",
    "string-length(/note) > 3",
    "not(/flight)",
    "/odd/@x = '1' or //bogus",
    "$SequenceNumber mod 2 = 1",
)


@attrs.frozen
class World:
    """All events by place, each once, and the DTDs of all types except `odd`."""

    events: Mapping[tuple[str, Mark], LoggedEvent]
    rows: Mapping[tuple[str, Mark], Row]
    dtds: Mapping[DtdReference, bytes]
    copies: Counter[tuple[str, Mark]] = attrs.field(factory=Counter)
    """Number of times that `archive_world` wrote each place."""
    made_from: tuple[int, int] = (0, 0)
    """Arguments of `make_world`."""

    def upto(self, origin: str) -> Mark:
        return max(mark for name, mark in self.events if name == origin)


def make_world(seed: int, *, events: int = 120) -> World:
    return attrs.evolve(_make_world(seed, events), copies=Counter())


@lru_cache(maxsize=8)
def _make_world(seed: int, events: int) -> World:
    rng = random.Random(f"world {seed}")
    found: dict[tuple[str, Mark], LoggedEvent] = {}
    rows: dict[tuple[str, Mark], Row] = {}
    written: dict[tuple[int, int], tuple[Header, bytes]] = {}
    for row in sorted(run_of(seed, events=events), key=lambda row: row.arrival):
        row = row._replace(arrival=BEGIN + (row.arrival - 1000) * STEP_MS)
        ids = (row.publisher, row.sequence)
        if ids not in written:
            header, document = _document(row, rng)
            written[ids] = header._replace(time=_own_time(row)), document
        header, document = written[ids]
        place = (ORIGINS[row.origin], (row.epoch, row.offset))
        rows[place] = row
        found[place] = LoggedEvent(
            *(row.epoch, row.offset, row.arrival, header.security_level.rank),
            *(with_annotation(encode_header(header), _annotation(row)), document),
            *(ORIGINS[row.origin], 0),
        )
    dtds = {}
    for version, kind in KINDS.items():
        note = DtdReference("note", version)
        text = (NOTE % (version, version, kind)).encode()
        dtds[note] = Dtd.load(note, text, CATALOGUE.read).text
        flight = DtdReference("flight", version)
        shipped = CATALOGUE.read(flight.public_id, flight.system_id)
        assert shipped is not None
        dtds[flight] = Dtd.load(flight, shipped, CATALOGUE.read).text
    return World(dict(sorted(found.items())), rows, dtds, made_from=(seed, events))


def _own_time(row: Row) -> int | None:
    """Half of the events have one, which says little of the arrival."""
    rng = random.Random(f"time {row.publisher} {row.sequence}")
    return rng.choice([None, None, rng.randrange(100), MAX_EVENT_TIME])


def _annotation(row: Row) -> bytes:
    if row.stack < 0:
        return b""
    return encode_order_entry(
        OrderEntry("ops", f"site-{row.stack_site}", 1, 1, row.stack_order, "logical")
    )


def _document(row: Row, rng: random.Random) -> tuple[Header, bytes]:
    kind = rng.choice(["flight", "flight", "flight", "note", "note", "odd", "event"])
    version = rng.choice(["1.0", "1.1"])
    altitude = rng.randrange(100, 450)
    status = rng.choice([' status="active"', ""])
    bogus = rng.random() < 0.05
    payload = {
        "flight": f"<flight><id>UAL{rng.randrange(9)}</id><flightleg{status}>"
        f"<altitude>{altitude}</altitude></flightleg>{'<bogus/>' * bogus}</flight>",
        "note": rng.choice(["<note>x</note>", "<note>longer</note>", '<note kind="old">y</note>']),
        "odd": f'<odd x="{rng.randrange(3)}"/>',
        "event": None,
    }[kind]
    level = rng.choice(LEVELS)
    liveness = rng.choice([Liveness.LIVE, Liveness.LIVE, Liveness.RECOVERY])
    identity = EventId(f"p{row.publisher}", row.timestamp, row.sequence, 1)
    stream = rng.choice(STREAMS)
    document = write_event(
        *(identity, stream),
        EventType(kind, version, security_level=level, liveness=liveness),
        None if payload is None else payload.encode(),
    )
    return Header(identity, stream, kind, version, level, liveness), document


def archive_world(world: World, uri: str, seed: int) -> Archive:
    """Archive in several flushes. Another node writes some of them too, with other stamps: messages
    have moved since."""
    files, copies = _archived_files(world.made_from, seed)
    for name, content in files.items():
        path = Path(uri, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    world.copies.update(copies)
    return Archive.open(uri)


@lru_cache(maxsize=8)
def _archived_files(
    made_from: tuple[int, int], seed: int
) -> tuple[dict[str, bytes], Counter[tuple[str, Mark]]]:
    """Return the files of an archive, and `World.copies`. Many tests write the same archive."""
    world = make_world(made_from[0], events=made_from[1])
    with TemporaryDirectory() as folder:
        _write_archive(world, folder, seed)
        root = Path(folder)
        found = {
            str(path.relative_to(root)): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }
    return found, world.copies


def _write_archive(world: World, folder: str, seed: int) -> None:
    rng, moves = random.Random(f"archive {seed}"), random.Random(f"moves {seed}")
    archive = Archive.open(folder)
    for origin in sorted({name for name, _ in world.events}):
        mine = ArchiveWriter(archive, f"node-{origin}", lambda: BEGIN)
        other = ArchiveWriter(archive, f"keeper-{origin}", lambda: BEGIN)
        events = [event for (name, _), event in world.events.items() if name == origin]
        after = (0, 0)
        while events:
            size = rng.randrange(1, 25)
            flush, events = events[:size], events[size:]
            written = {mine: flush}
            if rng.random() < 0.2:
                written[other] = [_before_move(event, moves) for event in flush]
            for writer in moves.sample([*written], len(written)):
                covers = [(origin, after, flush[-1].mark)]
                writer.write(covers, written[writer], world.dtds)
                world.copies.update((origin, event.mark) for event in flush)
            after = flush[-1].mark


def _before_move(event: LoggedEvent, rng: random.Random) -> LoggedEvent:
    """Return an event with a higher stamp than it has, or without a stamp."""
    entry = decode_order_entry(annotation_of(event.record))
    if entry is None or entry.stamp is None:
        return event
    before = attrs.evolve(entry, stamp=rng.choice([None, entry.stamp + rng.randrange(9)]))
    return attrs.evolve(event, record=with_annotation(event.record, encode_order_entry(before)))


def some_requests(world: World, seed: int, count: int) -> list[ReplayRequest]:
    """Generate requests of all kinds except bundles."""
    rng, times = random.Random(f"requests {seed}"), random.Random(f"times {seed}")
    origins = sorted({name for name, _ in world.events})
    found = []
    for _ in range(count):
        ranges: dict[str, tuple[Mark, Mark | None]] = {}
        for origin in origins:
            if rng.random() < 0.6:
                marks = [(0, 0), *(mark for name, mark in world.events if name == origin)]
                low, high = sorted(rng.choices(marks, k=2))
                ranges[origin] = (low, rng.choice([None, None, high]))
        length = BEGIN + 120 * STEP_MS
        found.append(
            ReplayRequest(
                *(rng.choice(PATTERNS[:5]), rng.choice(QUERIES)),
                clearance=rng.choice([0, 1, 2, 2]),
                ranges=ranges,
                others=rng.random() < 0.7,
                from_ms=rng.choice([0, 0, rng.randrange(BEGIN, length)]),
                until_ms=rng.choice([0, 0, 0, length, length + 3_600_000]),
                event_times=times.choice([(0, 0), (0, 0), (20, 0), (0, 60), (10, MAX_EVENT_TIME)]),
                last=rng.choice([0, 0, 0, 1, 5]),
                order=rng.choice(["publisher", "publisher", "place"]),
            )
        )
    return found


# ------------------------------------------------------------------------ expected results


def selects(world: World, query: str, event: LoggedEvent) -> bool:
    root = etree.fromstring(event.document)
    header = header_of(event)
    dtd = _dtd(world, DtdReference(header.type_name, header.version))
    if dtd is not None:
        dtd.apply_defaults(root)
    payload = root[-1] if not root[-1].tag.startswith(f"{{{NAMESPACE}}}") else None
    context = root if payload is None else etree.fromstring(etree.tostring(payload))
    variables: dict[str, Any] = {
        "StreamId": header.stream,
        "ClientId": header.event_id.client_id,
        "SequenceNumber": float(header.event_id.sequence_number),
        "VersionNum": header.version,
        "EventType": header.type_name,
        "Securitylevel": header.security_level.value,
        "Liveness": "recovery",
    }
    return bool(etree.XPath(f"boolean({query})", regexp=False)(context, **variables))


_DTDS: dict[tuple[DtdReference, bytes], Dtd] = {}


def _dtd(world: World, reference: DtdReference) -> Dtd | None:
    text = world.dtds.get(reference) or CATALOGUE.read(reference.public_id, reference.system_id)
    if text is None:
        return None
    if (reference, text) not in _DTDS:
        _DTDS[reference, text] = Dtd.load(reference, text, CATALOGUE.read)
    return _DTDS[reference, text]


def header_of(event: LoggedEvent) -> Header:
    return header_from_fields(msgpack.unpackb(event.record))


@attrs.frozen
class Expected:
    places: list[tuple[str, Mark]]
    denied: int
    duplicates: int


def expected(world: World, request: ReplayRequest) -> Expected:
    """Compute the result by a scan of all events."""
    pattern = request.stream_pattern()
    had = {
        _identity(world.rows[origin, mark])
        for origin, mark in world.events
        if request.ranges.get(origin, ((0, 0), None))[0] >= mark
    }
    found, denied = [], 0
    for (origin, mark), event in world.events.items():
        wanted = request.range_of(origin)
        if (
            wanted is None
            or not wanted[0] < mark
            or (wanted[1] is not None and mark > wanted[1])
            or event.arrival < request.from_ms
            or (request.until_ms and event.arrival >= request.until_ms)
            or not _has_time_within(event, *request.event_times)
            or not _matches(pattern, event)
        ):
            continue
        if event.level > request.clearance:
            denied += world.copies[origin, mark]
        elif selects(world, request.query, event):
            found.append(world.rows[origin, mark])
    fresh = [row for row in found if _identity(row) not in had]
    stacks = request.order == "place"
    if request.last:
        latest = sorted(fresh, key=lambda row: (row.arrival, *row[:3]), reverse=True)
        got = plainly(without_copies(latest)[: request.last], stacks=stacks)
    else:
        got = without_copies(plainly(fresh, stacks=stacks))
    places = [(ORIGINS[row.origin], (row.epoch, row.offset)) for row in got]
    return Expected(places, denied, len(found) - len(without_copies(fresh)))


def _has_time_within(event: LoggedEvent, begin: int, end: int) -> bool:
    time = header_of(event).time
    if time is None:
        return (begin, end) == (0, 0)
    return time >= begin and (end == 0 or time < end)


def _matches(pattern: StreamPattern, event: LoggedEvent) -> bool:
    return pattern.matches(header_of(event).stream)


def _identity(row: Row) -> tuple[int, int]:
    return (row.publisher, row.sequence)
