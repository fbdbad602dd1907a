"""Warnings about queries that can never match (X10)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.matching.query.query import parse_query
from broker.matching.schema import known_types, query_advisor
from broker.matching.schema.known_types import KnownTypes
from broker.matching.schema.query_advisor import MAX_NEW_SCHEMAS, QueryAdvisor

SHIP = """
<!ELEMENT flight (mast+)>
<!ELEMENT mast (#PCDATA)>
<!ATTLIST mast height CDATA #IMPLIED>
"""


@pytest.fixture
def dtds() -> DtdCache:
    return DtdCache(Catalogue.load(shipped_folder()), (), CacheLimits(), Clock())


@pytest.fixture
def types(dtds: DtdCache) -> KnownTypes:
    return KnownTypes(dtds, Catalogue.load(shipped_folder()), ())


def warnings(types: KnownTypes, query: str, *, returning: bool = False) -> tuple[str, ...]:
    advisor = QueryAdvisor(types, undescribed=False)
    return advisor.find_warnings(parse_query(query), returning)


@pytest.mark.parametrize(
    "query",
    [
        "true()",
        "/flight/flightleg[altitude > 300]",
        "//timestamp",
        "//Param[@name = 'SC_Lat' and @value > 600]",
        "/asdi[@type = 'TZ']/track/speed > 400",
        "/Mspaces:Event/Mspaces:EventLinkage/Mspaces:BundleId = 'storm'",
        "$Securitylevel = 'high'",
        "//Mspaces:Summary",
        "not(//nosuch)",
    ],
)
def test_a_query_that_a_type_can_match_gets_no_warning(types: KnownTypes, query: str) -> None:
    assert warnings(types, query) == ()


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        (
            "/flight/flightleg[@statsu]",
            "the DTD flight 1.1 has no attribute 'statsu' on flightleg (column 19); "
            "there is 'status'",
        ),
        ("//Param/@nam", "the DTD VOEvent 2.0 has no attribute 'nam' on Param (column 9)"),
        ("/asdi[@type = 'XX']", "the DTD asdi 1.0 says that attribute 'type' of asdi is"),
        ("$Securitylevel = 'secret'", "says that $Securitylevel is 'high', 'low' or 'med'"),
        ("1 = 2", "makes this comparison always false (column 3)"),
    ],
)
def test_an_unmatchable_query_gets_a_warning_for_the_closest_type(
    types: KnownTypes, query: str, warning: str
) -> None:
    (told,) = warnings(types, query)
    assert told.startswith("no event of the known types can match: the DTD ")
    assert warning in told


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        ("/flihgt", "the DTD flight 1.1 has no root element 'flihgt' (column 2)"),
        ("//nosuch > 3", "has no element 'nosuch' (column 3)"),
        ("$EventType = 'weather'", "says that $EventType is"),
        ("/flight and $VersionNum = '7.5'", "says that $VersionNum is"),
    ],
)
def test_the_warning_for_an_unknown_type_is_limited(
    types: KnownTypes, query: str, warning: str
) -> None:
    (told,) = warnings(types, query)
    unmet = "but one of an unknown type or version may"
    assert told.startswith(f"no event of the known types can match, {unmet}: the DTD ")
    assert warning in told


def test_a_type_added_later_is_considered(
    dtds: DtdCache, types: KnownTypes, make_dtd: Callable[..., Dtd]
) -> None:
    advisor = QueryAdvisor(types, undescribed=False)
    query = parse_query("//mast/@height > 3")
    for _ in range(2):
        assert advisor.find_warnings(query, False) != ()
    dtds.add(DtdReference("ship", "1.0"), make_dtd(SHIP).text)
    assert advisor.find_warnings(query, False) == ()


def test_the_warning_mentions_types_without_a_dtd_if_they_are_accepted(types: KnownTypes) -> None:
    advisor = QueryAdvisor(types, undescribed=True)
    (told,) = advisor.find_warnings(parse_query("/nosuch"), False)
    assert told.endswith(". Events without a DTD may match")


def test_a_type_without_a_schema_may_match_anything(
    types: KnownTypes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asdi, get_schema = DtdReference("asdi", "1.0"), types.get_schema
    monkeypatch.setattr(types, "get_schema", lambda r: None if r == asdi else get_schema(r))
    assert warnings(types, "/nosuch") == ()


def test_a_returning_subscriber_is_warned_if_only_older_versions_match(
    dtds: DtdCache, types: KnownTypes, make_dtd: Callable[..., Dtd]
) -> None:
    dtds.add(DtdReference("ship", "1.0"), make_dtd(SHIP).text)
    newer = make_dtd(SHIP.replace("height", "length")).text
    dtds.add(DtdReference("ship", "1.10"), newer)
    dtds.add(DtdReference("ship", "1.9"), make_dtd(SHIP).text)
    assert warnings(types, "//mast/@height") == ()
    assert warnings(types, "//mast/@height", returning=True) == (
        "the newest version can not match, though an older one can: the DTD ship 1.10 has no "
        "attribute 'height' on mast (column 8)",
    )
    assert warnings(types, "//mast/@length", returning=True) == ()
    assert warnings(types, "/flight/flightleg/speed", returning=True) == ()


def test_a_returning_subscriber_needs_no_schema_of_a_type_with_one_version(
    types: KnownTypes,
) -> None:
    assert warnings(types, "/flight/flightleg/speed", returning=True) == ()
    ready = {reference.type for reference in types.references() if types.has_schema(reference)}
    assert "asdi" in {reference.type for reference in types.references()}
    assert ready == {"flight", "event", "VOEvent"}


def test_types_in_folders_are_known_but_not_cached(
    tmp_path: Path, dtds: DtdCache, make_dtd: Callable[..., Dtd]
) -> None:
    ship, broken = DtdReference("ship", "1.0"), DtdReference("broken", "1.0")
    (tmp_path / "ship.dtd").write_bytes(make_dtd(SHIP).text)
    (tmp_path / "broken.dtd").write_text("<!ELEMENT")
    entries = "".join(
        f'<public publicId="{each.public_id}" uri="{each.type}.dtd"/>' for each in (ship, broken)
    )
    (tmp_path / "catalog.xml").write_text(
        f'<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog">{entries}</catalog>'
    )
    folder = Catalogue.load(tmp_path)
    types = KnownTypes(dtds, Catalogue.load(shipped_folder()), (folder,))
    assert warnings(types, "//mast/@height") == ()
    assert ship in types.references() and dtds.get(ship) is None
    assert types.get_schema(broken) is None


def test_cached_results_are_bounded(types: KnownTypes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_advisor, "MAX_CACHED", 3)
    monkeypatch.setattr(known_types, "MAX_SCHEMAS", 2)
    advisor = QueryAdvisor(types, undescribed=False)
    for number in range(6):
        (told,) = advisor.find_warnings(parse_query(f"/nosuch{number}"), False)
        assert f"nosuch{number}" in told
    assert (len(advisor._cache), len(types._schemas)) == (3, 2)


def test_too_much_work_over_all_types_means_no_warning(
    types: KnownTypes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert warnings(types, "/nosuch") != ()
    monkeypatch.setattr(query_advisor, "MAX_TOTAL_WORK", 5)
    assert warnings(types, "/nosuch") == ()


def test_a_warning_has_a_maximum_length(types: KnownTypes) -> None:
    (told,) = warnings(types, f"/flight/{'x' * 3000}")
    assert len(told) <= query_advisor.MAX_WARNING_LENGTH and re.search("x{80}' in flight", told)


def test_a_returning_subscriber_costs_a_few_new_schemas_at_a_time(
    dtds: DtdCache, types: KnownTypes, make_dtd: Callable[..., Dtd]
) -> None:
    text = make_dtd(SHIP).text
    for number in range(10):
        for version in ("1.0", "1.1"):
            dtds.add(DtdReference(f"ship{number}", version), text)

    def ready() -> int:
        return sum(types.has_schema(each) for each in types.references())

    warnings(types, "//mast/@height")
    before = ready()
    for _ in range(2):
        warnings(types, "//mast/@height", returning=True)
        assert ready() <= before + MAX_NEW_SCHEMAS
        before = ready()
    for _ in range(20):
        warnings(types, "//mast/@height", returning=True)
    assert all(types.has_schema(DtdReference(f"ship{n}", "1.1")) for n in range(10))


SIRI = """
<!ELEMENT Siri (Delivery)>
<!ATTLIST Siri xmlns CDATA #FIXED "http://www.siri.org.uk/siri" version CDATA #IMPLIED>
<!ELEMENT Delivery (VehicleActivity*)>
<!ELEMENT VehicleActivity (Delay?, flight?)>
<!ELEMENT Delay (#PCDATA)>
<!ELEMENT flight EMPTY>
<!ATTLIST flight xmlns CDATA #IMPLIED>
"""
SIRI_HELP = (
    "in http://www.siri.org.uk/siri in the DTD siri 2.0: use --namespace "
    "siri=http://www.siri.org.uk/siri and siri:VehicleActivity, "
    "or --namespace http://www.siri.org.uk/siri for all names without prefix"
)


@pytest.mark.parametrize(
    ("query", "advice"),
    [
        (
            "//VehicleActivity",
            f"'VehicleActivity' is in no namespace in the query, but {SIRI_HELP}",
        ),
        (
            "$Securitylevel = 'low' and //VehicleActivity[not(Delay)]/Delay",
            f"'VehicleActivity' and 'Delay' are in no namespace in the query, but {SIRI_HELP}",
        ),
        ("//s:VehicleActivity/Delay > 60", "siri in the DTD siri 2.0: write s:Delay"),
    ],
)
def test_a_name_that_is_only_in_a_namespace_gets_advice(
    dtds: DtdCache, types: KnownTypes, make_dtd: Callable[..., Dtd], query: str, advice: str
) -> None:
    dtds.add(DtdReference("siri", "2.0"), make_dtd(SIRI, content=", Siri").text)
    advisor = QueryAdvisor(types, undescribed=True)
    parsed = parse_query(query, {"s": "http://www.siri.org.uk/siri"} if "s:" in query else {})
    (told,) = advisor.find_warnings(parsed, False)
    assert told.endswith(advice), told


@pytest.mark.parametrize(
    ("query", "bindings"),
    [
        ("//VehicleActivity", {"": "http://www.siri.org.uk/siri"}),
        ("//siri:VehicleActivity", {"siri": "http://www.siri.org.uk/siri"}),
        ("//*[@version] | //@Delay | //VehicleActivity[@version]/..", {"": "urn:any"}),
        ("//flight", {}),
        ("$ClientId = 'VehicleActivity'", {}),
    ],
)
def test_other_names_get_no_advice(
    dtds: DtdCache,
    types: KnownTypes,
    make_dtd: Callable[..., Dtd],
    query: str,
    bindings: dict[str, str],
) -> None:
    dtds.add(DtdReference("siri", "2.0"), make_dtd(SIRI, content=", Siri").text)
    found = QueryAdvisor(types, undescribed=False).find_warnings(
        parse_query(query, bindings), False
    )
    assert [each for each in found if "--namespace" in each] == []


def test_the_warning_has_names_and_columns_as_the_author_wrote_them(types: KnownTypes) -> None:
    query = parse_query("/flight/flightleg/altitude > 3", {"": "urn:flights"})
    (told,) = QueryAdvisor(types, undescribed=False).find_warnings(query, False)
    assert "has no root element 'flight' (column 2); there is 'flight' in no namespace" in told
    query = parse_query("/*/flightleg[altitude > 3]/x", {"": "urn:flights"})
    (told,) = QueryAdvisor(types, undescribed=False).find_warnings(query, False)
    assert "no element 'flightleg'" in told and "(column 4)" in told


def test_a_uri_in_advice_is_quoted_for_a_shell(
    dtds: DtdCache, types: KnownTypes, make_dtd: Callable[..., Dtd]
) -> None:
    text = SIRI.replace("http://www.siri.org.uk/siri", "urn:$(rm -rf ~);x")
    dtds.add(DtdReference("siri", "2.0"), make_dtd(text, content=", Siri").text)
    (told,) = warnings(types, "//Delay")
    assert "--namespace 'x=urn:$(rm -rf ~);x' and x:Delay" in told


def test_advice_lists_types_only_after_a_change(
    dtds: DtdCache, types: KnownTypes, make_dtd: Callable[..., Dtd], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = parse_query("//VehicleActivity")
    while types.namespaced_names(1) is None:
        pass
    monkeypatch.setattr(types, "references", lambda: pytest.fail("it lists all types"))
    assert types.namespaced_names(0) is not None
    monkeypatch.undo()
    dtds.add(DtdReference("siri", "2.0"), make_dtd(SIRI, content=", Siri").text)
    found = QueryAdvisor(types, undescribed=True).find_warnings(query, False)
    assert any("siri:VehicleActivity" in each for each in found)


def test_types_are_read_in_portions(types: KnownTypes) -> None:
    portions = 1
    while types.namespaced_names(2) is None:
        portions += 1
    assert portions == (len(types.references()) + 1) // 2


@pytest.mark.parametrize("bound", ["MAX_NAMES", "MAX_NAMED_TYPES"])
def test_names_for_advice_are_bounded(
    dtds: DtdCache,
    types: KnownTypes,
    make_dtd: Callable[..., Dtd],
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
) -> None:
    dtds.add(DtdReference("siri", "2.0"), make_dtd(SIRI, content=", Siri").text)
    monkeypatch.setattr(known_types, bound, 3 if bound == "MAX_NAMED_TYPES" else 60)
    for _ in range(len(types.references())):
        names = types.namespaced_names(2)
        assert types._names <= known_types.MAX_NAMES
        assert len(types._namespaces) <= known_types.MAX_NAMED_TYPES
    assert names is not None
    assert names.advise(parse_query("//VehicleActivity"), frozenset({"VehicleActivity"})) == ""
