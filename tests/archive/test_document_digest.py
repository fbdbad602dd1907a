from __future__ import annotations

from broker.archive.document_digest import are_intact, digest_of

DOCUMENT = b"<e/>"


def test_a_signed_event_may_have_either_digest() -> None:
    """Earlier versions stored a blake2b for all events."""
    blake2b, sha256 = digest_of(DOCUMENT), digest_of(DOCUMENT, is_signed=True)
    assert len(blake2b) == len(sha256) == 16 and blake2b != sha256
    assert are_intact([DOCUMENT] * 3, [blake2b, sha256, blake2b], [b"proof", b"proof", None])
    assert not are_intact([DOCUMENT], [sha256], [None])


def test_a_changed_document_does_not_match_its_digest() -> None:
    for proof in (None, b"proof"):
        digest = digest_of(DOCUMENT, is_signed=proof is not None)
        assert are_intact([DOCUMENT], [digest], [proof])
        assert not are_intact([b"<f/>"], [digest], [proof])
