from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import BadSignature
from broker.event.origin import (
    ORIGIN,
    is_signed_origin,
    new_origin,
    origin_has_key,
    origin_start_ms,
)
from broker.event.placeholder import make_placeholder, placeholder_code
from broker.event.record import MAX_PROOF_BYTES, join_record
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.batch_signer import BatchSigner
from broker.signatures.leaf import HASH_BYTES, EventFields
from broker.signatures.proof import GROUP_LEAVES, MOST_LEAVES, VERSION, decode_proof, encode_proof
from broker.signatures.verification import MOST_FOREIGN_KEYS, ProofChecker
from tests.signatures.placed_event import PlacedEvent

KEY, OTHER_KEY = SigningKey.generate(), SigningKey.generate()
ORIGIN_NAME = new_origin(1_700_000_000_000, KEY.public.raw)
SIGNER = BatchSigner(KEY, ORIGIN_NAME)
#: Around the sizes of a group and of a batch.
COUNTS = [1, 2, 7, 8, 9, 17, 63, 64, 65, 70]


placed = PlacedEvent.of


def document(index: int) -> bytes:
    return b"<d>%d</d>" % index


def events(count: int) -> list[PlacedEvent]:
    return [placed((3, i + 1), b"\x99record%d" % i, document(i)) for i in range(count)]


def check(checker: ProofChecker, event: PlacedEvent, proof: bytes) -> EventFields | None:
    return checker.check(event.mark, join_record(event.record, proof=proof), event.digest)


def is_accepted(event: PlacedEvent, proof: bytes, origin: str = ORIGIN_NAME) -> bool:
    try:
        return check(ProofChecker(origin), event, proof) == event
    except BadSignature:
        return False


