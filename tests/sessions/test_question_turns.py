from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from broker.errors import NotAllowed, Overloaded
from broker.identity.identity import Identity, anonymous_identity
from broker.limit_registry import LimitRegistry
from broker.sessions.question_turns import BURST, FACTOR, MAX_WAITING, QuestionTurns
from broker.transport.clock import IClock
from broker.wire.messages import Ask

ASK = Ask(1, "question", {}, b"")


def identity(account: str) -> Identity:
    return attrs.evolve(anonymous_identity("c"), account=account)


class QuestionTurnsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.limits = LimitRegistry()
        self.turns = QuestionTurns(cast(IClock, self.clock), self.limits)
        self.answered: list[str] = []

    def ask(self, account: str, seconds: float) -> Any:
        def answer(asking: Identity, ask: Ask) -> Deferred[str]:
            self.clock.rightNow += seconds
            self.answered.append(asking.account)
            return succeed(asking.account)

        return self.turns.share(answer)(identity(account), ASK)

    def test_an_account_gets_a_tenth_of_the_time(self) -> None:
        seconds = BURST / 10
        for _ in range(101):
            self.ask("a", seconds)
        began = self.clock.seconds()
        while len(self.answered) < 101:
            self.clock.advance(seconds)
        # Its burst is two answers.
        took = self.clock.seconds() - began
        self.assertApproximates(took, 99 * seconds * FACTOR - BURST, 3 * seconds * FACTOR)

    def test_others_do_not_wait_for_it(self) -> None:
        self.ask("a", 1.0)
        late = self.ask("a", 1.0)
        self.successResultOf(self.ask("b", 0.001))
        self.assertNoResult(late)
        self.clock.advance(FACTOR)
        self.assertEqual(self.successResultOf(late), "a")

    def test_few_short_questions_are_answered_at_once(self) -> None:
        for _ in range(20):
            self.successResultOf(self.ask("a", BURST / 20 / FACTOR))

    def test_too_many_questions_are_refused_and_counted(self) -> None:
        self.ask("a", 1.0)
        for _ in range(MAX_WAITING):
            self.ask("a", 0.0)
        with pytest.raises(Overloaded):
            self.ask("a", 0.0)
        (row,) = self.limits.snapshot()
        self.assertEqual((row["used"], row["reached"]), (MAX_WAITING, 1))
        self.clock.advance(FACTOR)
        self.clock.pump([0.0] * MAX_WAITING)
        self.assertEqual(len(self.answered), 1 + MAX_WAITING)
        self.ask("b", 0.0)
        self.assertEqual(list(self.turns._accounts), ["account b"])

    def test_an_error_of_a_late_answer_goes_to_its_asker(self) -> None:
        def refuse(*_: object) -> Any:
            self.clock.rightNow += 1.0
            raise NotAllowed("no")

        asked = self.turns.share(refuse)
        with pytest.raises(NotAllowed):
            asked(identity("a"), ASK)
        late = asked(identity("a"), ASK)
        self.clock.advance(FACTOR)
        self.failureResultOf(late, NotAllowed)
