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
from broker.errors import NotValid
from broker.event.envelope import Liveness
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted, Refused, TypeMissing
from broker.matching.name_watch import RESERVED_NAMES, NameLimits, NameWatch
from broker.matching.query.query import parse_query
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.separate_names import call_separately
from broker.matching.undescribed import without_dtds
from broker.matching.xpath_evaluation import CompiledXPath, query_inputs

ALL = StreamPattern.parse(">")
MakeEvent = Callable[..., bytes]
MakeSlow = Callable[..., tuple[ReferenceMatcher, int]]


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
    """Make an engine with one query, whose evaluations take the given times in turn, and pause."""

    def make(durations: Iterable[float], pause: float = 0.0) -> tuple[ReferenceMatcher, int]:
        now, paused, seconds = [0.0], [0.0], iter(durations)
        engine = ReferenceMatcher(
            dtds,
            clock=lambda: now[0] + paused[0],
            max_run_time=0.05,
            processor_clock=lambda: now[0],
        )
        number = engine.subscribe(ALL, parse_query("/flight"))
        compiled = replaceable(engine, number)
        evaluate = compiled.matches

        def match_slowly(subject: Any) -> bool:
            now[0] += next(seconds)
            paused[0] += pause
            return evaluate(subject)

        monkeypatch.setattr(compiled, "matches", match_slowly)
        return engine, number

    return make


def test_query_that_takes_too_long_is_suspended(make_slow: MakeSlow, make_event: MakeEvent) -> None:
    engine, slow = make_slow([0.06])
    quick = engine.subscribe(ALL, parse_query("//leg"))
    (verdict,) = engine.match([make_event()])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (quick,)
    ((number, error),) = engine.take_suspended()
    assert number == slow
    assert "60 ms" in error.text
    assert engine.statistics()["suspended_queries"] == 1


def test_pause_of_the_machine_suspends_no_query(make_slow: MakeSlow, make_event: MakeEvent) -> None:
    engine, number = make_slow(repeat(0.01), pause=1.0)
    verdicts = engine.match([make_event(), make_event()])
    assert [v.subscriptions for v in verdicts if isinstance(v, Accepted)] == [(number,)] * 2
    assert engine.take_suspended() == []


def test_large_event_gets_no_more_time(make_slow: MakeSlow, make_event: MakeEvent) -> None:
    """The node stops for each evaluation."""
    engine, number = make_slow(repeat(0.06))
    text = b"x" * (10 * 64 * 1024)
    engine.match([make_event(b"<flight><id>%s</id></flight>" % text)])
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
    engine.match([make_event(b"<flight><id>1</id>%s</flight>" % (b"<remark/>" * 16_000))])
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


