"""Differences between versions of a type, and their effect on queries (M16)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.dtd.dtd import Dtd
from broker.matching.query.query import parse_query
from broker.matching.schema.schema_difference import (
    Effect,
    SchemaDifference,
    compare_versions,
    find_effect,
    sort_labels,
)

OLD = """
<!ELEMENT flight (id, leg*, note?)>
<!ATTLIST flight kind (scheduled | charter) "scheduled" unit CDATA #FIXED "kt" old CDATA #IMPLIED>
<!ELEMENT id (#PCDATA)>
<!ELEMENT leg (altitude, speed)>
<!ELEMENT altitude (#PCDATA)>
<!ELEMENT speed (#PCDATA)>
<!ELEMENT note (#PCDATA | note)*>
"""
NEW = """
<!ELEMENT flight (id, leg*, note?)>
<!ATTLIST flight kind (scheduled | cargo) "cargo" unit CDATA #IMPLIED new CDATA #IMPLIED>
<!ELEMENT id (part)>
<!ELEMENT part (#PCDATA)>
<!ELEMENT leg (level, speed)>
<!ELEMENT level (altitude)>
<!ELEMENT altitude (#PCDATA)>
<!ELEMENT speed (#PCDATA)>
<!ELEMENT note (#PCDATA | note | leg)*>
"""


@pytest.fixture(scope="module")
def between(make_dtd: Callable[..., Dtd]) -> SchemaDifference:
    return compare_versions(make_dtd(OLD), make_dtd(NEW, "2.0"))


def test_added_and_removed_paths(between: SchemaDifference) -> None:
    assert sort_labels(between.removed) == [
        "/flight/@old",
        "/flight/id/text()",
        "/flight/leg/altitude",
        "/flight/leg/altitude/text()",
    ]
    assert sort_labels(between.added) == [
        "/flight/@new",
        "/flight/id/part",
        "/flight/leg/level",
        "/flight/note/leg",
        "/flight/id/part/text()",
        "/flight/leg/level/altitude",
        "/flight/note/leg/level",
        "/flight/note/leg/speed",
        "/flight/leg/level/altitude/text()",
        "/flight/note/leg/level/altitude",
        "/flight/note/leg/speed/text()",
        "/flight/note/leg/level/altitude/text()",
    ]


def test_changed_values_and_defaults_in_words(between: SchemaDifference) -> None:
    assert between.changed == {
        "/flight/@kind": "'cargo' added, 'charter' removed, default 'scheduled' became 'cargo'",
        "/flight/@unit": "may be any text, default 'kt' became none",
    }


def test_new_recursion_is_an_added_path(make_dtd: Callable[..., Dtd]) -> None:
    old = "<!ELEMENT flight (a)><!ELEMENT a (b?)><!ELEMENT b EMPTY>"
    new = old.replace("b EMPTY", "b (a?)")
    between = compare_versions(make_dtd(old), make_dtd(new, "2.0"))
    assert between.added == {"/flight/a/b/a"} and not between.removed
    effect = find_effect(parse_query("//b[a]"), between)
    assert (effect.effect, effect.paths) == (Effect.GAINED, ("/flight/a/b/a",))


def test_changes_of_the_envelope_are_included(make_dtd: Callable[..., Dtd]) -> None:
    new = OLD + "<!ATTLIST Mspaces:Summary language CDATA #IMPLIED>"
    between = compare_versions(make_dtd(OLD), make_dtd(new, "2.0"))
    assert between.added == {"/Mspaces:Event/Mspaces:Summary/@language"}


def test_versions_are_compared_by_name_if_one_shares_nodes(
    make_dtd: Callable[..., Dtd],
) -> None:
    open_one = OLD.replace("<!ELEMENT note (#PCDATA | note)*>", "<!ELEMENT note ANY>")
    between = compare_versions(make_dtd(OLD), make_dtd(open_one, "2.0"))
    assert between.old.shared and between.new.shared
    assert "//leg" in between.added and "//flight/leg" not in between.added
    reads = find_effect(parse_query("/flight/leg/speed"), between)
    assert reads.effect is Effect.READS


@pytest.mark.parametrize(
    ("query", "effect", "paths"),
    [
        ("true()", Effect.UNAFFECTED, ""),
        ("/flight/leg/speed > 3", Effect.UNAFFECTED, ""),
        ("/*/leg/speed > 3", Effect.UNAFFECTED, ""),
        ("/flight/note", Effect.UNAFFECTED, ""),
        ("/nosuch", Effect.UNAFFECTED, ""),
        ("$StreamId = 'a'", Effect.UNAFFECTED, ""),
        ("/flight/leg/altitude > 3", Effect.LOST, "/flight/leg/altitude"),
        ("/flight/@old", Effect.LOST, "/flight/@old"),
        ("@kind = 'charter'", Effect.LOST, "/flight/@kind"),
        ("$VersionNum = '1.0'", Effect.LOST, ""),
        ("@new", Effect.GAINED, "/flight/@new"),
        ("@kind = 'cargo'", Effect.GAINED, "/flight/@kind"),
        ("leg/level/altitude", Effect.GAINED, "/flight/leg/level"),
        ("@kind = 'scheduled'", Effect.READS, "/flight/@kind"),
        ("@unit = 'kt'", Effect.READS, "/flight/@unit"),
        ("//altitude > 3", Effect.READS, "/flight/leg/altitude"),
        ("/flight[id = 'a']", Effect.READS, "/flight/id/part"),
        ("contains(/flight, 'a')", Effect.READS, "/flight/id/part"),
        ("//leg", Effect.READS, "/flight/note/leg"),
        ("count(/flight/leg/*) > 3", Effect.READS, "/flight/leg/altitude"),
        ("//*[local-name() = 'part'] or id", Effect.READS, "/flight/id/part"),
        ("not(/flight/@old)", Effect.READS, "/flight/@old"),
        ("/Mspaces:Event/flight/leg/altitude or id", Effect.READS, "/flight/leg/altitude"),
    ],
)
def test_the_effect_on_a_query(
    between: SchemaDifference, query: str, effect: Effect, paths: str
) -> None:
    found = find_effect(parse_query(query), between)
    assert found.effect is effect
    assert paths in found.paths if paths else found.paths == ()
    assert bool(found.reason) is (effect in (Effect.LOST, Effect.GAINED))


def test_the_reason_names_the_version_that_can_not_match(between: SchemaDifference) -> None:
    lost = find_effect(parse_query("leg/altitude"), between)
    assert lost.reason.startswith("the DTD flight 2.0 has no element 'altitude' in leg (column 5)")
    gained = find_effect(parse_query("@new"), between)
    assert gained.reason.startswith("the DTD flight 1.0 has no attribute 'new'")


def test_a_query_beyond_the_work_limit_reads_all_differences(
    between: SchemaDifference,
) -> None:
    found = find_effect(parse_query("/flight/leg/speed > 3"), between, work=3)
    assert found.effect is Effect.READS
    assert set(found.paths) == between.added | between.removed | between.changed.keys()


def test_types_that_are_too_large_have_no_differences(make_dtd: Callable[..., Dtd]) -> None:
    payloads = "".join(f"<!ELEMENT p{number} EMPTY>" for number in range(20))
    content = ", (" + "|".join(f"p{number}" for number in range(20)) + ")"
    between = compare_versions(make_dtd(payloads, content=content), make_dtd(OLD, "2.0"))
    assert not (between.added or between.removed or between.changed)
