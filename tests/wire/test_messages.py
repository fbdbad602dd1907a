from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import BadQuery, ProtocolError, VersionMismatch
from broker.event.site_coverage import (
    MOST_INCARNATIONS,
    MOST_RANGES,
    MOST_SITES,
    CoverageTable,
    CoveredMessages,
)
from broker.event.site_notice import (
    MissingMessages,
    MovedMessage,
    MovedMessages,
    SiteCoverage,
    SiteNotice,
    SiteStatus,
)
from broker.order_certificates.signing_key import SigningKey
from broker.wire import messages
from broker.wire.claim import Claim, ClaimedState
from broker.wire.codec import Message
from broker.wire.held_flows import HeldBack, Hold
from broker.wire.messages import (
    MAGIC,
    Acknowledge,
    Answer,
    Ended,
    Gap,
    Hello,
    NotPublished,
    Progress,
    Published,
    Refuse,
    Subscribe,
    Welcome,
)
from broker.wire.site_notice import (
    MessagesCovered,
    MessagesMissing,
    MessagesMoved,
    NoticeMessage,
    StatusChanged,
    notice_from_message,
    notice_to_message,
)

ERROR = BadQuery("an operand is missing", line=1, column=4).to_wire()
EXAMPLES: list[Message] = [
    Hello(MAGIC, (1, 2), "alice", 7, b"t" * 16, "account", "secret"),
    messages.Challenge(b"r=nonce,s=salt,i=100000"),
    messages.Response(b"c=biws,r=nonce,p=proof"),
    Welcome(7, "node", "origin", 1 << 20, 16 << 20, "alps.c1/node", b"v=proof"),
    Welcome(1, "node", "origin", 1 << 20, 16 << 20, "alps.c1/node"),
    Refuse(ERROR),
    messages.Goodbye(),
    Published(3, (("n", 1, 17),), 2, (0,), ((2, ERROR),)),
    Published(3, (("n", 1, 17),), 2, (), (), ((1, (2, 5)),)),
    NotPublished(3, 1000, ERROR),
    Subscribe(1, "a.>", "/x:y", {"x": "urn:x"}, "name", "position", (("n", 1, 17),), 0),
    Subscribe(
        *(2, ">", "true()", {}, "", "last", (), 0),
        *("alps.c1/n", 1 << 40, (("n", 1, 9),), 100, 0.5, 1000, (("n", 1, 3),), True),
    ),
    Subscribe(3, ">", "true()", {}, "", "new", (), 0, queue="coalesce:/a/@id"),
    Subscribe(4, ">", "true()", {}, "", "all", (), 0, until_ms=9, event_times=(5, 0)),
    Subscribe(5, ">", "true()", {}, "", "all", (), 0, pace=1.0, paced_by_time=True),
    messages.Subscribed(1, (("n", 1, 17),), ("a warning",)),
    messages.Subscribed(1, None, ()),
    messages.Flowing(1, (("n", 1, 17),)),
    messages.Unsubscribe(1, True),
    Ended(1, messages.NO_ERROR),
    Acknowledge(((1, (("n", 1, 17),)), (2, ()))),
    Progress(((1, (("n", 1, 17),)),)),
    Progress(((1, (("n", 1, 17),)),), ((1, (("n", 1 << 40), ("m", 0))),)),
    Gap(1, "n", (1, 2), (1, 9), 8, "retention"),
    messages.TypeChanged(
        *(1, "flight", "1.0", "2.0", "can-not-match-any-more", "no such element"),
        *(("/a",), (), ("/a", "/a/@b"), ("/c/@d: 'e' added",), 3),
    ),
    StatusChanged(1, "ops", "c", "suspected", "silent", 1_700_000_000_000, 1_700_000_060_000),
    StatusChanged(1, "ops", "c", "connected", "", 0, None),
    MessagesMissing(2, "ops", "c", 7, 300, 312, "no log has them"),
    MessagesMoved(2, "ops", (("c", 7, 300, 2**40, "a"), ("b", 1, 1, -5, "b"))),
    MessagesCovered(2, "ops", "c", (("a", 7, 1, 312, ((3, 5), (9, 9))), ("b", 1, 1, 1, ()))),
    messages.Credit(1 << 40),
    Hold(1, ("a.>", "b.*")),
    HeldBack(1, (("n/a.>", 1, 17),)),
    messages.Ask(1, "explain", {"query": "//a"}, b"<event/>"),
    Answer(1, messages.NO_ERROR, {"deep": [1, {"er": None}]}),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_survives_the_wire(message: Message) -> None:
    decoded = messages.decode(messages.encode(message))
    assert type(decoded) is type(message)
    assert decoded == message


def test_every_kind_of_message_is_among_the_examples() -> None:
    assert {type(example) for example in EXAMPLES} == set(messages.CODEC.by_kind.values())


@given(st.binary(max_size=200))
def test_random_bytes_are_a_protocol_error_or_a_message(data: bytes) -> None:
    try:
        assert isinstance(messages.decode(data), Message)
    except ProtocolError as error:
        assert error.text


@given(st.sampled_from(EXAMPLES), st.data())
def test_a_message_with_a_changed_byte_raises_nothing_else(
    message: Message, data: st.DataObject
) -> None:
    encoded = bytearray(messages.encode(message))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        messages.decode(bytes(encoded))
    except ProtocolError as error:
        assert error.text


@pytest.mark.parametrize(
    ("notice", "expected"),
    [
        (
            SiteStatus("ops", "c", "suspected", "silent", 1_700_000_000_000, 1_700_000_060_000),
            "2b9701a36f7073a163a9737573706563746564a673696c656e74cf0000018bcfe56800cf0000018bcfe65260",
        ),
        (
            SiteStatus("ops", "c", "connected", "", 5),
            "2b9701a36f7073a163a9636f6e6e6563746564a005c0",
        ),
        (
            MissingMessages("ops", "c", 7, 300, 312, "lost"),
            "2c9701a36f7073a16307cd012ccd0138a46c6f7374",
        ),
        (
            MovedMessages(
                "ops", (MovedMessage("c", 7, 300, 2**40, "a"), MovedMessage("b", 1, 1, 5, "b"))
            ),
            "2d9301a36f70739295a16307cd012ccf0000010000000000a16195a162010105a162",
        ),
        (
            SiteCoverage(
                "ops",
                "c",
                (CoveredMessages("a", 7, 1, 312, ((3, 5),)), CoveredMessages("b", 1, 4, 9)),
            ),
            "2e9401a36f7073a1639295a1610701cd01389192030595a16201040990",
        ),
    ],
)
def test_notices_about_sites_have_their_bytes(notice: SiteNotice, expected: str) -> None:
    message = notice_to_message(1, notice)
    assert messages.encode(message).hex() == expected
    decoded = messages.decode(bytes.fromhex(expected))
    assert isinstance(decoded, NoticeMessage) and notice_from_message(decoded) == notice


@pytest.mark.parametrize("row", [("a", 1, 5, 4, ()), ("a", 1, 1, 9, ((3, 4), (2, 2)))])
def test_covered_messages_in_another_order_are_refused(row: Any) -> None:
    decoded = messages.decode(messages.encode(MessagesCovered(1, "ops", "c", (row,))))
    assert isinstance(decoded, NoticeMessage)
    with pytest.raises(ProtocolError, match="can not lack"):
        notice_from_message(decoded)


def test_the_largest_table_of_covered_messages_is_a_control_message() -> None:
    largest = 2**63 - 1
    table = CoverageTable()
    for site in range(MOST_SITES):
        for incarnation in range(MOST_INCARNATIONS):
            missing = tuple((largest - 2 * n, largest - 2 * n) for n in range(MOST_RANGES, 0, -1))
            name = f"{chr(0x1F600 + site) * 64}"
            row = CoveredMessages(name, largest - incarnation, 1 << 62, largest, missing)
            table.add(row)
    assert len(table.rows) == MOST_SITES * MOST_INCARNATIONS
    message = notice_to_message(1, SiteCoverage("ops", "c", table.rows))
    assert messages.decode(messages.encode(message)) == message


def test_a_control_message_of_a_megabyte_is_refused() -> None:
    huge = messages.encode(Subscribe(1, "a", "x" * (1 << 20), {}, "", "new", (), 0))
    with pytest.raises(ProtocolError, match="1048"):
        messages.decode(huge)


def test_only_the_event_of_a_question_may_be_large() -> None:
    asked = messages.Ask(1, "explain", {"query": "//a"}, b"x" * (1 << 20))
    assert messages.decode(messages.encode(asked)) == asked
    with pytest.raises(ProtocolError, match="Ask of 1048"):
        messages.decode(messages.encode(messages.Ask(1, "explain", {"query": "x" * (1 << 20)})))


def test_a_question_without_room_for_an_event_is_one_without_an_event() -> None:
    encoded = bytes([messages.Ask.kind]) + msgpack.packb((1, "status", {}))
    assert messages.decode(encoded) == messages.Ask(1, "status", {})


WANTED = (1, "a", "b", dict[str, str](), "", "last", (), 0)


def test_omitted_fields_of_a_subscription_have_neutral_defaults() -> None:
    encoded = bytes([Subscribe.kind]) + msgpack.packb(WANTED)
    assert messages.decode(encoded) == Subscribe(*WANTED, "", 0, (), 0, 0.0, 0, None)


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (Subscribe(*WANTED, times=True), 15),
        (Progress(((1, (("n", 1, 17),)),), ((1, (("n", 5),)),)), 1),
        (messages.Credit(1), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_version_1_has_no_stream_times(message: Message, fields: int) -> None:
    encoded = messages.encode(message, 1)
    assert len(msgpack.unpackb(encoded[1:])) == fields
    assert type(messages.decode(encoded)) is type(message)


@pytest.mark.parametrize("version", [1, 2, 6, 7])
@pytest.mark.parametrize("more", [{"event_times": (0, 5)}, {"paced_by_time": True}])
def test_an_earlier_version_has_no_replays_by_time(version: int, more: dict[str, Any]) -> None:
    with pytest.raises(VersionMismatch, match="too old for replays by the events' own times"):
        messages.encode(Subscribe(*WANTED, **more), version)
    plain = messages.encode(Subscribe(*WANTED, claim=CLAIM), 8)
    assert messages.encode(Subscribe(*WANTED, claim=CLAIM), 7) == plain


@pytest.mark.parametrize("version", [1, 2])
def test_an_earlier_version_has_no_queue_policy(version: int) -> None:
    named = Subscribe(*WANTED, queue="fail")
    with pytest.raises(VersionMismatch, match="too old for the queue policy fail"):
        messages.encode(named, version)
    without = messages.encode(Subscribe(*WANTED, times=True), version)
    assert len(msgpack.unpackb(without[1:])) == 14 + version
    # Later versions write the same bytes if no policy is named.
    assert version == 1 or messages.encode(Subscribe(*WANTED, times=True)) == without


CLAIM = Claim(b"k" * 32, 3, True, b"s" * 64)


@pytest.mark.parametrize("queue", ["", "fail"])
def test_a_claim_is_sent_from_version_7_on(queue: str) -> None:
    named, without = (Subscribe(*WANTED, queue=queue, claim=claim) for claim in (CLAIM, None))
    assert messages.decode(messages.encode(named)) == named
    assert messages.encode(named, 6) == messages.encode(without) == messages.encode(without, 6)
    assert len(msgpack.unpackb(messages.encode(named)[1:])) == 18


def test_a_claim_is_signed_over_these_bytes() -> None:
    state = ClaimedState("ann", 7, b"t" * 16, "d", "c/n1")
    signed = bytes.fromhex("97a3616e6e07c410" + "74" * 16 + "a164a4632f6e3103c2")
    key = SigningKey.generate()
    assert state.sign(key, 3).signature == key.sign(b"xmlbroker claim of a client 1\0" + signed)


@pytest.mark.parametrize("length", [31, 33])
def test_a_claim_with_a_key_of_another_length_is_malformed(length: int) -> None:
    with pytest.raises(ProtocolError):
        messages.decode(
            messages.encode(Subscribe(*WANTED, claim=Claim(b"k" * length, 3, True, b"s" * 64)))
        )


@pytest.mark.parametrize("times", [5, [[1, [["n"]]]], [[1, [["n", -1]]]], [["n", []]]])
def test_malformed_stream_times_are_refused(times: Any) -> None:
    with pytest.raises(ProtocolError, match="malformed Progress"):
        messages.decode(bytes([Progress.kind]) + msgpack.packb(([], times)))


def test_a_factor_may_be_written_as_a_whole_number() -> None:
    encoded = bytes([Subscribe.kind]) + msgpack.packb((*WANTED, "", 0, (), 5, 2, 0))
    decoded = messages.decode(encoded)
    assert isinstance(decoded, Subscribe)
    assert type(decoded.pace) is float and decoded.pace == 2.0


@pytest.mark.parametrize(
    "told",
    [
        ("a" * 1025, 0, (), 0, 0.0, 0),
        (b"a", 0, (), 0, 0.0, 0),
        ("", -1, (), 0, 0.0, 0),
        ("", 1.0, (), 0, 0.0, 0),
        ("", 0, (("n", 1),), 0, 0.0, 0),
        ("", 0, (), -1, 0.0, 0),
        ("", 0, (), True, 0.0, 0),
        ("", 0, (), 0, -0.5, 0),
        ("", 0, (), 0, float("inf"), 0),
        ("", 0, (), 0, float("nan"), 0),
        ("", 0, (), 0, "1", 0),
        ("", 0, (), 0, True, 0),
        ("", 0, (), 0, 0.0, -1),
        ("", 0, (), 0, 0.0, 0, 0),
        ("", 0, (), 0, 0.0, 0, (("n", 1),)),
        ("", 0, (), 0, 0.0, 0, None, 0),
    ],
)
def test_a_subscription_with_invalid_fields_is_refused(told: tuple[object, ...]) -> None:
    encoded = bytes([Subscribe.kind]) + msgpack.packb((*WANTED, *told))
    with pytest.raises(ProtocolError, match="malformed Subscribe"):
        messages.decode(encoded)


def test_an_address_has_room_for_every_one_that_a_node_can_have() -> None:
    longest = ".".join(["u" * 64] * 8) + "/" + "n" * 64
    welcome = Welcome(1, "n", "o", 1, 1, longest)
    assert messages.decode(messages.encode(welcome)) == welcome
    with pytest.raises(ProtocolError):
        messages.decode(bytes([Welcome.kind]) + msgpack.packb((1, "n", "o", 1, 1, "a" * 1025)))


@pytest.mark.parametrize("mark", [(), (1,), (1, 2, 3)])
def test_a_gap_whose_bounds_are_no_marks_is_refused(mark: tuple[int, ...]) -> None:
    encoded = bytes([Gap.kind]) + msgpack.packb((1, "n", (1, 2), mark, 1, "slow"))
    with pytest.raises(ProtocolError):
        messages.decode(encoded)


def test_a_secret_is_not_in_the_text_form_of_a_hello() -> None:
    assert "hush" not in repr(Hello(MAGIC, (1,), "a", 1, b"", "account", "hush"))
