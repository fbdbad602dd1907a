"""The archiver signs events that the node has not signed."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from broker.archive.table import batch_to_events, events_to_batch
from broker.archive.verification import Verification
from broker.event.annotation import annotation_of, with_annotation
from broker.event.placeholder import make_placeholder
from broker.event.record import proof_of, with_proof
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.batch_signer import BatchSigner
from broker.signatures.event_check import SignatureCounts, find_forged
from tests.archive.events import events
from tests.archiver.archived_node import Site

KEY = SigningKey.generate()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "own", key=KEY)
    yield made
    made.close()


def test_archived_events_are_signed(site: Site) -> None:
    site.log_more(100)
    assert not any(proof_of(each.record) for each in site.log.read(1, 1_000, 1 << 20))
    site.carry()
    archived, counts = site.archived(), SignatureCounts()
    assert len(archived) == 100
    assert not list(find_forged(site.origin, archived, must_sign=True, counts=counts))
    assert counts == SignatureCounts(signed=100)
    assert Verification(site.open()).run().faults == []


def test_rows_with_a_proof_keep_it(site: Site) -> None:
    signer = BatchSigner(KEY, site.origin)
    made = events(range(1, 6), origin=site.origin)
    made[1].record = with_annotation(made[1].record, b"note")
    made[3].document = make_placeholder("refused", b"<e/>")
    earlier = batch_to_events(events_to_batch(made, signer))
    for index in (0, 2):
        made[index].record = with_proof(made[index].record, proof_of(earlier[index].record))
    rows = events_to_batch(made, signer)
    found = batch_to_events(rows)
    assert [found[index].record for index in (0, 2)] == [earlier[index].record for index in (0, 2)]
    assert found[1].record != earlier[1].record and annotation_of(found[1].record) == b"note"
    assert [each.document for each in found] == [each.document for each in made]
    assert not list(find_forged(site.origin, found, must_sign=True))
    digests = [sha256(each.document).digest()[:16] for each in made]
    assert rows.column("digest").to_pylist() == digests
    assert batch_to_events(events_to_batch(found)) and events_to_batch(found).equals(rows)
