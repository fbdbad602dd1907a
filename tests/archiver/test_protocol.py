from __future__ import annotations

import json
from typing import TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.archiver import protocol
from broker.dtd.reference import DtdReference
from broker.recovery.archive_access import Coverage

NAMES = st.text(max_size=20)
NUMBERS = st.integers(0, 2**63)
MARKS = st.tuples(st.integers(0, 2**32 - 1), NUMBERS)
STORED = st.none() | st.binary(max_size=100)
REFERENCES = st.builds(
    DtdReference,
    st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", fullmatch=True).filter(str.isascii),
    st.from_regex(r"[1-9][0-9]{0,2}(\.[1-9][0-9]{0,2}){0,3}", fullmatch=True).filter(str.isascii),
)
FROM_THE_NODE = st.one_of(
    st.builds(protocol.Flush, NUMBERS),
    st.just(protocol.ASK_COVERAGE),
    st.builds(protocol.AskDurable, NUMBERS, NAMES, NAMES),
    st.builds(protocol.AskDtd, NUMBERS, REFERENCES),
    st.just(protocol.End()),
    st.builds(protocol.DeadOrigins, st.lists(NAMES).map(tuple)),
    st.builds(protocol.DtdAnswer, REFERENCES, STORED, NAMES),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | NAMES,
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
)
Interval: TypeAlias = tuple[tuple[int, int], tuple[int, int]]
KEYS = ["flush", "covered", "durable", "of", "dead", "dtd", "end", "dtds", "coverage", "found"]
KEYS += ["text", "archived", "healing", "stored", "reached", "flushed", "problem", "figures"]
RUBBISH = JSON | st.dictionaries(st.sampled_from(KEYS), JSON)
#: Lines that are nearly valid.
SPOILT = [
    b"",
    b"\n",
    b"null",
    b"[]",
    b"{}",
    b"{",
    b"\xff",
    b"[" * 100_000,
    b'{"coverage":[]}',
    b'{"coverage":{}}',
    b'{"coverage":{"a":5},"healing":[]}',
    b'{"coverage":{"a":[[1,2]]},"healing":[]}',
    b'{"coverage":{},"healing":5}',
    b'{"found":1,"stored":5}',
    b'{"found":1,"stored":"a"}',
    b'{"found":1}',
    b'{"archived":1}',
    b'{"archived":1,"text":5}',
    b'{"dtds":[5],"of":"a"}',
    b'{"dtds":[["a"]],"of":"a"}',
    b'{"dtds":[["","1.0"]],"of":"a"}',
    b'{"reached":{"a":[1]},"flushed":[],"problem":"","figures":{}}',
    b'{"reached":{},"flushed":[],"problem":"","figures":{"events":"many"}}',
    b'{"reached":{"a":[1,1e400]},"flushed":[],"problem":"","figures":{}}',
]


@given(FROM_THE_NODE)
def test_node_messages_survive_encoding(message: protocol.NodeMessage) -> None:
    line = protocol.encode_node_message(message)
    assert line.index(b"\n") == len(line) - 1
    assert protocol.decode_node_message(line) == message


@given(st.lists(REFERENCES).map(tuple), NAMES)
def test_dtd_questions_survive_encoding(wanted: tuple[DtdReference, ...], origin: str) -> None:
    assert protocol.decode_archiver_message(
        protocol.encode_dtd_request(wanted, origin)
    ) == protocol.AskDtds(wanted, origin)


@given(
    st.builds(
        protocol.Report,
        st.dictionaries(NAMES, MARKS),
        st.lists(NUMBERS).map(tuple),
        NAMES,
        st.dictionaries(NAMES, NUMBERS),
    )
)
def test_reports_survive_encoding(report: protocol.Report) -> None:
    assert protocol.decode_archiver_message(protocol.encode_report(report)) == report


@given(st.dictionaries(NAMES, st.lists(st.tuples(MARKS, MARKS))), st.frozensets(NAMES))
def test_coverage_survives_encoding(
    intervals: dict[str, list[Interval]], healing: frozenset[str]
) -> None:
    covered = Coverage(intervals, healing)
    assert protocol.decode_archiver_message(protocol.encode_coverage(covered)) == covered


@given(NUMBERS, NAMES, STORED)
def test_durables_survive_encoding(number: int, origin: str, stored: bytes | None) -> None:
    decoded = protocol.decode_archiver_message(protocol.encode_durable(number, origin, stored))
    assert decoded == protocol.FoundDurable(number, origin, stored)


@pytest.mark.parametrize("line", SPOILT, ids=range(len(SPOILT)))
def test_a_malformed_line_is_a_value_error_that_shows_it(line: bytes) -> None:
    for read in (protocol.decode_node_message, protocol.decode_archiver_message):
        with pytest.raises(ValueError, match="malformed line") as caught:
            read(line)
        assert len(str(caught.value)) < 400


@example(b'{"coverage": {}, "healing": []}')
@given(st.one_of(RUBBISH.map(lambda message: json.dumps(message).encode()), st.binary()))
def test_any_line_is_decoded_or_a_value_error(line: bytes) -> None:
    for read in (protocol.decode_node_message, protocol.decode_archiver_message):
        try:
            message = read(line)
        except ValueError as error:
            assert "malformed line" in str(error)
        else:
            assert isinstance(message, protocol.NodeMessage | protocol.ArchiverMessage)
