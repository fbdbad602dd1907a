"""Questions about the paths of an event."""

from __future__ import annotations

from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from broker.errors import NotAllowed
from broker.identity import anonymous_identity
from broker.log.event_log import EventLog
from broker.tracing.event_fate import NoOtherNodes
from broker.tracing.event_paths import MAX_WAITING, EventPaths, PathsQuestion
from broker.wire.codec import pack


class WaitingLog:
    """A log that is never read to its end."""

    def first_at(self, ms: int) -> int:
        return 1

    @property
    def bounds(self) -> Any:
        @attrs.frozen
        class Bounds:
            first: int = 1
            last: int = 10

        return Bounds()

    def read(self, *_: object, **__: object) -> Deferred[Any]:
        return Deferred()


def make_paths() -> EventPaths:
    return EventPaths(cast(EventLog, WaitingLog()), None, NoOtherNodes(), "n0")


class TestEventPaths(SynchronousTestCase):
    def test_an_account_without_the_right_learns_nothing(self) -> None:
        identity = attrs.evolve(anonymous_identity("desk"), administer=False)
        found = Deferred.fromCoroutine(make_paths().find_paths(identity, "feed/1/1@1"))
        self.failureResultOf(found, NotAllowed)

    def test_malformed_questions_and_many_get_no_answer(self) -> None:
        paths = make_paths()

        def ask(content: bytes) -> Deferred[Any]:
            return Deferred.fromCoroutine(paths.answer_question(content))

        self.assertIsNone(self.successResultOf(ask(b"\xc1")))
        question = pack(PathsQuestion("feed", 1, 1, 1))
        for _ in range(MAX_WAITING + 1):
            self.assertNoResult(ask(question))
        self.assertIsNone(self.successResultOf(ask(question)))
