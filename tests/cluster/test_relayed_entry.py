"""What becomes of events of other nodes in the log: each is logged, left out, or refused."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from broker.cluster.ingest_job import IngestJob
from broker.cluster.relayed_entry import RelayedEntries, build_entries, claimed_header
from broker.cluster.traffic.frame import FrameEvent, Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.errors import NotValid
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.placeholder import make_placeholder
from broker.log.deduplication import Deduplication
from broker.log.records import encode_header
from broker.matching.contract import Accepted, Refused, Verdict
from tests.cluster.traffic.frames import frame, node

FIELDS: tuple[Any, ...] = ("p", 5, 1, 7, "s", "t", "1.0", "low", "live")
NOBODYS = Header(EventId("refused", 0, 1, 0), "", "", "", SecurityLevel.HIGH, Liveness.LIVE)
_REFUSED = Refused(NotValid("no"))


def header(number: int) -> Header:
    event_id = EventId("p", 1, number, 1)
    return Header(event_id, f"s{number}", "t", "1.0", SecurityLevel.MED, Liveness.LIVE)


def carried(number: int) -> FrameEvent:
    return FrameEvent((1, number), encode_header(header(number)), b"%d" % number, 1)


def gathered(
    *verdicts: Verdict, all: bool = False, undecided: tuple[int, ...] = ()
) -> RelayedEntries:
    """Of events 1, 2, and so on; here is wanted what matches subscription 7."""
    told = Range(node("own"), (1, 0), (1, 9), is_unfiltered=all)
    events = [carried(n) for n in range(1, len(verdicts) + 1)]
    job = IngestJob(ReceivedRange(told, frame([told]), 0), events, lambda _: None)
    job.verdicts += verdicts
    job.undecided.update(undecided)
    deduplication = Deduplication(lambda _: None, 8)
    return build_entries(
        *(job, told, deduplication, 0, lambda numbers: 7 in numbers, lambda *_: "not-valid")
    )


@pytest.mark.parametrize("all", [False, True])
def test_of_all_that_came_only_what_is_wanted_here_is_logged(all: bool) -> None:
    verdicts = [Accepted(header(1), (7,)), Accepted(header(2), ()), Accepted(header(3), (7, 8))]
    found = gathered(*verdicts, all=all)
    # What was not asked for as all of it was chosen where it came from.
    assert [mark for mark, *_ in found.entries] == [(1, n) for n in ((1, 3) if all else (1, 2, 3))]
    assert found.matches == ([(7,), (7, 8)] if all else [(7,), (), (7, 8)])
    assert (found.unwanted, found.duplicate) == (int(all), 0)


@pytest.mark.parametrize("all", [False, True])
def test_undecided_and_refused_events_keep_their_places(all: bool) -> None:
    verdicts = [Accepted(header(1), (7,)), Accepted(header(2), ()), _REFUSED]
    found = gathered(*verdicts, all=all, undecided=(0, 1))
    assert found.entries == [
        *((each.mark, each.record, 1, each.document) for each in (carried(1), carried(2))),
        ((1, 3), carried(3).record, 1, make_placeholder("not-valid")),
    ]
    # Who reads the log judges the first two.
    assert found.undecided == [(1, 1), (1, 2)] and found.matches == [(), (), ()]
    assert found.streams == {"s1", "s2", "s3"}
    assert found.refused == {"not-valid": 1} and found.unwanted == 0


def test_an_event_that_is_known_from_another_place_is_not_logged_again() -> None:
    found = gathered(*[Accepted(header(1), (7,))] * 2)
    assert [mark for mark, *_ in found.entries] == [(1, 1)] and found.duplicate == 1


def claimed(at: int, value: object, level: int = 1) -> Header:
    """The claim where one field of the record is another."""
    fields = (*FIELDS[:at], value, *FIELDS[at + 1 :])
    return claimed_header(FrameEvent((1, 1), msgpack.packb(fields), b"", level))


def test_a_refused_event_keeps_the_header_that_its_sender_claims() -> None:
    # The frame tells the security level.
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
def test_a_claim_that_no_event_can_have_is_none(at: int, value: object) -> None:
    # Every node takes the same header instead.
    assert claimed(at, value, level=2) == NOBODYS
    assert claimed(at, value, level=9) == NOBODYS


@pytest.mark.parametrize("record", [b"", b"\x90", b"\xc1", b"no record", b"\x91" * 5000])
def test_a_record_that_can_not_be_read_claims_nothing(record: bytes) -> None:
    assert claimed_header(FrameEvent((1, 1), record, b"", 2)) == NOBODYS
    # The level is that of the frame: who is not cleared for the event gets no gap.
    assert claimed_header(FrameEvent((1, 1), record, b"", 0)).security_level is SecurityLevel.LOW
