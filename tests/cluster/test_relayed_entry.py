from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import pytest

from broker.cluster.ingest_job import IngestJob
from broker.cluster.relayed_entry import RelayedEntries, build_entries, claimed_header
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.errors import NotValid
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.placeholder import make_placeholder
from broker.log.deduplication import Deduplication
from broker.log.logged_event import encode_header
from broker.matching.contract import Accepted, Refused, Verdict
from broker.streams.contract import CarriedEvent
from tests.cluster.traffic.frames import frame, node

FIELDS: tuple[Any, ...] = ("p", 5, 1, 7, "s", "t", "1.0", "low", "live")
NOBODYS = Header(EventId("refused", 0, 1, 0), "", "", "", SecurityLevel.HIGH, Liveness.LIVE)
_REFUSED = Refused(NotValid("no"))


def header(number: int) -> Header:
    event_id = EventId("p", 1, number, 1)
    return Header(event_id, f"s{number}", "t", "1.0", SecurityLevel.MED, Liveness.LIVE)


def carried(number: int) -> CarriedEvent:
    return CarriedEvent((1, number), encode_header(header(number)), b"%d" % number, 1)


def gathered(
    *verdicts: Verdict,
    all: bool = False,
    undecided: tuple[int, ...] = (),
    events: Sequence[CarriedEvent] = (),
) -> RelayedEntries:
    """Return the entries of events 1, 2, and so on; subscription 7 is local."""
    told = Range(node("own"), (1, 0), (1, 9), is_unfiltered=all)
    events = events or [carried(n) for n in range(1, len(verdicts) + 1)]
    job = IngestJob(ReceivedRange(told, frame([told]), 0), events, lambda _: None)
    job.verdicts += verdicts
    job.undecided.update(undecided)
    deduplication = Deduplication(lambda _: None, 8)
    return build_entries(
        *(job, told, deduplication, 0, lambda numbers: 7 in numbers, lambda *_: "not-valid")
    )


@pytest.mark.parametrize("all", [False, True])
def test_of_unfiltered_ranges_only_local_matches_are_logged(all: bool) -> None:
    verdicts = [Accepted(header(1), (7,)), Accepted(header(2), ()), Accepted(header(3), (7, 8))]
    found = gathered(*verdicts, all=all)
    # Filtered ranges were selected by their sender.
    assert [mark for mark, *_ in found.entries] == [(1, n) for n in ((1, 3) if all else (1, 2, 3))]
    assert found.matches == ([(7,), (7, 8)] if all else [(7,), (), (7, 8)])
    assert (found.unwanted, found.duplicate) == (int(all), 0)


@pytest.mark.parametrize("all", [False, True])
def test_undecided_and_refused_events_keep_their_places(all: bool) -> None:
    verdicts: list[Verdict] = [Accepted(header(1), (7,)), Accepted(header(2), ()), _REFUSED]
    found = gathered(*verdicts, all=all, undecided=(0, 1))
    assert found.entries == [
        *((each.mark, each.record, 1, each.document) for each in (carried(1), carried(2))),
        ((1, 3), carried(3).record, 1, make_placeholder("not-valid", carried(3).document)),
    ]
    # The first two are judged when they are read from the log.
    assert found.undecided == [(1, 1), (1, 2)] and found.matches == [(), (), ()]
    assert found.streams == {"s1", "s2", "s3"}
    assert found.refused == {"not-valid": 1} and found.unwanted == 0


def test_an_accepted_event_keeps_its_annotation_and_a_refused_one_drops_it() -> None:
    verdicts: list[Verdict] = [Accepted(header(1), (7,)), _REFUSED, Accepted(header(3), (7,))]
    events = [carried(n).with_annotation(b"a%d" % n) for n in (1, 2, 3)]
    too_long = msgpack.packb(bytes(1_025))
    events[2] = carried(3)._replace(record=b"\x9a" + carried(3).record[1:] + too_long)
    found = gathered(*verdicts, events=events)
    assert [record for _, record, _, _ in found.entries] == [
        events[0].record,
        carried(2).record,
        carried(3).record,
    ]
    assert claimed_header(events[1]) == claimed_header(carried(2)) == header(2)
    assert claimed_header(events[2])._replace(security_level=SecurityLevel.HIGH) == NOBODYS


def test_an_event_logged_under_another_place_is_a_duplicate() -> None:
    found = gathered(*[Accepted(header(1), (7,))] * 2)
    assert [mark for mark, *_ in found.entries] == [(1, 1)] and found.duplicate == 1


def claimed(at: int, value: object, level: int = 1) -> Header:
    """Return the claim after one field of the record is replaced."""
    fields = (*FIELDS[:at], value, *FIELDS[at + 1 :])
    return claimed_header(CarriedEvent((1, 1), msgpack.packb(fields), b"", level))


def test_a_refused_event_keeps_the_claimed_header() -> None:
    # The frame has the security level.
    claim = Header(EventId("p", 5, 1, 7), "s", "t", "1.0", SecurityLevel.MED, Liveness.LIVE)
    assert claimed(0, "p") == claim
    for at in (1, 2, 3):
        for number in (0, (1 << 63) - 1):
            assert claimed(at, number).event_id[at] == number
    assert claimed(5, "t" * 64).type_name == "t" * 64
    assert claimed(6, "1" * 64).version == "1" * 64


@pytest.mark.parametrize(
    ("at", "value"),
    [
        *((at, value) for at in (1, 2, 3) for value in (-1, 1 << 63, 1.0, True, "1", None)),
        *((at, value) for at in (5, 6) for value in ("t" * 65, 1, None, b"t", ("t",))),
        *((0, value) for value in ("", "p" * 65, "a/b", 1, ("p",))),
        *((4, value) for value in ("", "a..b", "a/b", 1, ("s",))),
        *((at, value) for at in (7, 8) for value in (1, "lower", ())),
    ],
)
def test_an_impossible_claim_is_replaced(at: int, value: object) -> None:
    # Every node logs the same replacement header.
    assert claimed(at, value, level=2) == NOBODYS
    assert claimed(at, value, level=9) == NOBODYS


@pytest.mark.parametrize("record", [b"", b"\x90", b"\xc1", b"no record", b"\x91" * 5000])
def test_a_malformed_record_is_replaced(record: bytes) -> None:
    assert claimed_header(CarriedEvent((1, 1), record, b"", 2)) == NOBODYS
    # A subscriber without clearance gets no gap.
    assert claimed_header(CarriedEvent((1, 1), record, b"", 0)).security_level is SecurityLevel.LOW
