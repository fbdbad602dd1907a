"""The archiver signs events that the node has not signed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.archive.table import batch_to_events, events_to_batch
from broker.archive.verification import Verification
from broker.archiver.row_signing import sign_rows
from broker.event.annotation import with_annotation
from broker.event.record import proof_of
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
    made[2].record = with_annotation(made[2].record, b"note")
    rows = sign_rows(events_to_batch(made[1:3]), signer)
    assert sign_rows(rows, signer) is rows
    mixed = [*events_to_batch(made[:1]).to_pylist(), *rows.to_pylist()]
    again = sign_rows(rows.from_pylist(mixed, schema=rows.schema), signer)
    assert again.column("proof").to_pylist()[1:] == rows.column("proof").to_pylist()
    found = batch_to_events(again)
    assert [each.document for each in found] == [each.document for each in made[:3]]
    assert not list(find_forged(site.origin, found, must_sign=True))
