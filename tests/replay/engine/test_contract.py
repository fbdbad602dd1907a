from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Overloaded, ProtocolError
from broker.replay.engine.contract import Report

MARKS = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1))
COUNTS = st.integers(0, 2**63)
REPORTS = st.builds(
    Report,
    *[COUNTS] * 6,
    st.dictionaries(st.text("abc", min_size=1), MARKS, max_size=3),
    st.lists(st.tuples(st.text("abc"), MARKS, MARKS), max_size=3).map(tuple),
    st.lists(st.text(), max_size=3).map(tuple),
    st.sampled_from([None, Overloaded("too much").to_wire()]),
)


@given(REPORTS)
def test_a_report_arrives_as_it_was_made(report: Report) -> None:
    assert Report.from_wire(msgpack.unpackb(msgpack.packb(report.to_wire()))) == report


@pytest.mark.parametrize("value", [None, [], [1] * 10, [0] * 9, [-1, *[0] * 5, [], [], [], None]])
def test_an_invalid_report_raises_a_protocol_error(value: Any) -> None:
    with pytest.raises(ProtocolError):
        Report.from_wire(value)
