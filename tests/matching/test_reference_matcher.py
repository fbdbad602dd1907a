"""The reference engine's own behaviour: bounded memory and bounded run time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import pytest
from lxml import etree

from broker.dtd.reference import DtdReference
from broker.errors import TooManyNames
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted, Refused, TypeMissing
from broker.matching.name_watch import NameLimits, NameWatch
from broker.matching.query.query import parse_query
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.xpath_evaluation import CompiledXPath, query_inputs

ALL = StreamPattern.parse(">")
MakeEvent = Callable[..., bytes]
MakeSlow = Callable[[Iterable[float]], tuple[ReferenceMatcher, int]]


class Replaceable(CompiledXPath):
    """A compiled query whose `matches` a test can replace; the original has slots."""


def replaceable(engine: ReferenceMatcher, number: int) -> Replaceable:
    group = engine._by_number[number]
    query = group.query
    group.compiled = compiled = Replaceable(query.compilable, query.namespaces, query_inputs(query))
    return compiled


def test_each_distinct_query_is_evaluated_once_per_event(
    dtds: Any, ticking: Any, make_event: MakeEvent
) -> None:
    engine = ReferenceMatcher(dtds, clock=ticking)
    for query in ["/flight", "/flight", "//leg", "true()", "/flight"]:
        engine.subscribe(ALL, parse_query(query))
    engine.subscribe(StreamPattern.parse("iff.>"), parse_query("//other"))
    engine.match([make_event(), make_event()])
    assert engine.statistics()["evaluations"] == 4


@pytest.fixture
def make_slow(dtds: Any, monkeypatch: pytest.MonkeyPatch) -> MakeSlow:
    """Make an engine with one query, whose evaluations take the given times in turn."""

    def make(durations: Iterable[float]) -> tuple[ReferenceMatcher, int]:
        now, seconds = [0.0], iter(durations)
        engine = ReferenceMatcher(dtds, clock=lambda: now[0], max_run_time=0.05)
        number = engine.subscribe(ALL, parse_query("/flight"))
        compiled = replaceable(engine, number)
        evaluate = compiled.matches

        def match_slowly(subject: Any) -> bool:
            now[0] += next(seconds)
            return evaluate(subject)

        monkeypatch.setattr(compiled, "matches", match_slowly)
        return engine, number

    return make


def test_query_that_takes_too_long_twice_is_suspended(
    make_slow: MakeSlow, make_event: MakeEvent
) -> None:
    engine, slow = make_slow(repeat(0.06))
    quick = engine.subscribe(ALL, parse_query("//leg"))
    (verdict,) = engine.match([make_event()])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (quick,)
    ((number, error),) = engine.take_suspended()
    assert number == slow
    assert "60 ms" in error.text
    assert engine.statistics()["suspended_queries"] == 1


def test_pause_of_the_machine_suspends_no_query(make_slow: MakeSlow, make_event: MakeEvent) -> None:
    engine, number = make_slow([1.0, 0.0, 0.0])
    verdicts = engine.match([make_event(), make_event()])
    assert [v.subscriptions for v in verdicts if isinstance(v, Accepted)] == [(number,)] * 2
    assert engine.take_suspended() == []


def test_large_event_gets_proportionally_more_time(
    make_slow: MakeSlow, make_event: MakeEvent
) -> None:
    engine, number = make_slow(repeat(0.4))
    text = b"x" * (10 * 64 * 1024)
    (verdict,) = engine.match([make_event(b"<flight><id>%s</id></flight>" % text)])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (number,)
    assert engine.take_suspended() == []
    engine.match([make_event()])
    assert [n for n, _ in engine.take_suspended()] == [number]


def test_query_that_exceeds_libxml2_limits_is_suspended(
    dtds: Any, ticking: Any, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ReferenceMatcher(dtds, clock=ticking)
    broken = engine.subscribe(ALL, parse_query("/flight"))
    sound = engine.subscribe(ALL, parse_query("//leg"))

    def raise_limit_error(subject: Any) -> bool:
        raise etree.XPathEvalError("Resource limit exceeded")

    monkeypatch.setattr(replaceable(engine, broken), "matches", raise_limit_error)
    (verdict,) = engine.match([make_event()])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (sound,)
    ((number, error),) = engine.take_suspended()
    assert number == broken
    assert "Resource limit exceeded" in error.text


def test_suspended_query_can_be_subscribed_again(
    dtds: Any, ticking: Any, make_event: MakeEvent
) -> None:
    engine = ReferenceMatcher(dtds, clock=ticking)
    query = parse_query("//remark[//remark = 'x']")
    first = engine.subscribe(ALL, query)
    engine.match([make_event(b"<flight><id>1</id>%s</flight>" % (b"<remark/>" * 20_000))])
    second = engine.subscribe(ALL, query)
    engine.unsubscribe(first)
    assert engine.take_suspended() == []
    small = make_event(b"<flight><id>1</id><remark>x</remark></flight>")
    (verdict,) = engine.match([small])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (second,)


def test_error_log_of_the_parser_is_bounded(dtds: Any, ticking: Any) -> None:
    engine = ReferenceMatcher(dtds, clock=ticking)
    for _ in range(50):
        engine.match([b"<a>" + b"<p:b/>" * 100 + b"</a>", b"<a>"])
    assert len(engine._examiner._parser._parser.error_log) <= 100


def test_engine_guards_after_too_many_undeclared_names(
    dtds: Any, ticking: Any, make_event: MakeEvent
) -> None:
    engine = ReferenceMatcher(dtds, clock=ticking, names=NameWatch(NameLimits(max_names=20)))
    number = engine.subscribe(ALL, parse_query("//leg"))
    for n in range(25):
        (verdict,) = engine.match([make_event(b"<flight><id>1</id><n%d/></flight>" % n)])
        assert isinstance(verdict, Refused)
    assert engine.statistics()["guarding_names"] == 1
    (verdict,) = engine.match([make_event(b"<flight><id>1</id><later/></flight>")])
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, TooManyNames)
    assert verdict.error.text.startswith("'later' is not declared")
    (verdict,) = engine.match([make_event()])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (number,)
    unknown = DtdReference("unknown", "1.0")
    document = make_event(b"<unknown/>", type_name="unknown")
    assert isinstance(engine.match([document])[0], TypeMissing)
    (verdict,) = engine.match([document], frozenset({unknown}))
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, TooManyNames)


def test_processing_instructions_count_as_names(
    dtds: Any, ticking: Any, make_event: MakeEvent
) -> None:
    engine = ReferenceMatcher(dtds, clock=ticking)
    document = make_event()
    engine.match([document.replace(b"<id>", b"<?target%d x?><id>" % n) for n in range(30)])
    # Including the envelope's namespace, which libxml2 keeps, too.
    assert engine.statistics()["undeclared_names"] == 31
    assert engine.statistics()["accepted"] == 30


#: Feeds 40 MB of distinct names, and as many distinct runs of blanks in valid documents.
_GROWTH = """
import random, sys
sys.path[:0] = {paths!r}
from tests.matching.conftest import FLIGHT_DTD, KnownDtds, event, load_dtd
from broker.matching.name_watch import NameLimits, NameWatch
from broker.matching.reference_matcher import ReferenceMatcher

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

