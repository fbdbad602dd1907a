"""Own events are signed when they are committed or read; the log's name belongs to the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.event.annotation import annotation_of, with_annotation
from broker.event.flow import CarryingPatterns, make_flow
from broker.event.origin import is_signed_origin, origin_has_key
from broker.event.record import proof_of, with_proof
from broker.log.commit import Commit, Retention
from broker.log.log_file import LogFile
from broker.log.log_verification import Verification, VerificationResult
from broker.log.logged_event import LoggedEvent
from broker.log.own_key import OwnKey
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.event_check import SignatureCounts, find_forged
from tests.log.test_log_file import RECORD

KEY = SigningKey.generate()
NOTE = b"note of the transport"


def open_log(folder: Path, key: OwnKey | None) -> LogFile:
    return LogFile(folder, Retention(), sync=False, own_key=key or OwnKey())


def own(log: LogFile, count: int, record: bytes = RECORD, flow: str = "") -> list[LoggedEvent]:
    bounds = log.bounds
    return [
        LoggedEvent(
            *(bounds.epoch, bounds.offset + i, 1, 1, record, b"<d>%d</d>" % i),
            *(flow or log.origin, bounds.last + i),
        )
        for i in range(1, count + 1)
    ]


def commit(log: LogFile, events: list[LoggedEvent]) -> None:
    log.commit(Commit(events, covered={log.origin: events[-1].mark}), log.bounds.epoch, 0)


def verified(folder: Path) -> VerificationResult:
    verification = Verification(folder)
    try:
        return verification.verify(verification.rank_metas()[0], lambda *_: None)
    finally:
        verification.close()


def test_own_events_are_signed_and_keep_their_annotations(tmp_path: Path) -> None:
    log = open_log(tmp_path, OwnKey(KEY))
    assert origin_has_key(log.origin, KEY.public.raw)
    commit(log, own(log, 40))
    commit(log, own(log, 1, with_annotation(RECORD, NOTE)))
    foreign = LoggedEvent(1, 1, 1, 1, RECORD, b"<d/>", "0123456789abcdef", log.bounds.last + 1)
    log.commit(Commit([foreign], covered={foreign.origin: (1, 1)}), log.bounds.epoch, 0)
    events = log.read(1, 100, 1 << 20)
    assert [bool(proof_of(each.record)) for each in events] == [True] * 41 + [False]
    assert annotation_of(events[40].record) == NOTE
    counts = SignatureCounts()
    assert not list(find_forged(log.origin, events[:41], must_sign=True, counts=counts))
    assert counts == SignatureCounts(signed=41)
    log.close()
    assert verified(tmp_path).signatures == SignatureCounts(signed=41, unsigned=1)


def test_a_node_alone_signs_events_when_another_node_reads_them(tmp_path: Path) -> None:
    log = open_log(tmp_path, OwnKey(KEY, signs_commits=False))
    commit(log, [*own(log, 2), *own(log, 1, with_annotation(RECORD, NOTE))])
    assert not any(proof_of(each.record) for each in log.read(1, 9, 1 << 20))
    local = log.read_unsigned(log.origin, (0, 0), 9, 1 << 20)
    assert len(local) == 3 and not any(proof_of(each.record) for each in local)
    for _ in range(2):
        events = log.read_origin(log.origin, (0, 0), 9, 1 << 20)
        assert len(events) == 3 and annotation_of(events[2].record) == NOTE
        assert not list(find_forged(log.origin, events, must_sign=True))
    log.close()
    result = verified(tmp_path)
    assert result.signatures == SignatureCounts(unsigned=3) and not result.findings


def test_events_with_a_proof_of_another_version_are_signed_again(tmp_path: Path) -> None:
    log = open_log(tmp_path, OwnKey(KEY))
    commit(log, own(log, 1))
    (event,) = log.read(1, 9, 1 << 20)
    event.record = with_proof(event.record, b"\x01" + proof_of(event.record)[1:])
    assert list(find_forged(log.origin, [event], must_sign=True))
    log.sign_own([event])
    assert not list(find_forged(log.origin, [event], must_sign=True))
    log.close()


@pytest.mark.parametrize("signs_commits", [False, True])
def test_an_event_at_another_place_gets_another_proof(tmp_path: Path, signs_commits: bool) -> None:
    log = open_log(tmp_path, OwnKey(KEY, signs_commits=signs_commits))
    commit(log, own(log, 1))
    (first,) = log.read_origin(log.origin, (0, 0), 9, 1 << 20)
    commit(log, own(log, 1, first.record))
    assert not list(find_forged(log.origin, log.read(2, 9, 1 << 20), must_sign=True))
    log.close()


def test_a_changed_event_is_found(tmp_path: Path) -> None:
    log = open_log(tmp_path, OwnKey(KEY))
    signed = own(log, 3)
    commit(log, signed)
    forged = LoggedEvent(
        *(signed[1].epoch, signed[1].offset, 1, 1, signed[1].record, b"<d>forged</d>"),
        *(log.origin, 4),
    )
    log.close()
    # A tool with access to the disk, without the key.
    log = open_log(tmp_path, None)
    log.commit(Commit([forged]), log.bounds.epoch, 0)
    log.close()
    result = verified(tmp_path)
    assert result.signatures == SignatureCounts(signed=3)
    (finding,) = result.findings
    assert (finding.kind, finding.origin, finding.serials) == ("signature", forged.origin, (4, 4))


def test_events_of_own_flows_are_signed(tmp_path: Path) -> None:
    log = open_log(tmp_path, OwnKey(KEY))
    log.update_flows(CarryingPatterns.parse(["s"]), None)
    flow = make_flow(log.origin, "s")
    events = own(log, 2, flow=flow)
    commit(log, events)
    assert not list(find_forged(flow, events, must_sign=True))
    assert not list(find_forged(log.origin, log.read(1, 9, 1 << 20), must_sign=True))


def test_a_log_of_an_earlier_version_keeps_its_name_and_is_not_signed(tmp_path: Path) -> None:
    log = open_log(tmp_path, None)
    earlier = log.origin
    commit(log, own(log, 1))
    log.close()
    log = open_log(tmp_path, OwnKey(KEY))
    assert log.origin == earlier and not is_signed_origin(earlier)
    commit(log, own(log, 1))
    assert [proof_of(each.record) for each in log.read(1, 9, 1 << 20)] == [b"", b""]
    log.close()
    # `network.require_signatures`
    log = open_log(tmp_path, OwnKey(KEY, must_sign=True))
    assert origin_has_key(log.origin, KEY.public.raw)
    assert log.pending_adoption is not None and log.pending_adoption.origin == earlier
    assert not log.pending_adoption.is_continued
    name = log.origin
    commit(log, own(log, 1))
    log.close()
    log = open_log(tmp_path, OwnKey(KEY, must_sign=True))
    assert log.origin == name
    assert [bool(proof_of(each.record)) for each in log.read(1, 9, 1 << 20)] == [False, False, True]
    log.close()


def test_another_key_gives_the_log_another_name(tmp_path: Path) -> None:
    log = open_log(tmp_path, OwnKey(KEY))
    earlier = log.origin
    commit(log, own(log, 2))
    log.close()
    other = SigningKey.generate()
    log = open_log(tmp_path, OwnKey(other))
    assert log.origin != earlier and origin_has_key(log.origin, other.public.raw)
    commit(log, own(log, 1))
    found = log.read(1, 9, 1 << 20)
    assert [each.origin for each in found] == [earlier, earlier, log.origin]
    assert not list(find_forged(earlier, found[:2], must_sign=True))
    assert not list(find_forged(log.origin, found[2:], must_sign=True))
    log.close()
