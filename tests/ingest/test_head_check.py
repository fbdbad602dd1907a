from __future__ import annotations

from typing import Any

import pytest

from broker.event.envelope import EventType, SecurityLevel
from broker.event.event_id import EventId
from broker.event.stream import StreamPattern
from broker.event.writer import write_event
from broker.identity import Identity
from broker.identity.rights import Rights
from broker.ingest.head_check import check_heads
from broker.ingest.publisher import Publisher
from broker.wire.event_batch import Batch
from tests.ingest.input_fakes import Setting


def identity(*publish: str, clearance: SecurityLevel = SecurityLevel.MED) -> Identity:
    rights = Rights(publish=tuple(map(StreamPattern.parse, publish)))
    return Identity("acc", "alice", rights, clearance, administer=False)


def publisher(*publish: str, **others: Any) -> Publisher:
    return Publisher(lambda: None, identity(*publish, **others), 1, lambda _: None)


def event(stream: str, *, level: str = "low", client: str = "alice", number: int = 1) -> bytes:
    kind = EventType("flight", "1.0", security_level=SecurityLevel(level))
    return write_event(EventId(client, 1, number, 1), stream, kind, b"<a/>")


def codes(of: Publisher, *documents: bytes) -> dict[int, str]:
    return {index: error.code for index, error in check_heads(of, documents).items()}


def test_the_rights_to_stream_level_and_client_id_are_checked_on_the_head() -> None:
    documents = [
        event("a.x"),
        event("b"),
        event("a.x", level="high", number=2),
        event("a.x", client="bob"),
        event("a.y", level="high"),
        event("a.x", number=3),
    ]
    assert codes(publisher("a.>"), *documents) == {
        1: "not-allowed",
        2: "clearance-too-low",
        3: "forged-identity",
        4: "clearance-too-low",
    }
    high = publisher("a.>", clearance=SecurityLevel.HIGH)
    assert set(codes(high, *documents)) == {1, 3}


@pytest.mark.parametrize("document", [b"x", b"", b"<a/>", b"<" * 100_000, b" " * 100_000])
def test_an_account_that_may_publish_nothing_is_refused_whatever_it_sends(document: bytes) -> None:
    assert codes(publisher(), document) == {0: "not-allowed"}
    assert codes(publisher("a"), document) == {}


def test_a_level_counts_only_in_the_type() -> None:
    head = event("a").partition(b"<Mspaces:EventType")[0]
    first, separator, rest = head.partition(b">")
    document = first + b' Securitylevel="high"' + separator + rest
    of = publisher("a")
    assert codes(of, document) == {} and of.permitted_head is not None


def test_a_new_identity_is_checked_again() -> None:
    of = publisher("a")
    assert codes(of, event("a")) == {}
    of.identity = identity("b")
    assert codes(of, event("a")) == {0: "not-allowed"}


def test_documents_without_the_right_are_neither_matched_nor_quarantined() -> None:
    setting = Setting()
    setting.publisher.identity = identity()
    setting.publish(1, "1", "refuse", "x")
    setting.log.commit()
    assert setting.matcher.calls == [] and setting.quarantine.kept == []
    (answer,) = setting.answers
    assert [error[0] for _, error in answer.refused] == ["not-allowed"] * 3  # type: ignore[union-attr]
    setting.check()


def test_refused_heads_keep_their_places_among_matched_documents() -> None:
    setting = Setting()
    setting.publisher.identity = identity("s")
    setting.matcher.fitting = 1
    documents = [event("b"), b"1", event("b", number=2), b"2", b"refuse", event("b", number=3)]
    setting.publisher.add_batch(Batch(1, documents))
    while setting.publisher.is_ready:
        setting.input.ingest_waiting(setting.publisher, 10, 1.0)
    setting.log.commit()
    (answer,) = setting.answers
    assert [(index, error[0]) for index, error in answer.refused] == [  # type: ignore[union-attr]
        (0, "not-allowed"),
        (2, "not-allowed"),
        (4, "not-valid"),
        (5, "not-allowed"),
    ]
    assert [each for documents, _ in setting.committed for each in documents] == [b"1", b"2"]
    assert [document for document, _ in setting.quarantine.kept] == [b"refuse"]
    setting.check()
