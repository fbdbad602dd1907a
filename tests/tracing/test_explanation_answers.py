from __future__ import annotations

from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from broker.dtd.reference import DtdReference
from broker.errors import NotAllowed, Overloaded, UnknownType
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from broker.identity import Identity, Rights, anonymous_identity
from broker.matching.contract import NO_VARIANTS, DtdNeeded, TypeMissing
from broker.matching.explain.explanation import EventExplanation, Explanation
from broker.matching.query.query import parse_query
from broker.tracing.explanation_answers import (
    MAX_WAITING,
    MAX_WAITING_OF_HOLDER,
    PAUSE_FACTOR,
    ExplanationAnswers,
)
from broker.wire.messages import Ask

MISSING = DtdReference("heard", "1.0")


@attrs.define
class FakeMatcher:
    """An explanation takes a second; `missing` is a type without its DTD."""

    clock: Clock
    missing: DtdReference | None = None
    asked: int = 0
    shapes: bool = False
    """Shapes of documents were requested."""

    def explain(
        self, query: Any, document: Any, variants: Any = NO_VARIANTS, *, shapes: bool
    ) -> Any:
        self.asked += 1
        self.shapes = shapes
        self.clock.rightNow += 1.0
        if document and self.missing and self.missing not in variants:
            raise DtdNeeded(TypeMissing(self.missing, ""))
        event = EventExplanation(matches=True) if document else None
        return Explanation("fake", query.text, 1, False, event=event)


@attrs.define
class FakeDtds:
    matcher: FakeMatcher
    found: bool = True

    def lookup(self, reference: DtdReference, hint: Any) -> Deferred[None]:
        assert (reference, hint.system_id) == (MISSING, "")
        if not self.found:
            return fail(UnknownType("nobody has it"))
        self.matcher.missing = None
        return succeed(None)


class FakeFate:
    async def trace_event(self, *asked: Any, here: bool) -> None:
        """Return None."""


class ExplainingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.matcher = FakeMatcher(self.clock)
        self.dtds = FakeDtds(self.matcher)

    def make(self, *, accept_undescribed: bool = False) -> ExplanationAnswers:
        untyped: Any = (self.matcher, self.dtds, None)
        matcher, dtds, deliverability = untyped
        return ExplanationAnswers(
            matcher=matcher,
            dtds=dtds,
            advise=lambda query, returning: (f"no event matches {query.text}",),
            parse_query=parse_query,
            delivery_fates=deliverability,
            network_trace=cast(Any, FakeFate()),
            reactor=self.clock,
            stopwatch=self.clock.seconds,
            accept_undescribed=accept_undescribed,
        )

    def ask(
        self, explaining: ExplanationAnswers, client: str = "me", document: bytes = b""
    ) -> Deferred[dict[str, Any]]:
        return explaining.answer(
            anonymous_identity(client), Ask(1, "explain", {"query": "//a"}, document)
        )

    def test_a_pause_follows_each_explanation(self) -> None:
        explaining = self.make()
        first, second = (self.ask(explaining) for _ in range(2))
        self.successResultOf(first)
        self.assertNoResult(second)
        self.clock.advance(PAUSE_FACTOR - 0.1)
        self.assertNoResult(second)
        self.clock.advance(0.2)
        self.assertEqual(self.successResultOf(second)["explanation"]["query"], "//a")

    def test_a_query_that_can_not_match_causes_a_warning(self) -> None:
        told = self.successResultOf(self.ask(self.make()))
        self.assertEqual(told["warnings"], ["no event matches //a"])

    def test_too_many_waiting_questions_are_refused(self) -> None:
        explaining = self.make()
        self.successResultOf(self.ask(explaining, "first"))
        for _ in range(MAX_WAITING_OF_HOLDER):
            self.assertNoResult(self.ask(explaining))
        self.failureResultOf(self.ask(explaining), Overloaded)
        for number in range(MAX_WAITING - MAX_WAITING_OF_HOLDER):
            self.assertNoResult(self.ask(explaining, f"c{number}"))
        self.failureResultOf(self.ask(explaining, "late"), Overloaded)
        self.clock.pump([PAUSE_FACTOR + 0.1] * (MAX_WAITING + 1))
        self.assertEqual(self.matcher.asked, 1 + MAX_WAITING)
        self.successResultOf(self.ask(explaining))

    def test_a_missing_dtd_is_fetched(self) -> None:
        self.matcher.missing = MISSING
        told = self.successResultOf(self.ask(self.make(), document=b"<e/>"))
        self.assertTrue(told["explanation"]["event"]["matches"])

    def test_without_a_dtd_the_event_is_refused_or_accepted_as_by_the_node(self) -> None:
        self.matcher.missing, self.dtds.found = MISSING, False
        told = self.successResultOf(self.ask(self.make(), document=b"<e/>"))
        self.assertEqual(told["explanation"]["event"]["refused"][0], "unknown-type")
        accepting = self.make(accept_undescribed=True)
        told = self.successResultOf(self.ask(accepting, document=b"<e/>"))
        self.assertTrue(told["explanation"]["event"]["matches"])

    def test_shapes_of_documents_are_shown_only_to_readers_of_all_streams(self) -> None:
        asdi = Rights(subscribe=(StreamPattern.parse("asdi.>"),))
        for rights, clearance, administer, shown in (
            (Rights.to_everything(), SecurityLevel.HIGH, False, True),
            (Rights.to_everything(), SecurityLevel.MED, False, False),
            (asdi, SecurityLevel.HIGH, False, False),
            (asdi, SecurityLevel.LOW, True, True),
        ):
            identity = Identity("a", "me", rights, clearance, administer)
            self.successResultOf(self.make().answer(identity, Ask(1, "explain", {"query": "//a"})))
            self.assertEqual(self.matcher.shapes, shown)

    def test_a_failure_lets_the_next_question_run(self) -> None:
        explaining = self.make()
        identity = attrs.evolve(anonymous_identity("me"), administer=False)
        about_another = Ask(1, "explain", {"query": "//a", "client": "you"})
        self.failureResultOf(explaining.answer(identity, about_another), NotAllowed)
        self.successResultOf(self.ask(explaining))

    def test_a_stopped_node_leaves_no_timer(self) -> None:
        explaining = self.make()
        self.successResultOf(self.ask(explaining))
        explaining.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
