"""The contract of `IMatcher`, for every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from broker.dtd.reference import DtdReference
from broker.errors import NotWellFormed, QueryTooExpensive, UnknownSubscription
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted, DtdNeeded, IMatcher, Refused, TypeMissing
from broker.matching.query.query import parse_query
from broker.matching.undescribed import without_dtds

ALL = StreamPattern.parse(">")
MakeEvent = Callable[..., bytes]


def matches(engine: Any, query: str, document: bytes, **namespaces: str) -> bool:
    number = engine.subscribe(ALL, parse_query(query, namespaces))
    (verdict,) = engine.match([document])
    engine.unsubscribe(number)
    assert isinstance(verdict, Accepted), verdict
    assert verdict.subscriptions in ((), (number,))
    return bool(verdict.subscriptions)


def test_engine_provides_the_interface(engine: Any) -> None:
    assert verifyObject(IMatcher, engine)


def test_accepted_event_has_its_header(engine: Any, make_event: MakeEvent) -> None:
    document = make_event(security_level=SecurityLevel.HIGH, liveness=Liveness.RECOVERY)
    assert engine.match([document]) == [
        Accepted(
            Header(
                EventId("pilot", 1700000000123, 7, 1699),
                "asdi.zbw",
                "flight",
                "1.0",
                SecurityLevel.HIGH,
                Liveness.RECOVERY,
            ),
            (),
        )
    ]


def test_verdicts_have_the_order_of_the_documents(engine: Any, make_event: MakeEvent) -> None:
    documents = [make_event(sequence_number=n) if n % 2 else b"<a>" for n in range(1, 7)]
    verdicts = engine.match(documents)
    assert [type(v) for v in verdicts] == [Accepted, Refused] * 3
    assert [v.header.event_id.sequence_number for v in verdicts[::2]] == [1, 3, 5]
    assert engine.match([]) == []


def test_matching_subscriptions_are_in_ascending_order(engine: Any, make_event: MakeEvent) -> None:
    queries = ["true()", "/flight", "/flight/id = 'DLH1'", "true()", "//leg", "/flight"]
    numbers = [engine.subscribe(ALL, parse_query(query)) for query in queries]
    assert numbers == sorted(set(numbers))
    (verdict,) = engine.match([make_event()])
    assert verdict.subscriptions == tuple(numbers[i] for i in (0, 1, 3, 4, 5))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("true()", True),
        ("false()", False),
        ("1", True),
        ("0", False),
        ("-0", False),
        ("0 div 0", False),
        ("1 div 0", True),
        ("'x'", True),
        ("''", False),
        ("'false'", True),
        ("/flight", True),
        ("/plane", False),
        ("/", True),
        ("count(//leg)", True),
        ("count(//plane)", False),
        ("//altitude - 290", False),
        ("//id - 1", False),
        ("string(//id)", True),
        ("string(//plane)", False),
        ("not(//plane)", True),
        ("//leg/@status", True),
    ],
)
def test_boolean_value_of_a_query_decides(
    engine: Any, make_event: MakeEvent, query: str, expected: bool
) -> None:
    assert matches(engine, query, make_event()) is expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("/flight/leg[altitude > 200]", True),
        ("/flight/leg[altitude > 300]", False),
        ("/flight[not(..)]", False),
        ("/flight[../flight]", True),
        ("/*[self::flight]", True),
        ("/node()[not(self::flight)]", False),
        ("/text()", False),
        # A relative path starts at the payload's root element.
        ("leg", True),
        ("flight", False),
        ("self::node()[x]", False),
        ("self::flight", True),
        ("name() = 'flight'", True),
        ("ancestor::*", False),
        # The envelope is not part of the payload's document.
        ("//Mspaces:StreamId", False),
        ("//Mspaces:Event", False),
        ("/flight/namespace::Mspaces", False),
    ],
)
def test_payload_is_a_separate_document(
    engine: Any, make_event: MakeEvent, query: str, expected: bool
) -> None:
    assert matches(engine, query, make_event()) is expected


def test_text_around_the_payload_is_not_in_its_document(engine: Any, make_event: MakeEvent) -> None:
    document = (
        make_event().replace(b"<flight>", b"\n <flight>").replace(b"</flight>", b"</flight>\n ")
    )
    assert not matches(engine, "/text()", document)
    assert matches(engine, "count(/node()) = 1", document)
    assert matches(engine, "/Mspaces:Event/text()", document)
    remarked = document.replace(b"\n <flight>", b"<!-- a --><?b c?><flight>")
    assert matches(engine, "count(/node()) = 1", remarked)
    assert matches(engine, "/Mspaces:Event/comment()", remarked)


def test_defaults_of_the_dtd_are_visible_to_queries(engine: Any, make_event: MakeEvent) -> None:
    bare = make_event().replace(b' Securitylevel="med"', b"")
    assert b"Securitylevel" not in bare
    assert matches(engine, "/flight/@kind = 'scheduled'", bare)
    assert matches(engine, "/Mspaces:Event/Mspaces:EventType/@Securitylevel = 'med'", bare)
    assert matches(engine, "/Mspaces:Event/Mspaces:EventType[@Liveness = 'live']", bare)
    assert matches(engine, "$Securitylevel = 'med' and $Liveness = 'live'", bare)
    given = make_event(b'<flight kind="charter"><id>1</id></flight>')
    assert not matches(engine, "/flight/@kind = 'scheduled'", given)


def test_each_version_of_a_type_has_its_own_dtd(engine: Any, make_event: MakeEvent) -> None:
    number = engine.subscribe(ALL, parse_query("/flight/@kind = 'charter'"))
    verdicts = engine.match([make_event(version="1.0"), make_event(version="2.0")])
    assert [v.subscriptions for v in verdicts] == [(), (number,)]


@pytest.mark.parametrize(
    "query",
    [
        "$StreamId = 'asdi.zbw'",
        "$ClientId = 'pilot'",
        "$TimeStamp = 1700000000123",
        "$TimeStamp mod 2",
        "$SequenceNumber = 7",
        "$SequenceNumber + 1 = 8",
        "$Incarnation = 1699",
        "$VersionNum = '1.0'",
        "$EventType = 'flight'",
        "$Securitylevel = 'med'",
        "$Liveness = 'live'",
        "starts-with($StreamId, 'asdi.') and /flight/leg/speed > $SequenceNumber",
        "//leg[altitude + speed > $Incarnation - 1000]",
    ],
)
def test_envelope_fields_are_variables(engine: Any, make_event: MakeEvent, query: str) -> None:
    assert matches(engine, query, make_event())


def test_prefixes_are_bound_by_the_subscription(engine: Any, make_event: MakeEvent) -> None:
    document = make_event(b'<flight xmlns:x="urn:x"><id>1</id><x:link href="there"/></flight>')
    assert matches(engine, "/flight/anything:link", document, anything="urn:x")
    assert not matches(engine, "/flight/x:link", document, x="urn:y")
    assert matches(engine, "/flight/*[name() = 'x:link']", document)
    assert not matches(engine, "/flight/link", document)


def test_same_text_with_other_prefixes_is_another_query(engine: Any, make_event: MakeEvent) -> None:
    document = make_event(b'<flight xmlns:x="urn:x"><id>1</id><x:link href="."/></flight>')
    right = engine.subscribe(ALL, parse_query("//p:link", {"p": "urn:x"}))
    wrong = engine.subscribe(ALL, parse_query("//p:link", {"p": "urn:y"}))
    (verdict,) = engine.match([document])
    assert right in verdict.subscriptions
    assert wrong not in verdict.subscriptions


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("/Mspaces:Event", True),
        ("/Mspaces:Event/Mspaces:StreamId = 'asdi.zbw'", True),
        ("/ child::Mspaces:Event /Mspaces:StreamId", True),
        ("/Mspaces:Event[Mspaces:StreamId = 'asdi.zbw']", True),
        ("/Mspaces:Event[Mspaces:StreamId = 'other']", False),
        ("/Mspaces:Event//Mspaces:SequenceNumber > 6", True),
        ("/Mspaces:Event/flight/leg[altitude = 290]", True),
        ("count(/Mspaces:Event/*)", True),
        ("/Mspaces:Event[2]", False),
        ("/Mspaces:Event/..", True),
        ("/Mspaces:EventId", False),
        ("-count(/Mspaces:Event/Mspaces:EventId/*) = -4", True),
    ],
)
def test_paths_from_mspaces_event_address_the_envelope(
    engine: Any, make_event: MakeEvent, query: str, expected: bool
) -> None:
    assert matches(engine, query, make_event()) is expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("/flight and /Mspaces:Event/Mspaces:StreamId", True),
        ("/Mspaces:Event/Mspaces:Event or /flight", True),
        ("/Mspaces:Event/Mspaces:EventId/Mspaces:SequenceNumber < /flight/leg/altitude", True),
        # Inside the predicates of an envelope path, `/` is the payload's document, too.
        ("/Mspaces:Event/Mspaces:EventId[/flight/leg/altitude = 290]", True),
        ("/Mspaces:Event/Mspaces:EventId[//altitude > Mspaces:SequenceNumber]", True),
        ("/Mspaces:Event[/Mspaces:Event/Mspaces:StreamId = 'asdi.zbw']/flight", True),
        ("/Mspaces:Event[//Mspaces:StreamId]", False),
        ("/Mspaces:Event[/flight[/Mspaces:Event/Mspaces:StreamId]]", True),
        ("/Mspaces:Event[count(/node()) = 1 and / = /flight]", True),
        ("/Mspaces:Event[///leg]", True),
        ("leg and /Mspaces:Event", True),
        ("/flight[leg/altitude = /Mspaces:Event/flight/leg/altitude]", True),
        ("count(/Mspaces:Event | /flight) = 2", True),
        ("/Mspaces:Event/Mspaces:EventType[@Securitylevel = $Securitylevel] and $ClientId", True),
    ],
)
def test_query_may_address_both_documents(
    engine: Any, make_event: MakeEvent, query: str, expected: bool
) -> None:
    assert matches(engine, query, make_event()) is expected


def test_without_payload_the_envelope_is_the_document(engine: Any, make_event: MakeEvent) -> None:
    document = make_event(None)
    assert matches(engine, "/Mspaces:Event/Mspaces:StreamId", document)
    assert matches(engine, "//Mspaces:StreamId", document)
    assert matches(engine, "Mspaces:StreamId", document)
    assert not matches(engine, "/flight", document)
    assert matches(engine, "/Mspaces:Event[//Mspaces:ClientId = 'pilot']", document)


def test_patterns_select_streams(engine: Any, make_event: MakeEvent) -> None:
    query = parse_query("/flight")
    patterns = ["asdi.>", "asdi.*", "asdi.*.tz", "asdi.zbw", "iff.>", ">"]
    by_number = {engine.subscribe(StreamPattern.parse(p), query): p for p in patterns}

    def matching_patterns(stream: str) -> set[str]:
        (verdict,) = engine.match([make_event(stream=stream)])
        return {by_number[n] for n in verdict.subscriptions}

    assert matching_patterns("asdi.zbw") == {"asdi.>", "asdi.*", "asdi.zbw", ">"}
    assert matching_patterns("asdi.zbw.tz") == {"asdi.>", "asdi.*.tz", ">"}
    assert matching_patterns("asdi.zbw") == {"asdi.>", "asdi.*", "asdi.zbw", ">"}
    assert matching_patterns("iff.x") == {"iff.>", ">"}
    assert matching_patterns("asdi") == {">"}


def test_subscription_applies_from_the_next_batch(engine: Any, make_event: MakeEvent) -> None:
    document = make_event()
    first = engine.subscribe(ALL, parse_query("/flight"))
    assert engine.match([document])[0].subscriptions == (first,)
    second = engine.subscribe(StreamPattern.parse("asdi.zbw"), parse_query("//leg"))
    assert engine.match([document])[0].subscriptions == (first, second)
    engine.unsubscribe(first)
    assert engine.match([document])[0].subscriptions == (second,)
    third = engine.subscribe(ALL, parse_query("/flight"))
    assert third > second
    assert engine.match([document])[0].subscriptions == (second, third)


def test_unsubscribing_twice_is_refused(engine: Any) -> None:
    number = engine.subscribe(ALL, parse_query("true()"))
    engine.unsubscribe(number)
    with pytest.raises(UnknownSubscription):
        engine.unsubscribe(number)
    with pytest.raises(UnknownSubscription):
        engine.select(number, [], Liveness.LIVE)


def test_missing_type_is_reported_with_the_pointer(engine: Any, make_event: MakeEvent) -> None:
    document = make_event(b"<unknown/>", type_name="unknown", system_id="https://there/x.dtd")
    expected = TypeMissing(DtdReference("unknown", "1.0"), "https://there/x.dtd")
    assert engine.match([document]) == [expected]


def test_type_that_was_added_is_no_longer_missing(
    engine: Any, dtds: Any, make_event: MakeEvent
) -> None:
    reference = DtdReference("flight", "2.0")
    dtd = dtds.by_reference.pop(reference)
    assert isinstance(engine.match([make_event(version="2.0")])[0], TypeMissing)
    dtds.by_reference[reference] = dtd
    assert isinstance(engine.match([make_event(version="2.0")])[0], Accepted)


def test_undescribed_type_is_accepted_on_request(engine: Any, make_event: MakeEvent) -> None:
    unknown = without_dtds([DtdReference("unknown", "1.0")])
    made = make_event(b"<unknown><n>5</n></unknown>", type_name="unknown")
    document = made.replace(b' Securitylevel="med"', b"")
    number = engine.subscribe(ALL, parse_query("/unknown/n = 5 and $EventType = 'unknown'"))
    level = engine.subscribe(ALL, parse_query("/Mspaces:Event/Mspaces:EventType/@Securitylevel"))
    (verdict,) = engine.match([document], variants=unknown)
    assert verdict.subscriptions == (number, level)
    assert verdict.header.security_level is SecurityLevel.MED
    assert isinstance(engine.match([document])[0], TypeMissing)


def test_selecting_from_a_log_applies_pattern_and_query(engine: Any, make_event: MakeEvent) -> None:
    number = engine.subscribe(StreamPattern.parse("asdi.*"), parse_query("//altitude > 280"))
    low = make_event(b"<flight><id>1</id><leg><altitude>270</altitude></leg></flight>")
    documents = [make_event(), low, make_event(stream="iff.x"), make_event()]
    assert engine.select(number, documents, Liveness.RECOVERY) == [True, False, False, True]


def test_a_logged_event_in_xml_1_1_is_refused(engine: Any, make_event: MakeEvent) -> None:
    """A replay from a log or an archive reads events so."""
    document = make_event().replace(b'version="1.0"', b'version="1.1"', 1)
    for query in ("true()", "//altitude"):
        number = engine.subscribe(StreamPattern.parse(">"), parse_query(query))
        with pytest.raises(NotWellFormed, match=r"XML version '1\.1' is not accepted"):
            engine.select(number, [document], Liveness.RECOVERY)


def test_selecting_from_a_log_uses_the_effective_liveness(
    engine: Any, make_event: MakeEvent
) -> None:
    document = make_event()
    number = engine.subscribe(ALL, parse_query("$Liveness = 'recovery'"))
    in_bytes = engine.subscribe(
        ALL, parse_query("/Mspaces:Event/Mspaces:EventType/@Liveness = 'recovery'")
    )
    assert engine.match([document])[0].subscriptions == ()
    assert engine.select(number, [document], Liveness.RECOVERY) == [True]
    assert engine.select(number, [document], Liveness.LIVE) == [False]
    assert engine.select(in_bytes, [document], Liveness.RECOVERY) == [False]


def test_selecting_from_a_log_applies_the_defaults_of_the_events_version(
    engine: Any, dtds: Any, make_event: MakeEvent
) -> None:
    number = engine.subscribe(ALL, parse_query("/flight/@kind = 'charter'"))
    documents = [make_event(version="1.0"), make_event(version="2.0")]
    assert engine.select(number, documents, Liveness.RECOVERY) == [False, True]
    del dtds.by_reference[DtdReference("flight", "2.0")]
    with pytest.raises(DtdNeeded) as caught:
        engine.select(number, documents, Liveness.RECOVERY)
    assert caught.value.missing.reference == DtdReference("flight", "2.0")
    assert caught.value.code == "unknown-type"
    without = without_dtds([DtdReference("flight", "2.0")])
    assert not any(engine.select(number, documents, Liveness.RECOVERY, variants=without))


def test_query_too_expensive_for_an_event_is_suspended_alone(
    engine: Any, make_event: MakeEvent
) -> None:
    query = "//remark[following::remark = 'x' or . = 'x']"
    expensive = engine.subscribe(ALL, parse_query(query))
    twin = engine.subscribe(StreamPattern.parse("iff.>"), parse_query(query))
    cheap = engine.subscribe(ALL, parse_query("//remark[. = 'x']"))
    small = make_event(b"<flight><id>1</id><remark>x</remark></flight>")
    large = make_event(b"<flight><id>1</id>%s</flight>" % (b"<remark>x</remark>" * 8_000))
    assert engine.match([small])[0].subscriptions == (expensive, cheap)
    assert engine.take_suspended() == []
    assert engine.match([large, small])[1].subscriptions == (cheap,)
    suspended = engine.take_suspended()
    # Its twin reads other streams, and was not evaluated.
    assert [number for number, _ in suspended] == [expensive]
    assert all(isinstance(error, QueryTooExpensive) for _, error in suspended)
    assert engine.take_suspended() == []
    assert engine.select(expensive, [small], Liveness.LIVE) == [False]
    assert engine.match([small])[0].subscriptions == (cheap,)
    engine.unsubscribe(expensive)
    engine.unsubscribe(twin)


def test_statistics_count_verdicts_and_queries(engine: Any, make_event: MakeEvent) -> None:
    engine.subscribe(ALL, parse_query("/flight"))
    engine.subscribe(ALL, parse_query("/flight"))
    engine.match([make_event(), b"<a>", make_event(type_name="unknown")])
    statistics = engine.statistics()
    assert statistics["accepted"] == 1
    assert statistics["type_missing"] == 1
    assert statistics["refused.not-well-formed"] == 1
    assert statistics["subscriptions"] == 2
    assert statistics["distinct_queries"] == 1
