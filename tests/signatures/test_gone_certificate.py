from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.errors import BadSignature
from broker.event.origin import new_origin
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.gone_certificate import (
    GoneCertificate,
    Membership,
    Vote,
    decode_certificate,
    decode_membership,
    sign_membership,
    sign_vote,
)

KEYS = {name: SigningKey.generate() for name in "abcdex"}
A = KEYS["a"]
ORIGIN = new_origin(1_700_000_000_000, A.public.raw)


def membership(names: str, time: int = 100, key: SigningKey = A) -> Membership:
    return sign_membership(key, ORIGIN, time, [(name, KEYS[name].public.raw) for name in names])


def votes(names: str, time: int = 200, origin: str = ORIGIN) -> Sequence[Vote]:
    return tuple(sign_vote(KEYS[name], origin, time) for name in names)


def certificate(members: str, signers: str, time: int = 200) -> GoneCertificate:
    return GoneCertificate(membership(members), tuple(votes(signers, time)))


def is_valid(found: GoneCertificate, newest: Membership | None = None) -> bool:
    try:
        decode_certificate(found.encode()).check(ORIGIN, newest)
    except BadSignature:
        return False
    return True


@pytest.mark.parametrize(
    ("members", "signers", "valid"),
    [
        ("abc", "bc", True),
        ("abc", "b", False),
        ("abc", "bb", False),
        ("abc", "bx", False),
        ("abcd", "bcd", True),
        ("abcd", "bc", False),
        ("abcde", "bcx", False),
        ("abcde", "bcd", True),
        ("ab", "b", False),
        ("a", "a", False),
    ],
)
def test_a_majority_of_at_least_two_members_is_needed(
    members: str, signers: str, valid: bool
) -> None:
    assert is_valid(certificate(members, signers)) is valid


def test_membership_that_another_key_has_signed_is_rejected() -> None:
    forged = membership("abc", key=KEYS["b"])
    assert not is_valid(GoneCertificate(forged, tuple(votes("bc"))))
    stolen = membership("abc")
    changed = Membership(stolen.time, stolen.key, stolen.members[1:], stolen.signature)
    assert not is_valid(GoneCertificate(changed, tuple(votes("bc"))))
    twice = sign_membership(A, ORIGIN, 100, [("b", A.public.raw), ("b", KEYS["b"].public.raw)])
    with pytest.raises(BadSignature, match="twice"):
        twice.check(ORIGIN)


def test_votes_for_another_origin_and_before_the_membership_do_not_count() -> None:
    other = new_origin(1_700_000_001_000, A.public.raw)
    assert not is_valid(GoneCertificate(membership("abc"), tuple(votes("bc", origin=other))))
    assert not is_valid(certificate("abc", "bc", time=100))
    mixed = GoneCertificate(membership("abc"), (*votes("b"), *votes("c", time=100)))
    assert not is_valid(mixed)


def test_a_later_membership_counts_in_place_of_that_of_the_certificate() -> None:
    found = certificate("abc", "bc")
    assert is_valid(found, membership("abcd", 50))
    assert not is_valid(found, membership("abcd", 150)), "two of four"
    assert not is_valid(found, membership("abc", 300)), "the origin has come back"
    assert is_valid(found, membership("abc", 150))


def test_the_key_of_the_origin_alone_is_enough() -> None:
    assert is_valid(GoneCertificate(None, tuple(votes("a"))))
    assert not is_valid(GoneCertificate(None, tuple(votes("b"))))
    assert not is_valid(GoneCertificate(None, tuple(votes("bc"))))
    assert not is_valid(GoneCertificate(None, tuple(votes("a"))), membership("abc", 300))


@pytest.mark.parametrize("data", [b"", b"\x92\xc0\x90", b"\xc0", b"\x91\xc0", b"x" * 40_000])
def test_malformed_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(BadSignature):
        decode_certificate(data)
    with pytest.raises(BadSignature):
        decode_membership(data)


def test_changed_bytes_are_rejected() -> None:
    data = certificate("abc", "bc").encode()
    for index in range(0, len(data), 7):
        changed = data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]
        try:
            found = decode_certificate(changed)
        except BadSignature:
            continue
        assert not is_valid(found)
