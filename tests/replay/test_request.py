from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import BadName, BadPosition, BadQuery, BrokerError, ProtocolError
from broker.replay.request import MAX_ORIGINS, ORDERS, ReplayRequest

MARKS = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1))
ORIGINS = st.text("abcdef0123456789", min_size=1, max_size=16)
RANGES = st.one_of(
    st.tuples(MARKS, st.none()),
    st.tuples(MARKS, MARKS).map(lambda pair: (min(pair), max(pair))),
)
TIMES = st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(sorted)
REQUESTS = st.builds(
    lambda ranges, times, own, **rest: ReplayRequest(
        ranges=ranges,
        from_ms=times[0],
        until_ms=times[1],
        event_times=(own[0], own[1] if own[0] < own[1] else 0),
        known={origin: after for origin, (after, upto) in ranges.items() if upto is None},
        **rest,
    ),
    st.dictionaries(ORIGINS, RANGES, max_size=4),
    TIMES,
    TIMES,
    pattern=st.sampled_from([">", "asdi.*.tz", "a.>"]),
    query=st.sampled_from(["true()", "//v:x[. > 3]", "$Liveness = 'recovery'"]),
    namespaces=st.just({"v": "urn:v"}),
    clearance=st.integers(0, 2),
    others=st.booleans(),
    last=st.integers(0, 2**62),
    order=st.sampled_from(ORDERS),
)


def travelled(wire: Any) -> ReplayRequest:
    return ReplayRequest.from_wire(msgpack.unpackb(msgpack.packb(wire)))


@given(REQUESTS)
def test_a_request_arrives_as_it_was_made(request: ReplayRequest) -> None:
    assert travelled(request.to_wire()) == request


def changed(place: int, value: Any) -> list[Any]:
    wire = ReplayRequest(">", "true()", ranges={"a": ((1, 2), (1, 9))}).to_wire()
    wire[place] = value
    return wire


@pytest.mark.parametrize(
    ("place", "value", "error"),
    [
        (0, "a..b", BadName),
        (0, 7, ProtocolError),
        (1, "//x[", BadQuery),
        (1, "//p:x", BadQuery),
        (1, b"true()", ProtocolError),
        (2, {"xml": "urn:v"}, BadQuery),
        (2, [1], ProtocolError),
        (3, 3, ProtocolError),
        (3, -1, ProtocolError),
        (4, [["a", [1, 9], [1, 2]]], BadPosition),
        (4, [["a", [1], None]], BadPosition),
        (4, [["a", [1 << 32, 0], None]], BadPosition),
        (4, [["a", [1, 1 << 63], None]], BadPosition),
        (4, [["../a", [1, 0], None]], BadPosition),
        (4, [["a", [1, 0], None], ["a", [2, 0], None]], ProtocolError),
        (4, [["a", [1, 0]]], ProtocolError),
        (4, 7, ProtocolError),
        (4, [[f"{n}", [0, 0], None] for n in range(MAX_ORIGINS + 1)], BadPosition),
        (5, 1, ProtocolError),
        (6, 1 << 63, ProtocolError),
        (7, -1, ProtocolError),
        (8, 1.5, ProtocolError),
        (11, [5, 5], BadPosition),
        (11, [6, 5], BadPosition),
        (11, [-1, 5], ProtocolError),
        (11, [1], ProtocolError),
        (11, None, ProtocolError),
        (9, "random", ProtocolError),
        (10, [["b", [1, 9]]], BadPosition),
        (10, [["a", [1, 9]], ["a", [1, 8]]], ProtocolError),
        (10, [["a", 9]], ProtocolError),
        (10, 7, ProtocolError),
    ],
)
def test_an_invalid_request_raises_a_typed_error(
    place: int, value: Any, error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        travelled(changed(place, value))


@pytest.mark.parametrize("value", [None, 3, b"", "x", [], [1] * 9, [1] * 11, {}])
def test_an_invalid_list_is_rejected(value: Any) -> None:
    with pytest.raises(ProtocolError):
        travelled(value)


def test_a_time_range_does_not_end_before_it_begins() -> None:
    with pytest.raises(BadPosition):
        travelled(ReplayRequest(">", "true()", from_ms=5, until_ms=4).to_wire())


def test_unnamed_origins_are_requested_completely_if_others_is_set() -> None:
    named = {"a": ((1, 2), None)}
    assert ReplayRequest(">", "true()", ranges=named).range_of("b") == ((0, 0), None)
    assert ReplayRequest(">", "true()", ranges=named, others=False).range_of("b") is None
    assert ReplayRequest(">", "true()", ranges=named).range_of("a") == ((1, 2), None)
