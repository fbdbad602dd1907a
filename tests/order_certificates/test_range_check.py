"""Ranges of blocks, from which none is left out."""

from __future__ import annotations

import pytest

from broker.errors import ProtocolError
from broker.order_certificates.certificate import Certificate, encode_certificate, sign_certificate
from broker.order_certificates.leaf import encode_leaf
from broker.order_certificates.merkle import hash_leaf, root_of
from broker.order_certificates.proof import Outcome
from broker.order_certificates.range_check import RangeCheck
from broker.order_certificates.signing_key import SigningKey
from tests.order_certificates.leaves import make_leaf

KEY = SigningKey.generate()


def add(check: RangeCheck, block: int, previous: int | None) -> tuple[Outcome, str]:
    data = [encode_leaf(make_leaf(number, block * 256 + number)) for number in (1, 2)]
    tree = 2, root_of([hash_leaf(each) for each in data])
    certificate = Certificate("g", 256, "a", 1, 1, block, previous, *tree, *tree, False)
    signed = encode_certificate(sign_certificate(certificate, KEY))
    checked = check.add_block(block, data, [signed])
    assert [leaf.stamp for leaf in checked.leaves] == [block * 256 + 1, block * 256 + 2]
    (outcome,) = checked.outcomes
    return outcome.outcome, outcome.reason


def make_check(first: int) -> RangeCheck:
    return RangeCheck("g", {"a": [KEY.public]}, first)


def test_blocks_that_follow_each_other_are_proved() -> None:
    check = make_check(3)
    assert add(check, 5, 2) == (Outcome.PROVED, "")
    assert add(check, 6, 5) == (Outcome.PROVED, "")
    assert add(check, 9, 6) == (Outcome.PROVED, "")


def test_a_block_that_is_left_out_is_found() -> None:
    check = make_check(3)
    add(check, 5, 2)
    reason = "it signed that block 6 is before"
    assert add(check, 9, 6) == (Outcome.DIFFERENT, reason)
    assert add(make_check(3), 5, 3) == (Outcome.DIFFERENT, "it signed that block 3 is before")


def test_blocks_that_come_again_are_not_proved() -> None:
    check = make_check(3)
    add(check, 5, 2)
    assert add(check, 5, 2)[0] is Outcome.DIFFERENT


def test_a_site_need_not_know_the_time_before_its_start() -> None:
    check = make_check(3)
    assert add(check, 5, None) == (Outcome.PROVED, "it has not signed that no block is before")
    assert add(check, 6, None)[0] is Outcome.DIFFERENT


def test_a_malformed_block_is_refused() -> None:
    with pytest.raises(ProtocolError):
        make_check(3).add_block(5, [b"x"], [])
