"""Hashes of keys for forged events are bounded for each sender."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from twisted.internet.task import Clock

from broker.cluster.signature_check import (
    MOST_REJECTED,
    REJECTED_PER_SECOND,
    SignatureCheck,
    SignaturePolicy,
)
from broker.event import origin as origin_names
from broker.event.origin import new_origin
from broker.event.place import Mark
from broker.event.record import join_record
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.batch_signer import BatchSigner
from tests.signatures.placed_event import PlacedEvent

KEY = SigningKey.generate()
PLAIN, DOCUMENT = b"\x99record", b"<d/>"


class Event(NamedTuple):
    mark: Mark
    record: bytes
    document: bytes


def signed_event(origin: str) -> Event:
    (proof,) = BatchSigner(KEY, origin).sign([PlacedEvent.of((1, 1), PLAIN, DOCUMENT)])
    return Event((1, 1), join_record(PLAIN, proof=proof), DOCUMENT)


class Site:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hashes = self.origins = 0
        self.clock = Clock()
        self.check = SignatureCheck(SignaturePolicy(), self.clock.seconds)
        hash_of_key = origin_names._hash_of_key

        def count(start: str, key: bytes) -> str:
            self.hashes += 1
            return hash_of_key(start, key)

        monkeypatch.setattr(origin_names, "_hash_of_key", count)

    def accepts(self, origin: str, sender: str) -> bool:
        return self.check.accepts_recovered(origin, [signed_event(origin)], sender)

    def send_forged(self, count: int, sender: str = "forger") -> int:
        """Send events of invented logs; return the number of hashes."""
        before = self.hashes
        for _ in range(count):
            self.origins += 1
            assert not self.accepts(f"9{self.origins:023x}", sender)
        return self.hashes - before


def test_forged_events_of_one_sender_cost_few_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch)
    known, new = (new_origin(ms, KEY.public.raw) for ms in (1_700_000_000_000, 1_700_000_001_000))
    assert site.accepts(known, "forger")
    assert site.send_forged(MOST_REJECTED) == MOST_REJECTED
    assert site.send_forged(100) == 0
    assert site.check.rejected == {"forger": MOST_REJECTED + 100}
    assert site.accepts(known, "forger"), "its key costs no hash"
    assert not site.accepts(new, "forger"), "it comes again"
    assert site.accepts(new, "other"), "others are not concerned"
    assert site.accepts(new, "forger")
    site.clock.advance(2.0)
    assert site.send_forged(100) == 2 * REJECTED_PER_SECOND
    site.clock.advance(1e6)
    assert site.send_forged(100) == MOST_REJECTED


def test_senders_without_a_count_of_their_own_share_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.cluster.signature_check.MOST_SENDERS", 1)
    site = Site(monkeypatch)
    site.send_forged(1, "first")
    hashes = sum(site.send_forged(10, f"forger{number}") for number in range(10))
    assert hashes == MOST_REJECTED
