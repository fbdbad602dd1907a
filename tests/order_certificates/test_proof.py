"""Proofs that clients check against pinned keys."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import msgspec
import pytest

from broker.errors import ProtocolError
from broker.order_certificates.certificate import (
    Certificate,
    encode_certificate,
    sign_certificate,
)
from broker.order_certificates.leaf import Leaf, digest_of, encode_leaf
from broker.order_certificates.merkle import hash_leaf, path_of, root_of
from broker.order_certificates.proof import (
    EventProof,
    Outcome,
    read_event_proof,
    verify_block,
    verify_event,
)
from broker.order_certificates.signing_key import SigningKey
from tests.order_certificates.leaves import random_leaves
from tests.seeds import seeds

KEYS = {site: SigningKey.generate() for site in "abc"}
PINNED = {site: [key.public] for site, key in KEYS.items()}


def certify(site: str, leaves: list[Leaf], in_time: list[Leaf], **changes: Any) -> bytes:
    hashes = [[hash_leaf(encode_leaf(leaf)) for leaf in each] for each in (in_time, leaves)]
    counts = [(len(each), root_of(each)) for each in hashes]
    certificate = Certificate("g", 256, site, 1, 1, 0, None, *counts[0], *counts[1], False)
    return encode_certificate(sign_certificate(attrs.evolve(certificate, **changes), KEYS[site]))


def prove(leaf: Leaf, leaves: list[Leaf], in_time: list[Leaf], *certificates: bytes) -> EventProof:
    hashes = [hash_leaf(encode_leaf(each)) for each in leaves]
    index = leaves.index(leaf)
    proof = EventProof(
        leaf=encode_leaf(leaf),
        index=index,
        path=tuple(path_of(hashes, index)),
        certificates=certificates,
    )
    if leaf not in in_time:
        return proof
    hashes = [hash_leaf(encode_leaf(each)) for each in in_time]
    index = in_time.index(leaf)
    return msgspec.structs.replace(
        proof, index_in_time=index, path_in_time=tuple(path_of(hashes, index))
    )


def outcomes_of(proof: EventProof, group: str = "g") -> dict[str, Outcome]:
    return {each.site: each.outcome for each in verify_event(proof, group, PINNED)[1]}


@pytest.mark.parametrize("seed", seeds(5, 50))
def test_an_event_is_proved_by_each_site_with_the_same_block(seed: int) -> None:
    random = Random(seed)
    leaves = random_leaves(random, random.randrange(2, 50))
    in_time = [leaf for leaf in leaves if random.random() < 0.7]
    leaf = random.choice(leaves)
    proof = prove(
        *(leaf, leaves, in_time),
        certify("a", leaves, in_time),
        certify("b", leaves, leaves),
        certify("c", [each for each in leaves if each != leaf], [], has_missing=True),
    )
    carried = read_event_proof(msgspec.json.decode(msgspec.json.encode(proof)))
    assert carried == proof
    found, outcomes = verify_event(carried, "g", PINNED)
    assert found == leaf
    assert [(each.site, each.outcome) for each in outcomes] == [
        *(("a", Outcome.PROVED), ("b", Outcome.PROVED), ("c", Outcome.MISSING)),
    ]
    assert outcomes[0].in_time is (True if leaf in in_time else None)


@pytest.mark.parametrize("seed", seeds(5, 50))
def test_no_other_event_is_proved(seed: int) -> None:
    random = Random(seed)
    leaves = random_leaves(random, random.randrange(2, 50))
    leaf = random.choice(leaves)
    proof = prove(leaf, leaves, leaves, certify("a", leaves, leaves))
    for changed in (
        leaf._replace(digest=digest_of(b"other")),
        leaf._replace(stamp=(leaf.stamp + 1) % 256),
        leaf._replace(event_id=leaf.event_id._replace(sequence_number=10_000)),
    ):
        false = msgspec.structs.replace(proof, leaf=encode_leaf(changed))
        assert outcomes_of(false) == {"a": Outcome.DIFFERENT}
    outside = msgspec.structs.replace(proof, leaf=encode_leaf(leaf._replace(stamp=256)))
    assert outcomes_of(outside) == {"a": Outcome.FALSE}


def test_false_certificates_are_named() -> None:
    leaves = random_leaves(Random(1), 9)
    good = certify("a", leaves, leaves)
    proof = prove(leaves[3], leaves, leaves, good)
    assert outcomes_of(proof) == {"a": Outcome.PROVED}
    assert outcomes_of(proof, group="other") == {"a": Outcome.FALSE}
    statement = msgspec.msgpack.decode(good)[0]
    forged = msgspec.msgpack.encode((statement, bytes(64)))
    assert outcomes_of(msgspec.structs.replace(proof, certificates=(forged,))) == {
        "a": Outcome.FALSE
    }
    unknown = verify_event(proof, "g", {})[1]
    assert [each.outcome for each in unknown] == [Outcome.NO_KEY]


def test_a_site_counts_once() -> None:
    leaves = random_leaves(Random(1), 9)
    twice = [certify("a", leaves, leaves, revision=revision) for revision in (1, 2)]
    proof = prove(leaves[3], leaves, leaves, *twice)
    assert len(verify_event(proof, "g", PINNED)[1]) == 1


@pytest.mark.parametrize("seed", seeds(5, 50))
def test_a_whole_block_is_proved_and_nothing_is_left_out(seed: int) -> None:
    random = Random(seed)
    leaves = random_leaves(random, random.randrange(2, 50))
    data = [encode_leaf(leaf) for leaf in leaves]
    certificates = [certify("a", leaves, leaves)]
    found, outcomes = verify_block(0, data, certificates, "g", PINNED)
    assert found == leaves
    assert [each.outcome for each in outcomes] == [Outcome.PROVED]
    fewer = list(data)
    fewer.pop(random.randrange(len(data)))
    for other in (fewer, []):
        _, outcomes = verify_block(0, other, certificates, "g", PINNED)
        assert [each.outcome for each in outcomes] == [Outcome.DIFFERENT]
    _, outcomes = verify_block(1, data, certificates, "g", PINNED)
    assert [each.outcome for each in outcomes] == [Outcome.FALSE]
    for wrong in (data[::-1], [data[0], *data]):
        with pytest.raises(ProtocolError, match="not in order"):
            verify_block(0, wrong, certificates, "g", PINNED)


def test_malformed_proofs_are_refused() -> None:
    leaves = random_leaves(Random(1), 9)
    proof = msgspec.to_builtins(prove(leaves[3], leaves, leaves, certify("a", leaves, leaves)))
    assert read_event_proof(proof).index == 3
    for change in (
        *({"leaf": 5}, {"leaf": "*"}, {"index": -1}, {"path": ["AAAA"]}),
        *({"path": [proof["path"][0]] * 21}, {"certificates": ["A" * 5_000]}),
    ):
        with pytest.raises(ProtocolError):
            read_event_proof({**proof, **change})
    with pytest.raises(ProtocolError):
        verify_event(read_event_proof({**proof, "certificates": ["AAAA"]}), "g", PINNED)
    with pytest.raises(ProtocolError):
        read_event_proof("no")
