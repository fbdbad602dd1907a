from __future__ import annotations

import pytest
from hypothesis import given

from broker.errors import BadName
from broker.event.flow import (
    DEFAULT_ONLY,
    MAX_FLOW_BYTES,
    MAX_INTERVALS,
    MAX_ORIGIN_BYTES,
    MAX_PATTERNS,
    CarryingPatterns,
    FlowInterval,
    check_flow,
    is_default_flow,
    is_flow,
    is_within_intervals,
    make_flow,
    origin_of,
    pattern_of,
    precedence,
    update_intervals,
)
from broker.event.place import Mark, Place, Position
from broker.event.stream import StreamPattern
from tests.event.test_stream import NAMES, PATTERNS

ORIGIN = "65a1f0e0" + "0123456789abcdef"


def test_a_key_names_the_origin_and_the_pattern() -> None:
    flow = make_flow(ORIGIN, "asdi.*.tz")
    assert flow == f"{ORIGIN}/asdi.*.tz"
    assert (origin_of(flow), pattern_of(flow)) == (ORIGIN, "asdi.*.tz")
    assert not is_default_flow(flow)
    assert (origin_of(ORIGIN), pattern_of(ORIGIN)) == (ORIGIN, "") and is_default_flow(ORIGIN)


@pytest.mark.parametrize(
    "flow",
    [
        "",
        "/asdi.>",
        "o/",
        "o/a/b",
        "o/a..b",
        "o/../../etc",
        "o/>.a",
        "o/a\0",
        "o\0/a",
        "o/" + ".".join("a" * 17),
        "o/" + ".".join(["a" * 64] * 4),
        "é" * 33,
    ],
)
def test_an_invalid_key_is_refused(flow: str) -> None:
    assert not is_flow(flow)
    with pytest.raises(BadName):
        check_flow(flow)


def test_the_text_of_a_position_keeps_its_flows() -> None:
    position = Position({ORIGIN: (1, 9), f"{ORIGIN}/asdi.>": (1, 5)})
    assert Position.parse(str(position)) == position
    assert Position.from_wire(position.to_wire()) == position
    assert not position.covers(Place(f"{ORIGIN}/asdi.>", 1, 6))


@pytest.mark.parametrize(
    ("stream", "carried_by"),
    [
        ("asdi.zbw.tz", "asdi.zbw.tz"),
        ("asdi.zbw.ho", "asdi.zbw.*"),
        ("asdi.zbw.ho.x", "asdi.zbw.>"),
        ("asdi.zny.tz", "asdi.*.tz"),
        ("asdi.zny.ho", "asdi.>"),
        ("x.zbw.ho", "*.zbw.>"),
        ("asdi", None),
        ("other", None),
    ],
)
def test_the_longest_pattern_carries_a_stream(stream: str, carried_by: str | None) -> None:
    texts = ("asdi.>", "*.zbw.>", "asdi.*.tz", "asdi.zbw.>", "asdi.zbw.*", "asdi.zbw.tz")
    for given_texts in (texts, reversed(texts)):
        carrying = CarryingPatterns.parse(given_texts)
        flow = ORIGIN if carried_by is None else f"{ORIGIN}/{carried_by}"
        assert carrying.flow_of(ORIGIN, stream) == flow
    assert DEFAULT_ONLY.flow_of(ORIGIN, stream) == ORIGIN and not DEFAULT_ONLY


@given(PATTERNS, PATTERNS, NAMES)
def test_two_patterns_that_match_a_stream_have_different_ranks(
    one: str, other: str, stream: str
) -> None:
    first, second = StreamPattern.parse(one), StreamPattern.parse(other)
    if first.matches(stream) and second.matches(stream):
        assert (precedence(first) == precedence(second)) is (first == second)


@given(PATTERNS, PATTERNS)
def test_a_pattern_ranks_above_those_that_cover_it(one: str, other: str) -> None:
    first, second = StreamPattern.parse(one), StreamPattern.parse(other)
    if first != second and first.covers(second):
        assert precedence(first) < precedence(second)


def test_patterns_of_a_configuration_are_bounded() -> None:
    CarryingPatterns.parse(f"s{n}" for n in range(MAX_PATTERNS))
    with pytest.raises(BadName, match="65 patterns"):
        CarryingPatterns.parse(f"s{n}" for n in range(MAX_PATTERNS + 1))
    longest = MAX_FLOW_BYTES - MAX_ORIGIN_BYTES - 1
    tokens = ".".join(["a" * 62] * 3)[: longest - 2] + ".>"
    assert len(make_flow("o" * MAX_ORIGIN_BYTES, tokens)) <= MAX_FLOW_BYTES
    CarryingPatterns.parse([tokens])
    with pytest.raises(BadName, match="long"):
        CarryingPatterns.parse([".".join(["a" * 64] * 3)])
    with pytest.raises(BadName):
        CarryingPatterns.parse(["a..b"])


MARKS = [(1, 0), (2, 10), (3, 20), (4, 30)]
FLOW = make_flow(ORIGIN, "asdi.>")


def restart(
    known: dict[str, tuple[FlowInterval, ...]], start: Mark, *patterns: str
) -> dict[str, tuple[FlowInterval, ...]]:
    return {**known, **update_intervals(ORIGIN, known, CarryingPatterns.parse(patterns), start)}


def test_a_flow_is_open_from_the_first_start_with_its_pattern_to_the_first_without() -> None:
    known = restart({}, MARKS[0])
    assert known == {}
    known = restart(known, MARKS[1], "asdi.>")
    assert known == {FLOW: ((MARKS[1], None),)}
    assert update_intervals(ORIGIN, known, CarryingPatterns.parse(["asdi.>"]), MARKS[2]) == {}
    known = restart(known, MARKS[2], "other")
    assert known[FLOW] == ((MARKS[1], MARKS[2]),)
    known = restart(known, MARKS[3], "asdi.>")
    assert known[FLOW] == ((MARKS[1], MARKS[2]), (MARKS[3], None))
    inside = [is_within_intervals(known[FLOW], mark) for mark in [(2, 10), (2, 11), (3, 20)]]
    assert inside == [False, True, True]
    inside = [is_within_intervals(known[FLOW], mark) for mark in [(3, 21), (4, 30), (4, 31)]]
    assert inside == [False, False, True]


def test_other_origins_flows_do_not_change_at_a_start() -> None:
    other = make_flow("o" * 24, "asdi.>")
    assert restart({other: (((1, 0), None),)}, MARKS[2]) == {other: (((1, 0), None),)}


def test_intervals_are_bounded() -> None:
    known: dict[str, tuple[FlowInterval, ...]] = {}
    for epoch in range(1, 300, 2):
        known = restart(known, (epoch, epoch), "asdi.>")
        known = restart(known, (epoch + 1, epoch + 1))
    assert len(known[FLOW]) == MAX_INTERVALS and known[FLOW][-1] == ((299, 299), (300, 300))
