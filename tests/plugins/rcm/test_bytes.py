"""Bytes between sites: payloads and the handshake, right and wrong."""

from __future__ import annotations

from random import Random

import attrs
import msgspec
import pytest

from broker.errors import ProtocolError, VersionMismatch
from broker.streams.contract import CarriedEvent
from broker.transport.monitor.wire import MAX_OFFER_BYTES
from broker.transport.order.wire import MAX_NAMES
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
from plugins.rcm.options import MOST_SITES
from plugins.rcm.payload import Channel, ChannelMessage, Payload, decode_payload, encode_payload
from plugins.rcm.site_change import decode_change, encode_change
from plugins.rcm.site_list import MOST_LEFT, Change, SiteRecord

EVENT = CarriedEvent((1, 4), b"\x90", b"<e/>", 1)
PAYLOAD = Payload("ops.>", "alps/a", (1, 3), (1, 5), [EVENT])
RUN = Payload("ops.>", "alps/a", (1, 3), (1, 5), [EVENT, EVENT._replace(mark=(1, 5))])
MESSAGE = ChannelMessage(Channel.CLIENTS, b"hi")
TERMS = Terms(3, "hybrid", 0.25)
ADDRESS = "tcp:host=h:port=1"
SITES = (
    SiteRecord("a", ADDRESS, True),
    SiteRecord("b", "", False, Change(2**40, "a", "a", 3, 9), 5),
)
LOSS = Loss(3, 1, 40, (1, 44))
OFFER = Offer(TERMS, "0123", LOSS, 7, ("a", "b"), SITES)
ANSWER = Answer("0123", LOSS, 7)
CHANGE = encode_change(msgspec.structs.replace(SITES[0], version=6))


def test_golden_bytes() -> None:
    assert encode_payload(PAYLOAD).hex() == (
        "9601a56f70732e3ea6616c70732f619201039201059194920104c40190c4043c652f3e01"
    )
    assert encode_payload(RUN).hex() == (
        "9601a56f70732e3ea6616c70732f619201039201059294920104c40190c4043c652f3e01"
        "94920105c40190c4043c652f3e01"
    )
    assert encode_payload(MESSAGE).hex() == "930201c4026869"
    assert encode_offer(OFFER).hex() == (
        "969303a6687962726964cb3fd0000000000000a4303132339403012892012c0792a161a162"
        "9295a161b17463703a686f73743d683a706f72743d31c3c000"
        "95a162a0c295cf0000010000000000a161a161030905"
    )
    assert CHANGE.hex() == "95a161b17463703a686f73743d683a706f72743d31c3c006"
    assert encode_answer(ANSWER).hex() == "93a4303132339403012892012c07"


def test_what_is_encoded_is_decoded() -> None:
    for payload in (PAYLOAD, RUN, MESSAGE):
        assert decode_payload(encode_payload(payload)) == payload
    assert decode_offer(encode_offer(OFFER)) == OFFER
    unready = msgspec.structs.replace(OFFER, clock=None)
    assert decode_offer(encode_offer(unready)) == unready
    assert decode_answer(encode_answer(ANSWER)) == ANSWER


@pytest.mark.parametrize("mark", [(1, 3), (1, 6)])
def test_an_event_outside_of_its_range_is_refused(mark: tuple[int, int]) -> None:
    for events in ([EVENT._replace(mark=mark)], [EVENT, EVENT._replace(mark=mark)], [EVENT, EVENT]):
        with pytest.raises(ProtocolError):
            decode_payload(encode_payload(attrs.evolve(PAYLOAD, events=events)))


def test_wrong_bytes_give_protocol_errors_only() -> None:
    random = Random(1)
    for decode, good in (
        (decode_payload, encode_payload(PAYLOAD)),
        (decode_payload, encode_payload(RUN)),
        (decode_payload, encode_payload(MESSAGE)),
        (decode_offer, encode_offer(OFFER)),
        (decode_answer, encode_answer(ANSWER)),
        (lambda data: decode_change(data, Change(1, "a", "a", 1, 1)), CHANGE),
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
        (msgspec.structs.replace(TERMS, version=2), "version is 2 there and 3 here"),
    ],
)
def test_sites_that_differ_refuse_each_other_with_both_values(other: Terms, text: str) -> None:
    check_terms(TERMS, TERMS)
    with pytest.raises(VersionMismatch, match=text):
        check_terms(TERMS, other)


def test_the_largest_offer_fits_in_a_packet_of_the_monitor() -> None:
    names = [f"{number:04}".rjust(64, "s") for number in range(MAX_NAMES)]
    change = Change(2**62, names[0], names[0], 2**62, 2**62)
    address = f"tcp:host={'h' * 253}:port=65535"
    members = [SiteRecord(name, address, True, change, 2**62) for name in names[:MOST_SITES]]
    left = [SiteRecord(name, "", False, change, 2**62) for name in names[-MOST_LEFT:]]
    offer = Offer(TERMS, "0" * 255, LOSS, 2**62, tuple(names), (*members, *left))
    assert decode_offer(encode_offer(offer)) == offer
    assert len(encode_offer(offer)) < MAX_OFFER_BYTES