guess = random.Random(1)
dtds = KnownDtds(load_dtd("flight", "1.0", FLIGHT_DTD))
engine = ReferenceMatcher(dtds, clock=lambda: 0.0, names=NameWatch(NameLimits(max_names=2000)))

def named(n):
    names = b"".join(b"<n%d%s/>" % (n * 500 + i, b"x" * 190) for i in range(500))
    return event(b"<flight><id>1</id>%s</flight>" % names)

def spaced():
    runs = (b"<leg/>" + bytes(guess.choices(b" \\t\\n", k=50)) for _ in range(500))
    return event(b"<flight><id>1</id>%s</flight>" % b"".join(runs))

engine.match([named(n) for n in range(10)])
engine.match([spaced() for _ in range(10)])
assert engine.statistics()["undeclared_names"] > 1900
for n in range(10, 510):
    if n == 110:
        # The process has reached its normal size.
        before = resident()
    engine.match([named(n)])
    (verdict,) = engine.match([spaced()])
    assert type(verdict).__name__ == "Accepted", verdict
print((resident() - before) // 1024)
"""


def test_memory_is_bounded_for_any_names_and_blanks(
    pytestconfig: pytest.Config,
) -> None:
    program = _GROWTH.format(paths=[str(pytestconfig.rootpath)])
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert finished.returncode == 0, finished.stderr
    grown_kib = int(finished.stdout)
    assert grown_kib < 6 * 1024
