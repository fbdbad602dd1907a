"""Bytes between sites: payloads and the handshake, right and wrong."""

from __future__ import annotations

from random import Random

import attrs
import msgspec
import pytest

from broker.errors import ProtocolError, VersionMismatch
from broker.streams.contract import CarriedEvent
from plugins.rcm.handshake import (
    Answer,
    Loss,
    Offer,
    Terms,
    check_terms,
    decode_answer,
    decode_offer,
    encode_answer,
    encode_offer,
)
from plugins.rcm.payload import Payload, decode_payload, encode_payload

PAYLOAD = Payload("ops.>", "alps/a", (1, 3), (1, 5), CarriedEvent((1, 4), b"\x90", b"<e/>", 1))
TERMS = Terms(1, "hybrid", 0.25, ("a", "b"))
LOSS = Loss(3, 1, 40, (1, 44))
OFFER = Offer(TERMS, "0123", LOSS, 7)
ANSWER = Answer("0123", LOSS, 7)


def test_golden_bytes() -> None:
    assert encode_payload(PAYLOAD).hex() == (
        "98a56f70732e3ea6616c70732f6192010392010592010401c40190c4043c652f3e"
    )
    assert encode_offer(OFFER).hex() == (
        "949401a6687962726964cb3fd000000000000092a161a162a4303132339403012892012c07"
    )
    assert encode_answer(ANSWER).hex() == "93a4303132339403012892012c07"


def test_what_is_encoded_is_decoded() -> None:
    assert decode_payload(encode_payload(PAYLOAD)) == PAYLOAD
    assert decode_offer(encode_offer(OFFER)) == OFFER
    unready = msgspec.structs.replace(OFFER, clock=None)
    assert decode_offer(encode_offer(unready)) == unready
    assert decode_answer(encode_answer(ANSWER)) == ANSWER


@pytest.mark.parametrize("mark", [(1, 3), (1, 6)])
def test_an_event_outside_of_its_range_is_refused(mark: tuple[int, int]) -> None:
    wrong = attrs.evolve(PAYLOAD, event=PAYLOAD.event._replace(mark=mark))
    with pytest.raises(ProtocolError):
        decode_payload(encode_payload(wrong))


def test_wrong_bytes_give_protocol_errors_only() -> None:
    random = Random(1)
    for decode, good in (
        (decode_payload, encode_payload(PAYLOAD)),
        (decode_offer, encode_offer(OFFER)),
        (decode_answer, encode_answer(ANSWER)),
    ):
        refused = 0
        for _ in range(2_000):
            data = bytearray(good)
            for _ in range(random.choice((1, 2, 5))):
                data[random.randrange(len(data))] = random.randrange(256)
            length = random.choice((len(data), random.randrange(len(data))))
            try:
                decode(bytes(data[:length]))
            except ProtocolError:
                refused += 1
        assert refused > 500


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (msgspec.structs.replace(TERMS, order="logical"), "order is logical there and hybrid here"),
        (msgspec.structs.replace(TERMS, delta=0.5), "delta is 0.5 there and 0.25 here"),
        (msgspec.structs.replace(TERMS, sites=("a", "c")), "sites is a, c there and a, b here"),
        (msgspec.structs.replace(TERMS, version=2), "version is 2 there and 1 here"),
    ],
)
def test_sites_that_differ_refuse_each_other_with_both_values(other: Terms, text: str) -> None:
    check_terms(TERMS, TERMS)
    with pytest.raises(VersionMismatch, match=text):
        check_terms(TERMS, other)
