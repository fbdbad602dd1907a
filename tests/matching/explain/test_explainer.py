"""Explanations agree with the engine on random events and queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.dtd.dtd import Dtd
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted, DtdNeeded, IMatcher
from broker.matching.explain.explanation import AnswerMethod, Explanation, Finding
from broker.matching.query.query import parse_query
from tests.matching.conftest import ENGINES, FLIGHT, KnownDtds, event
from tests.matching.test_oracle import _QUERIES, payloads
from tests.matching.unlimited import ANY_COST

EVERYTHING = StreamPattern.parse(">")
BINDINGS = {"p": "urn:x"}


def all_of(finding: Finding) -> Iterator[Finding]:
    yield finding
    for part in finding.parts:
        yield from all_of(part)


def counts_of(engine: IMatcher) -> dict[str, int | float]:
    """Return all counters except the names that libxml2 keeps of every document."""
    return {k: n for k, n in engine.statistics().items() if k != "undeclared_names"}


def matches(engine: IMatcher, query: Any, document: bytes) -> bool:
    number = engine.subscribe(EVERYTHING, query)
    (verdict,) = engine.match([document])
    engine.unsubscribe(number)
    assert isinstance(verdict, Accepted), verdict
    return bool(verdict.subscriptions)


def plain_parts(content: Any) -> Iterator[Any]:
    if isinstance(content, dict):
        assert all(type(key) is str for key in content)
        content = content.values()
    if isinstance(content, str | int | float | None):
        yield content
        return
    for each in content:
        yield from plain_parts(each)


@pytest.mark.parametrize("name", sorted(ENGINES))
@settings(max_examples=150)
@given(
    payload=payloads(), queries=st.lists(_QUERIES, min_size=1, max_size=4), times=st.integers(0, 3)
)
def test_the_explained_result_equals_the_engines(
    name: str, flight_dtd: Dtd, ticking: Any, payload: str, queries: list[str], times: int
) -> None:
    engine = ENGINES[name](KnownDtds(flight_dtd), clock=ticking)
    document = event(payload.encode())
    for _ in range(times):
        engine.match([document])
    for text in queries:
        query = parse_query(text, BINDINGS, ANY_COST)
        before = counts_of(engine)
        explanation = engine.explain(query, document)
        assert counts_of(engine) == before
        told = explanation.event
        assert told is not None and told.finding is not None
        expected = matches(engine, query, document)
        assert (told.matches, told.finding.holds) == (expected, expected), (text, payload)
        for finding in all_of(told.finding):
            if finding.values and not finding.more and finding.operator in ("=", "<", ">"):
                judged = [value.holds for value in finding.values]
                if None not in judged:
                    assert finding.holds == any(judged), (text, payload)
        assert all(
            type(part) in (str, int, float, bool, type(None))
            for part in plain_parts(explanation.as_dict())
        )


@settings(max_examples=200)
@given(payload=payloads(), other=payloads(), text=_QUERIES)
def test_the_method_of_a_shape_is_right_for_its_documents(
    flight_dtd: Dtd, ticking: Any, payload: str, other: str, text: str
) -> None:
    engine = ENGINES["switch"](KnownDtds(flight_dtd), clock=ticking)
    documents = [event(payload.encode()), event(other.encode(), sequence_number=8)]
    for _ in range(3):
        engine.match(documents)
    query = parse_query(text, BINDINGS, ANY_COST)
    explanation = engine.explain(query, None)
    hows = {answer.how for answer in explanation.types}
    assert sum(answer.shapes for answer in explanation.types) == engine.statistics()["shapes"]
    for document in documents:
        told = engine.explain(query, document).event
        assert told is not None
        if not told.recognised:
            continue
        if hows == {AnswerMethod.NEVER}:
            assert not matches(engine, query, document), (text, payload, other)
        if hows == {AnswerMethod.ALWAYS}:
            assert matches(engine, query, document), (text, payload, other)
        if AnswerMethod.EVALUATION not in hows:
            before = engine.statistics()["undecided"]
            matches(engine, query, document)
            assert engine.statistics()["undecided"] == before


@pytest.fixture
def switch(dtds: KnownDtds) -> IMatcher:
    """A switch that knows the shape of `FLIGHT`; each look at its clock takes a microsecond."""
    seconds = iter(range(10**9))
    engine = ENGINES["switch"](dtds, clock=lambda: next(seconds) / 1e6)
    for number in range(1, 4):
        engine.match([event(sequence_number=number)])
    assert engine.statistics()["shapes"] == 1
    return engine


def explained(engine: IMatcher, text: str, document: bytes | None = None) -> Explanation:
    return engine.explain(parse_query(text, BINDINGS), document)


def test_the_explanation_has_the_indexed_paths(switch: IMatcher) -> None:
    explanation = explained(switch, "/flight/leg[altitude > 300 and @status = 'active']")
    (alternative,) = explanation.alternatives
    assert alternative.literals == ((">", "300"), ("=", "'active'"))
    assert (alternative.access, alternative.sharing) == ("hash", 0)
    (answer,) = explanation.types
    assert (answer.type, answer.version, answer.shapes) == ("flight", "1.0", 1)
    assert answer.how is AnswerMethod.INDEX
    slot, constant = answer.alternatives[0].comparisons
    assert (slot.operator, slot.literal, slot.constant) == (">", "300", False)
    assert slot.paths == ("/flight/leg/altitude",)
    assert (constant.paths, constant.constant) == ((), True)
    assert explanation.measured.note == "not measured: no event was given"
    assert explanation.event is None


@pytest.mark.parametrize(
    ("text", "how", "access"),
    [
        ("starts-with(/flight/id, 'UAL')", AnswerMethod.INDEX, "prefix"),
        ("//altitude > 300", AnswerMethod.INDEX, "bitmaps"),
        ("//altitude > 300 and //altitude < 310", AnswerMethod.INDEX, "ranges"),
        ("contains($StreamId, 'x')", AnswerMethod.INDEX, "bitmaps"),
        ("not(/flight/id = 'UAL1')", AnswerMethod.INDEX, "bitmaps"),
        ("/flight/leg", AnswerMethod.ALWAYS, ""),
        ("//leg[@status = 'active']", AnswerMethod.ALWAYS, ""),
        ("true()", AnswerMethod.ALWAYS, ""),
        ("/flight/remark", AnswerMethod.NEVER, ""),
        ("//leg[@status = 'gone']/altitude > 3", AnswerMethod.NEVER, ""),
        ("count(//leg[altitude > 3]) > 1", AnswerMethod.EVALUATION, "nothing"),
        ("/flight/id = 'x' or //altitude > 3", AnswerMethod.INDEX, "hash"),
        ("/flight/id = 'x' or /flight/leg", AnswerMethod.ALWAYS, "hash"),
        ("/flight/remark = 'x' or lang('en')", AnswerMethod.EVALUATION, ""),
    ],
)
def test_the_method_and_the_access_of_a_query(
    switch: IMatcher, text: str, how: AnswerMethod, access: str
) -> None:
    (answer,) = explained(switch, text).types
    assert (answer.how, answer.alternatives[0].access) == (how, access)
    assert all(
        bool(each.reasons) == (each.how in (AnswerMethod.EVALUATION, AnswerMethod.NEVER))
        for each in answer.alternatives
    )


def test_queries_that_share_a_template_are_counted(switch: IMatcher) -> None:
    for altitude in range(5):
        switch.subscribe(EVERYTHING, parse_query(f"//altitude > {altitude}"))
    assert explained(switch, "//altitude > 3").alternatives[0].sharing == 5
    assert explained(switch, "//altitude > 777").alternatives[0].sharing == 5
    assert explained(switch, "//altitude < 3").alternatives[0].sharing == 0


def test_shapes_with_one_answer_are_one_group_with_all_paths(switch: IMatcher) -> None:
    for legs in range(2, 12):
        for number in range(3):
            payload = (
                b"<flight><id>x</id>" + b"<leg><altitude>2</altitude></leg>" * legs + b"</flight>"
            )
            switch.match([event(payload, sequence_number=100 * legs + number)])
    (answer,) = explained(switch, "//altitude > 300").types
    assert answer.shapes == 11
    (comparison,) = answer.alternatives[0].comparisons
    assert comparison.paths[:2] == ("/flight/leg/altitude", "/flight/leg[1]/altitude")
    assert (len(comparison.paths), comparison.more_paths) == (6, 6)


def test_costs_are_measured_by_the_engines_clock(switch: IMatcher) -> None:
    switch.subscribe(EVERYTHING, parse_query("//altitude > 3"))
    measured = explained(switch, "//altitude > 3", event()).measured
    for seconds in (measured.evaluation, measured.lookup, measured.parsing):
        assert seconds is not None and round(seconds * 1e6, 3) == 1.0
    switch_only = explained(switch, "//altitude > 3", event(b"<flight><id/></flight>")).measured
    assert switch_only.lookup is None and switch_only.evaluation is not None


def test_shapes_beyond_the_time_limit_are_counted(dtds: KnownDtds) -> None:
    seconds = [0.0, 0.0]

    def clock() -> float:
        seconds[0] += seconds[1]
        return seconds[0]

    engine = ENGINES["switch"](dtds, clock=clock)
    for number in range(3):
        engine.match([event(sequence_number=number + 1)])
    seconds[1] = 1.0
    engine.explain(parse_query("//altitude > 3"), None)
    explanation = engine.explain(parse_query("//altitude > 3"), None)
    assert (explanation.types, explanation.more_shapes) == ((), 1)


def test_shapes_are_withheld_on_request(switch: IMatcher) -> None:
    explanation = switch.explain(parse_query("//altitude > 3"), None, shapes=False)
    assert (explanation.types, explanation.withheld) == ((), True)
    assert explanation.alternatives


def test_a_refused_event_has_its_error(engine: IMatcher) -> None:
    told = explained(engine, "/flight", event(b"<flight><id/><leg><oops/></leg></flight>")).event
    assert told is not None and told.refused is not None
    code, text, line, _ = told.refused
    assert (code, line > 0) == ("not-valid", True)
    assert "oops" in text
    assert (told.matches, told.finding) == (None, None)
    told = explained(engine, "/flight", b"<flight>").event
    assert told is not None and told.refused is not None and told.refused[0] == "not-well-formed"


def test_a_missing_dtd_raises_an_error(engine: IMatcher) -> None:
    with pytest.raises(DtdNeeded) as needed:
        explained(engine, "/flight", event(FLIGHT, version="9.0"))
    assert needed.value.missing.reference.version == "9.0"


def test_the_reference_engine_explains_the_event_only(dtds: KnownDtds, ticking: Any) -> None:
    engine = ENGINES["reference"](dtds, clock=ticking)
    explanation = explained(engine, "//altitude > 3", event())
    assert (explanation.engine, explanation.alternatives, explanation.types) == (
        "reference",
        (),
        (),
    )
    assert explanation.event is not None and explanation.event.matches is True
    assert explanation.event.recognised is False


def test_a_query_too_expensive_for_the_event_is_not_explained(
    dtds: KnownDtds, ticking: Any
) -> None:
    legs = b"<leg><altitude>1</altitude></leg>" * 4_000
    engine = ENGINES["switch"](dtds, clock=ticking)
    dear = "count(//leg[count(preceding::leg[altitude = 7]) = 7])"
    told = engine.explain(
        parse_query(dear, {}, ANY_COST), event(b"<flight><id/>" + legs + b"</flight>")
    ).event
    assert told is not None
    assert (told.matches, told.finding) == (None, None)
    assert "it is not evaluated on this event" in told.note
