from __future__ import annotations

from typing import cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from broker.dtd.assembly import AssemblyLimits
from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtd, IDtdCache, IDtdSource
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd, ForbiddenPointer, Overloaded, UnknownType

CATALOGUE = Catalogue.load(shipped_folder())
FLIGHT_1_0 = DtdReference("flight", "1.0")
FLIGHT_1_1 = DtdReference("flight", "1.1")
FLIGHT_2_0 = DtdReference("flight", "2.0")
HINT = FetchHint("https://dtd.example/x.dtd")


def text(root: str = "a", padding: int = 0) -> bytes:
    """Return a driver with its own content for each payload."""
    attributes = "".join(f" attribute{n} CDATA #IMPLIED" for n in range(padding))
    attlist = f"<!ATTLIST {root}{attributes}>" if padding else ""
    return (
        f'<!ENTITY % Mspaces.content ", {root}"><!ENTITY % m PUBLIC '
        '"-//xmlbroker//ELEMENTS Mspaces Envelope 1.0//EN" "mspaces-1.0.mod">%m;'
        f"<!ELEMENT {root} EMPTY>{attlist}"
    ).encode()


def reference(number: int, type_name: str = "a") -> DtdReference:
    return DtdReference(type_name, f"1.{number}")


@implementer(IDtdSource)
class ScriptedSource:
    """The test controls the answers."""

    def __init__(self, name: str = "a neighbour") -> None:
        self.name = name
        self.asked: list[tuple[DtdReference, FetchHint]] = []
        self.pending: list[Deferred[bytes]] = []

    def fetch(self, reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        self.asked.append((reference, hint))
        self.pending.append(Deferred())
        return self.pending[-1]


@implementer(IDtdSource)
class PointerRules:
    """Answers at once: a failure for a bad pointer."""

    name = "the event's pointer"

    def __init__(self) -> None:
        self.asked = 0

    def fetch(self, reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        self.asked += 1
        if hint.system_id == "bad":
            return fail(ForbiddenPointer("not there"))
        return succeed(text())


@implementer(IDtdSource)
class BrokenSource:
    name = "a broken source"

    def fetch(self, reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        raise ZeroDivisionError("a bug")


class CacheTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.source = ScriptedSource()
        self.newer: list[DtdReference] = []

    def cache(self, *sources: IDtdSource, limits: CacheLimits | None = None) -> DtdCache:
        chosen = cast("tuple[IDtdSource, ...]", sources or (self.source,))
        return DtdCache(CATALOGUE, chosen, limits or CacheLimits(), self.clock, self.newer.append)

    def test_it_keeps_its_interface(self) -> None:
        self.assertTrue(verifyObject(IDtdCache, self.cache()))

    def test_a_catalogue_type_is_available_at_once_without_other_sources(self) -> None:
        cache = self.cache()
        self.assertIsNone(cache.get(FLIGHT_1_0))
        dtd = self.successResultOf(cache.lookup(FLIGHT_1_0, HINT))
        self.assertEqual(dtd.reference, FLIGHT_1_0)
        self.assertIs(cache.get(FLIGHT_1_0), dtd)
        self.assertIs(self.successResultOf(cache.lookup(FLIGHT_1_0, HINT)), dtd)
        self.assertEqual(self.source.asked, [])

    def test_several_versions_live_side_by_side(self) -> None:
        cache = self.cache()
        old = self.successResultOf(cache.lookup(FLIGHT_1_0, HINT))
        new = self.successResultOf(cache.lookup(FLIGHT_1_1, HINT))
        self.assertNotIn("timestamp", old.names)
        self.assertIn("timestamp", new.names)
        self.assertIs(cache.get(FLIGHT_1_0), old)

    def test_the_versions_of_a_type_come_oldest_first_with_those_of_the_catalogue(self) -> None:
        cache = self.cache()
        for version in ("1.10", "1.9"):
            cache.add(DtdReference("flight", version), text())
        self.assertEqual(
            [known.version for known in cache.versions("flight")], ["1.0", "1.1", "1.9", "1.10"]
        )
        self.assertEqual(cache.versions("nothing"), ())
        self.assertEqual(len(cache.references()), len(CATALOGUE.references()) + 2)

    def test_a_hundred_lookups_are_one_fetch(self) -> None:
        cache = self.cache()
        found = [cache.lookup(reference(1), HINT) for _ in range(100)]
        self.assertEqual(self.source.asked, [(reference(1), HINT)])
        for each in found:
            self.assertNoResult(each)
        self.source.pending[0].callback(text())
        dtds = [self.successResultOf(each) for each in found]
        self.assertEqual(len({id(dtd) for dtd in dtds}), 1)
        self.assertIs(cache.get(reference(1)), dtds[0])

    def test_different_versions_are_fetched_at_the_same_time(self) -> None:
        cache = self.cache()
        first = cache.lookup(reference(1), HINT)
        second = cache.lookup(reference(2), HINT)
        self.source.pending[1].callback(text())
        self.assertNoResult(first)
        self.assertEqual(self.successResultOf(second).reference, reference(2))
        self.source.pending[0].callback(text())
        self.successResultOf(first)

    def test_a_waiter_that_gives_up_does_not_disturb_the_others(self) -> None:
        cache = self.cache()
        first, second = cache.lookup(reference(1), HINT), cache.lookup(reference(1), HINT)
        first.addErrback(lambda failure: None)
        first.cancel()
        self.source.pending[0].callback(text())
        self.successResultOf(second)

    def test_sources_are_asked_in_order_until_one_has_a_good_dtd(self) -> None:
        neighbour, pointer, last = (ScriptedSource(name) for name in ("n", "p", "l"))
        cache = self.cache(neighbour, pointer, last)
        found = cache.lookup(reference(1), HINT)
        self.assertEqual(pointer.asked, [])
        neighbour.pending[0].errback(UnknownType("not here"))
        pointer.pending[0].callback(b"<html>")
        last.pending[0].callback(text())
        self.successResultOf(found)

    def test_when_no_source_has_it_the_error_tells_what_each_said(self) -> None:
        neighbour, pointer = ScriptedSource("the neighbour"), ScriptedSource("the pointer")
        cache = self.cache(neighbour, pointer)
        found = cache.lookup(reference(1), HINT)
        neighbour.pending[0].errback(UnknownType("is silent"))
        pointer.pending[0].errback(UnknownType("answers 404"))
        said = str(self.failureResultOf(found, UnknownType).value)
        for part in (
            "a 1.1",
            "the catalogue",
            "the neighbour: is silent",
            "the pointer: answers 404",
        ):
            self.assertIn(part, said)

    def test_a_text_that_is_no_dtd_has_its_own_error(self) -> None:
        found = self.cache().lookup(reference(1), HINT)
        self.source.pending[0].callback(b"<html>")
        self.failureResultOf(found, BadDtd)

    def test_a_forbidden_pointer_has_its_own_error(self) -> None:
        found = self.cache(PointerRules()).lookup(reference(1), FetchHint("bad"))
        self.failureResultOf(found, ForbiddenPointer)

    def test_a_source_with_a_bug_is_logged_and_passed_over(self) -> None:
        found = self.cache(BrokenSource(), PointerRules()).lookup(reference(1), HINT)
        self.successResultOf(found)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_a_failure_is_remembered_for_a_while(self) -> None:
        cache = self.cache()
        found = cache.lookup(reference(1), HINT)
        self.source.pending[0].errback(UnknownType("no"))
        self.failureResultOf(found, UnknownType)
        self.clock.advance(29.9)
        again = self.failureResultOf(cache.lookup(reference(1), HINT), UnknownType)
        self.assertEqual(len(self.source.asked), 1)
        self.assertIn("a 1.1", str(again.value))
        self.clock.advance(0.2)
        later = cache.lookup(reference(1), HINT)
        self.assertEqual(len(self.source.asked), 2)
        self.source.pending[1].callback(text())
        self.successResultOf(later)

    def test_a_bad_pointer_does_not_keep_out_an_event_with_a_good_one(self) -> None:
        rules = PointerRules()
        cache = self.cache(rules)
        self.failureResultOf(cache.lookup(reference(1), FetchHint("bad")), ForbiddenPointer)
        self.failureResultOf(cache.lookup(reference(1), FetchHint("bad")), ForbiddenPointer)
        self.assertEqual(rules.asked, 1)
        self.successResultOf(cache.lookup(reference(1), FetchHint("good")))

    def test_one_that_waits_with_another_pointer_is_tried_with_its_own(self) -> None:
        cache = self.cache()
        bad = [cache.lookup(reference(1), FetchHint("bad")) for _ in range(3)]
        good = [cache.lookup(reference(1), FetchHint("good")) for _ in range(3)]
        self.assertEqual(len(self.source.asked), 1)
        self.source.pending[0].errback(ForbiddenPointer("no"))
        for each in bad:
            self.failureResultOf(each, ForbiddenPointer)
        self.assertEqual(
            [hint.system_id for _reference, hint in self.source.asked], ["bad", "good"]
        )
        self.source.pending[1].callback(text())
        for each in good:
            self.successResultOf(each)

    def test_failures_remembered_are_bounded(self) -> None:
        rules = PointerRules()
        cache = self.cache(rules, limits=CacheLimits(max_failures=2))
        for number in (1, 2, 3, 3, 2, 1):
            self.failureResultOf(
                cache.lookup(reference(number), FetchHint("bad")), ForbiddenPointer
            )
        # The third evicted the first, which was fetched again.
        self.assertEqual(rules.asked, 4)

    def test_the_number_of_waiting_logins_is_bounded(self) -> None:
        cache = self.cache(limits=CacheLimits(max_waiters=2))
        waiting = [cache.lookup(reference(1), HINT) for _ in range(2)]
        self.failureResultOf(cache.lookup(reference(1), HINT), Overloaded)
        self.source.pending[0].callback(text())
        for each in waiting:
            self.successResultOf(each)

    def test_adding_ends_a_remembered_failure(self) -> None:
        cache = self.cache(PointerRules())
        self.failureResultOf(cache.lookup(reference(1), FetchHint("bad")), ForbiddenPointer)
        dtd = cache.add(reference(1), text())
        self.assertIs(self.successResultOf(cache.lookup(reference(1), FetchHint("bad"))), dtd)

    def test_the_same_content_again_is_the_same_dtd(self) -> None:
        cache = self.cache()
        dtd = cache.add(reference(1), text())
        self.assertIs(cache.add(reference(1), b"<!-- spelt otherwise -->" + text()), dtd)
        self.assertIs(cache.add(reference(1), dtd.text), dtd)
        self.assertEqual(cache.conflicts, 0)

    def test_another_content_for_a_known_version_is_refused_and_counted(self) -> None:
        cache = self.cache()
        dtd = cache.add(reference(1), text())
        with self.assertRaises(BadDtd) as caught:
            cache.add(reference(1), text("b"))
        self.assertIn("a changed DTD needs a new version", str(caught.exception))
        self.assertIs(cache.get(reference(1)), dtd)
        self.assertEqual(cache.conflicts, 1)

    def test_another_content_for_a_type_of_the_catalogue_is_refused_loaded_or_not(self) -> None:
        for loaded in (False, True):
            cache = self.cache()
            if loaded:
                self.successResultOf(cache.lookup(FLIGHT_1_0, HINT))
            with self.assertRaises(BadDtd):
                cache.add(FLIGHT_1_0, text("flight"))
            dtd = self.successResultOf(cache.lookup(FLIGHT_1_0, HINT))
            self.assertIn("flightleg", dtd.names)
            self.assertIs(cache.add(FLIGHT_1_0, dtd.text), dtd)

    def test_a_text_that_is_no_dtd_can_not_be_added(self) -> None:
        cache = self.cache()
        with self.assertRaises(BadDtd):
            cache.add(reference(1), b"<!ELEMENT flight EMPTY>")
        self.assertIsNone(cache.get(reference(1)))

    def test_the_dtd_used_longest_ago_goes_first(self) -> None:
        cache = self.cache(limits=CacheLimits(max_fetched=2))
        cache.add(reference(1), text())
        cache.add(reference(2), text())
        cache.get(reference(1))
        cache.add(reference(3), text())
        self.assertEqual([bool(cache.get(reference(n))) for n in (1, 2, 3)], [True, False, True])

    def test_the_limits_of_one_dtd_are_those_of_the_cache(self) -> None:
        cache = self.cache(limits=CacheLimits(dtd=AssemblyLimits(max_declarations=5)))
        with self.assertRaises(BadDtd):
            cache.add(reference(1), text())

    def test_the_texts_of_fetched_dtds_are_bounded_in_size(self) -> None:
        cache = self.cache(limits=CacheLimits(max_fetched_bytes=12_000))
        for number in range(1, 6):
            cache.add(reference(number), text("a", padding=150))
        loaded = [number for number in range(1, 6) if cache.get(reference(number))]
        self.assertEqual(loaded, [4, 5])

    def test_types_of_the_catalogue_and_pinned_ones_stay(self) -> None:
        cache = self.cache(limits=CacheLimits(max_fetched=1))
        self.successResultOf(cache.lookup(FLIGHT_1_0, HINT))
        cache.add(reference(1), text())
        cache.pin(reference(1))
        for number in range(2, 10):
            cache.add(reference(number), text())
        self.assertIsNotNone(cache.get(FLIGHT_1_0))
        self.assertIsNotNone(cache.get(reference(1)))
        self.assertIsNone(cache.get(reference(8)))
        self.assertIsNotNone(cache.get(reference(9)))

    def test_unpinned_a_dtd_takes_part_again_but_not_one_of_the_catalogue(self) -> None:
        cache = self.cache(limits=CacheLimits(max_fetched=1))
        self.successResultOf(cache.lookup(FLIGHT_1_0, HINT))
        cache.add(reference(1), text())
        for each in (reference(1), FLIGHT_1_0):
            cache.pin(each)
            cache.unpin(each)
            cache.unpin(each)
        cache.add(reference(2), text())
        self.assertIsNone(cache.get(reference(1)))
        self.assertIsNotNone(cache.get(FLIGHT_1_0))

    def test_only_a_loaded_dtd_can_be_pinned(self) -> None:
        with self.assertRaises(UnknownType):
            self.cache().pin(reference(1))

    def test_a_dtd_that_had_to_go_does_not_come_back_changed(self) -> None:
        cache = self.cache(limits=CacheLimits(max_fetched=1))
        cache.add(reference(1), text())
        cache.add(reference(2), text())
        with self.assertRaises(BadDtd):
            cache.add(reference(1), text("b"))
        cache.add(reference(1), text())

    def test_a_removed_dtd_is_fetched_again_and_may_differ(self) -> None:
        cache = self.cache()
        cache.add(reference(1), text())
        self.assertTrue(cache.remove(reference(1)))
        self.assertFalse(cache.remove(reference(1)))
        self.assertIsNone(cache.get(reference(1)))
        found = cache.lookup(reference(1), HINT)
        self.source.pending[0].callback(text("b"))
        self.assertIn("b", self.successResultOf(found).names)

    def test_forgetting_drops_remembered_failures_and_pinned_ones(self) -> None:
        rules = PointerRules()
        cache = self.cache(rules)
        self.failureResultOf(cache.lookup(reference(1), FetchHint("bad")), ForbiddenPointer)
        self.assertFalse(cache.remove(reference(1)))
        self.failureResultOf(cache.lookup(reference(1), FetchHint("bad")), ForbiddenPointer)
        self.assertEqual(rules.asked, 2)
        self.successResultOf(cache.lookup(FLIGHT_1_0, HINT))
        self.assertTrue(cache.remove(FLIGHT_1_0))
        self.successResultOf(cache.lookup(FLIGHT_1_0, HINT))

    def test_a_new_latest_version_is_reported_in_its_own_reactor_turn(self) -> None:
        cache = self.cache()
        cache.add(FLIGHT_2_0, text())
        self.assertEqual(self.newer, [])
        self.clock.advance(0)
        self.assertEqual(self.newer, [FLIGHT_2_0])

    def test_a_first_an_older_and_a_known_version_are_no_news(self) -> None:
        cache = self.cache()
        cache.add(reference(5), text())
        cache.add(reference(4), text())
        cache.add(reference(5), text())
        self.successResultOf(cache.lookup(FLIGHT_1_0, HINT))
        self.successResultOf(cache.lookup(FLIGHT_1_1, HINT))
        self.clock.advance(0)
        self.assertEqual(self.newer, [])

    def test_without_a_hook_nobody_is_told(self) -> None:
        cache = DtdCache(CATALOGUE, (), CacheLimits(), self.clock)
        dtd: IDtd = cache.add(FLIGHT_2_0, text())
        self.clock.advance(0)
        self.assertEqual(dtd.reference, FLIGHT_2_0)