@pytest.mark.parametrize("count", COUNTS)
def test_each_event_of_a_batch_is_checked_alone_and_together(count: int) -> None:
    signed = events(count)
    proofs = SIGNER.sign(signed)
    assert all(map(is_accepted, signed, proofs))
    checker = ProofChecker(ORIGIN_NAME)
    for event, proof in zip(reversed(signed), reversed(proofs), strict=True):
        check(checker, event, proof)
    assert max(map(len, proofs)) <= MAX_PROOF_BYTES
    assert len({decode_proof(each).signature for each in proofs}) == -(-count // MOST_LEAVES)


@given(st.data())
def test_any_subset_in_any_order_is_accepted(data: st.DataObject) -> None:
    signed = events(data.draw(st.sampled_from(COUNTS)))
    proofs = SIGNER.sign(signed)
    chosen = data.draw(st.lists(st.sampled_from(range(len(signed))), max_size=40))
    checker = ProofChecker(ORIGIN_NAME)
    for index in chosen:
        check(checker, signed[index], proofs[index])


@pytest.mark.parametrize("checked_first", [False, True])
@pytest.mark.parametrize("count", COUNTS)
def test_another_place_header_or_document_is_rejected(count: int, checked_first: bool) -> None:
    signed = events(count)
    proofs = SIGNER.sign(signed)
    checker = ProofChecker(ORIGIN_NAME)
    if checked_first:
        for event, proof in zip(signed, proofs, strict=True):
            check(checker, event, proof)
    event, proof = signed[-1], proofs[-1]
    for forged in (
        event._replace(mark=(4, event.mark[1])),
        event._replace(mark=(3, event.mark[1] + 1)),
        event._replace(record=event.record + b"x"),
        placed(event.mark, event.record, b"<d>forged</d>"),
    ):
        with pytest.raises(BadSignature):
            check(checker, forged, proof)
    check(checker, event, proof)


@given(st.sampled_from(COUNTS), st.data())
def test_a_changed_proof_is_rejected(count: int, data: st.DataObject) -> None:
    signed = events(count)
    proofs = SIGNER.sign(signed)
    index = data.draw(st.integers(0, count - 1))
    proof = bytearray(proofs[index])
    proof[data.draw(st.integers(0, len(proof) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    checker = ProofChecker(ORIGIN_NAME)
    if data.draw(st.booleans()):
        check(checker, signed[index], proofs[index])
    with pytest.raises(BadSignature):
        check(checker, signed[index], bytes(proof))


@given(st.binary(max_size=400))
def test_any_bytes_as_a_proof_are_rejected(proof: bytes) -> None:
    assert not is_accepted(events(1)[0], proof)
    assert not is_accepted(events(1)[0], bytes((VERSION,)) + proof)


def test_a_placeholder_has_the_proof_of_its_event() -> None:
    event, other = events(2)
    proof, _ = SIGNER.sign([event, other])
    placeholder = make_placeholder("not-valid", document(0))
    assert is_accepted(placed(event.mark, event.record, placeholder), proof)
    # A relay rejects the placeholder with another code.
    again = make_placeholder("too-large", placeholder)
    assert again == placeholder and placeholder_code(again) == "not-valid"
    assert not is_accepted(placed(event.mark, other.record, placeholder), proof)
    for wrong in (make_placeholder("not-valid", document(1)), b"<?xmlbroker-refused a?>"):
        assert not is_accepted(placed(event.mark, event.record, wrong), proof)


def test_the_proof_of_another_event_or_log_is_rejected() -> None:
    one, other = events(2)
    first, second = SIGNER.sign([one, other])
    assert not is_accepted(one, second) and not is_accepted(other, first)
    # Another log of the same node.
    again = new_origin(1_700_000_001_000, KEY.public.raw)
    assert not is_accepted(one, first, again)


def test_only_the_key_of_the_log_can_sign_its_events() -> None:
    (event,) = events(1)
    (forged,) = BatchSigner(OTHER_KEY, ORIGIN_NAME).sign([event])
    assert not is_accepted(event, forged)
    claimed = decode_proof(forged)._replace(key=KEY.public.raw)
    assert not is_accepted(event, encode_proof(claimed))


@pytest.mark.parametrize("count", COUNTS)
def test_fewer_or_more_hashes_are_rejected(count: int) -> None:
    signed = events(count)
    for event, proof in zip(signed, SIGNER.sign(signed), strict=True):
        assert not is_accepted(event, proof + bytes(HASH_BYTES))
        if decode_proof(proof).hashes:
            assert not is_accepted(event, proof[:-HASH_BYTES])


@pytest.mark.parametrize("count", [2, 9, 64])
def test_a_proof_at_another_position_is_rejected(count: int) -> None:
    signed = events(count)
    proofs = list(map(decode_proof, SIGNER.sign(signed)))
    checker = ProofChecker(ORIGIN_NAME)
    for event, proof in zip(signed, proofs, strict=True):
        check(checker, event, encode_proof(proof))
        for position in {*range(count)} - {proof.position}:
            moved = encode_proof(proof._replace(position=position))
            assert not is_accepted(event, moved)
            with pytest.raises(BadSignature):
                check(checker, event, moved)


def test_a_group_of_leaves_is_no_group_of_groups() -> None:
    # The hashes of all groups, passed off as leaves of one group.
    signed = events(64)
    proof = decode_proof(SIGNER.sign(signed)[0])
    groups = proof.hashes[GROUP_LEAVES * HASH_BYTES :]
    for leaves in (8, 64):
        claimed = encode_proof(proof._replace(leaves=leaves, hashes=groups))
        assert not is_accepted(signed[0], claimed)


def test_equal_events_have_different_leaves() -> None:
    # A reader of one event gets the leaf of its neighbour, and could guess a short document.
    (one,) = SIGNER.sign(events(1))
    (other,) = SIGNER.sign(events(1))
    assert decode_proof(one).salt != decode_proof(other).salt
    assert decode_proof(one).signature != decode_proof(other).signature


def test_a_name_belongs_to_one_key() -> None:
    assert ORIGIN.fullmatch(ORIGIN_NAME) and origin_start_ms(ORIGIN_NAME) == 1_700_000_000_000
    assert is_signed_origin(ORIGIN_NAME) and origin_has_key(ORIGIN_NAME, KEY.public.raw)
    assert not origin_has_key(ORIGIN_NAME, OTHER_KEY.public.raw)
    random = new_origin(1_700_000_000_000)
    assert ORIGIN.fullmatch(random) and origin_start_ms(random) == 1_700_000_000_000
    assert not is_signed_origin(random) and not origin_has_key(random, KEY.public.raw)
    assert not is_signed_origin(new_origin(5_000_000_000_000))
    # The time is part of the hash: another start needs another name.
    assert not origin_has_key("8" * 8 + ORIGIN_NAME[8:], KEY.public.raw)


def test_few_keys_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []

    def count(origin: str, key: bytes) -> bool:
        hashed.append(key)
        return origin_has_key(origin, key)

    monkeypatch.setattr("broker.signatures.verification.origin_has_key", count)
    (event,) = events(1)
    checker = ProofChecker(ORIGIN_NAME)
    for _ in range(20):
        (forged,) = BatchSigner(SigningKey.generate(), ORIGIN_NAME).sign([event])
        with pytest.raises(BadSignature):
            check(checker, event, forged)
    assert len(hashed) == MOST_FOREIGN_KEYS