def test_documents_beyond_the_bound_of_names_are_parsed_separately(
    dtds: Any, ticking: Any, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ReferenceMatcher(dtds, clock=ticking, names=NameWatch(NameLimits(max_names=20)))
    number = engine.subscribe(ALL, parse_query("//leg"))
    separate = count_calls(monkeypatch)
    for n in range(20 + RESERVED_NAMES):
        (verdict,) = engine.match([make_event(b"<flight><id>1</id><n%d/></flight>" % n)])
        assert isinstance(verdict, Refused)
    assert engine.statistics()["guarding_names"] == 1
    known, before = engine.statistics()["undeclared_names"], len(separate)
    (verdict,) = engine.match([make_event(b"<flight><id>1</id><later/></flight>")])
    assert isinstance(verdict, Refused) and isinstance(verdict.error, NotValid)
    assert len(separate) == before + 1
    (verdict,) = engine.match([make_event()])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (number,)
    assert len(separate) == before + 1
    (verdict,) = engine.match([make_event().replace(b"<id>", b"<?later?><id>")])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (number,)
    assert len(separate) == before + 2
    unknown = DtdReference("unknown", "1.0")
    document = make_event(b"<unknown/>", type_name="unknown")
    assert isinstance(engine.match([document])[0], TypeMissing)
    (verdict,) = engine.match([document], variants=without_dtds([unknown]))
    assert isinstance(verdict, Accepted)
    assert len(separate) == before + 3
    assert engine.statistics()["undeclared_names"] == known


def test_logged_documents_have_a_share_of_names(
    dtds: Any, ticking: Any, make_event: MakeEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ReferenceMatcher(
        dtds, clock=ticking, names=NameWatch(NameLimits(max_names_of_holder=5))
    )
    number = engine.subscribe(ALL, parse_query("//leg"))
    separate = count_calls(monkeypatch)
    documents = [make_event().replace(b"<id>", b"<?t%d?><id>" % n) for n in range(9)]
    assert engine.select(number, documents, Liveness.LIVE) == [True] * 9
    # The envelope's namespace is a name.
    assert (engine.statistics()["undeclared_names"], len(separate)) == (5, 5)
    assert engine.select(number, documents[:4], Liveness.LIVE) == [True] * 4
    assert len(separate) == 5


def count_calls(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that grows with each separate parse."""
    calls: list[object] = []

    def call(make_tree: Callable[[], object]) -> object:
        calls.append(make_tree)
        return call_separately(make_tree)

    monkeypatch.setattr("broker.matching.document_parser.call_separately", call)
    return calls


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
from tests.matching.resident_memory import measure_resident

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
assert engine.statistics()["undeclared_names"] > 1400
for n in range(10, 510):
    if n in (60, 110):
        # The process has reached its normal size, and returned what it needed on the way.
        before = measure_resident()
    engine.match([named(n)])
    (verdict,) = engine.match([spaced()])
    assert type(verdict).__name__ == "Accepted", verdict
print((measure_resident() - before) // 1024)
"""


def test_memory_is_bounded_for_any_names_and_blanks(
    pytestconfig: pytest.Config,
) -> None:
    assert measure_growth(_GROWTH, pytestconfig) < 6 * 1024


def measure_growth(program: str, pytestconfig: pytest.Config) -> int:
    """Return the KiB that a program prints."""
    finished = subprocess.run(
        [sys.executable, "-c", program.format(paths=[str(pytestconfig.rootpath)])],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return int(finished.stdout)


#: Feeds 14 valid documents with 95,000 distinct names each to two engines in turns.
_SEPARATE_GROWTH = """
import itertools, sys, time
sys.path[:0] = {paths!r}
from tests.matching.conftest import FLIGHT_DTD, KnownDtds, event, load_dtd
from broker.event.envelope import Liveness
from broker.event.reader import make_parser, read_latest_version
from broker.event.stream import StreamPattern
from broker.matching.separate_names import call_separately
from broker.matching.document_limits import DocumentLimits
from broker.matching.payload_key import compile_key_path
from broker.matching.query.query import parse_query
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.switch import Switch
from tests.matching.resident_memory import measure_resident

dtds = KnownDtds(load_dtd("flight", "1.0", FLIGHT_DTD))
clock = time.perf_counter
limits = DocumentLimits(max_markup=200_000)
engines = [
    each(dtds, clock, limits, processor_clock=time.thread_time)
    for each in (ReferenceMatcher, Switch)
]
read_key = compile_key_path("/flight/id", {{}})
letters = map("".join, itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=5))
for engine in engines:
    for text in ("//id = '1'", "count(//id) = 1 and name(/*) = 'flight'", "//leg or //id"):
        number = engine.subscribe(StreamPattern.parse(">"), parse_query(text))
for n in range(14):
    if n == 5:
        # The process has reached its normal size.
        before = measure_resident()
    engine = engines[n % 2]
    names = "".join("<?%s?>" % each for each in itertools.islice(letters, 95_000))
    document = event(b"<flight><id>1</id>%s</flight>" % names.encode())
    (verdict,) = engine.match([document], holder="bad")
    assert type(verdict).__name__ == "Accepted", verdict
    assert len(verdict.subscriptions) == 3, verdict
    assert engine.select(number, [document], Liveness.LIVE) == [True]
    assert read_key(document) == "1"
    assert call_separately(lambda: read_latest_version(document, make_parser())) is None
assert [each.statistics()["undeclared_names"] for each in engines] == [0, 0]
print((measure_resident() - before) // 1024)
"""


def test_names_of_documents_parsed_separately_take_no_memory(pytestconfig: pytest.Config) -> None:
    assert measure_growth(_SEPARATE_GROWTH, pytestconfig) < 6 * 1024
