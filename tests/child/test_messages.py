from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.archiver import messages as archiver
from broker.child import input_report
from broker.errors import BadQuery, ProtocolError
from broker.recovery.archive_access import ArchivedDurable, Coverage
from broker.replay import replayer_messages as replay
from broker.replay.engine.contract import Report
from broker.replay.request import ReplayRequest
from broker.wire.codec import Codec, Message

ERROR = BadQuery("an operand is missing", line=1, column=4).to_wire()
REQUEST = ReplayRequest("a.>", "//x:a", {"x": "urn:x"}, 2)
REPORT = Report(1, 2, 3, 4, 5, 6, {"a": (1, 2)}, (("a", (1, 2), (1, 9)),), ("note",), ERROR)
DTD = ("flight", "1.0", "")
COVERAGE = Coverage(
    *({"a": [((1, 0), (1, 4)), ((2, 0), (2, 2**62))], "b": []}, frozenset({"b"}), frozenset()),
    *({"c": (1, 2)}, True),
)
EXAMPLES: list[tuple[Codec[Any], Message]] = [
    (input_report.CODEC, input_report.InputReport(2**63, 0, 1, 2, 3)),
    *(
        (archiver.CODEC, message)
        for message in (
            archiver.Flush(),
            archiver.AskCoverage(),
            archiver.AskDurable(2**63, "alice", "name"),
            archiver.AskDtd(1, DTD),
            archiver.End(),
            archiver.DeadOrigins(("a", "b")),
            archiver.DtdAnswer(DTD, b"<!ELEMENT a EMPTY>", "origin"),
            archiver.DtdAnswer(DTD, None, "origin"),
            archiver.Report(),
            archiver.Report({"a": (1, 2)}, "the disk is full", {"events": 5}),
            archiver.AskDtds((DTD, ("flight", "2.0", "f" * 64)), "origin"),
            archiver.FoundCoverage(COVERAGE),
            archiver.FoundDurable(1, ArchivedDurable("a", b"stored")),
            archiver.FoundDurable(1, None),
            archiver.FoundDtd(1, b"<!ELEMENT a EMPTY>"),
            archiver.FoundDtd(1, None),
        )
    ),
    *(
        (replay.CODEC, message)
        for message in (
            replay.Replay(5, REQUEST.to_wire()),
            replay.More(5, 2),
            replay.Cancel(5),
            replay.Status(),
            replay.Accepted(5),
            replay.Progress(5, 1, 9),
            replay.Found(5, REPORT.to_wire()),
            replay.Page(5, 0, (b"x", b"y")),
            replay.Done(5),
            replay.Failed(5, ERROR),
            replay.Notice("text"),
            replay.State({"a": 1, "b": "c"}),
        )
    ),
]


@pytest.mark.parametrize(
    ("codec", "message"), EXAMPLES, ids=[type(message).__name__ for _, message in EXAMPLES]
)
def test_a_message_survives_encoding(codec: Codec[Any], message: Message) -> None:
    encoded = codec.encode(message)
    decoded = codec.decode(encoded)
    assert type(decoded) is type(message)
    # A decoded request or report has lists in the place of tuples.
    assert codec.encode(decoded) == encoded


def test_every_kind_of_message_is_among_the_examples() -> None:
    for each in (archiver.CODEC, replay.CODEC):
        examples = {type(message) for codec, message in EXAMPLES if codec is each}
        assert examples == set(each.by_kind.values())


@given(st.sampled_from([archiver.CODEC, replay.CODEC]), st.binary(max_size=200))
def test_random_bytes_are_a_protocol_error_or_a_message(codec: Codec[Any], data: bytes) -> None:
    try:
        assert isinstance(codec.decode(data), Message)
    except ProtocolError as error:
        assert error.text


@given(st.sampled_from(EXAMPLES), st.data())
def test_a_message_with_a_changed_byte_raises_nothing_else(
    example: tuple[Codec[Any], Message], data: st.DataObject
) -> None:
    codec, message = example
    encoded = bytearray(codec.encode(message))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        codec.decode(bytes(encoded))
    except ProtocolError as error:
        assert error.text


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x99\x91\x01", b"\x01\xc1", b"\x01\x90", b"\x01\x91\x01", b"\x02\x92\x01\xff"],
    ids=["empty", "kind", "unknown", "rubbish", "no-field", "few-fields", "negative"],
)
def test_invalid_messages_raise_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        replay.CODEC.decode(data)
